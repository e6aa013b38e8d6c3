"""The report's page in a real Chromium: drawn, zoomed, sorted, filtered, on a phone, in the dark, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch.lab.campaign_report.report import write_report
from tests.browser import Browser, browser, chromium

# `make tools` installs Chromium where that needs no question; elsewhere the summary of `make test-real` names the skip
pytestmark = [pytest.mark.real, pytest.mark.skipif(not chromium(), reason="no Chromium on this machine: make tools")]
EVIL = "<script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\"> שלום &amp; ' </script>"
PLOT = "document.getElementById('progress-plot')"
NAMES = "[...document.querySelectorAll('#rows td.name')].map(cell => cell.textContent)"
OVERLAPS = """(() => {
  const labels = [...document.querySelectorAll('#progress-plot .annotation rect.bg')];
  const boxes = labels.map(one => one.getBoundingClientRect());
  const pairs = boxes.flatMap((a, n) => boxes.slice(n + 1).map(b => [a, b]));
  return pairs.filter(([a, b]) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top).length;
})()"""


@pytest.fixture
def chrome(tmp_path: Path) -> Iterator[Browser]:
    """It fetches nothing and complains of nothing, whatever the test does."""
    with browser(tmp_path / "profile") as one:
        yield one
        assert (one.requests, one.console) == ([], [])


def page_of(made: Any) -> str:
    state = made.state()
    with mock.patch("autoresearch.lab.campaign_report.report.write_png"):
        return write_report(made.place, state, made.stand(state), now=made.clock).page.as_uri()


def many(campaign: Callable[..., Any], count: int, kept: int) -> Any:
    made = campaign()
    for n in range(2, count + 1):
        made.idea(f"i{n}", git=False, overrides={"lr": round(1e-4 * n, 6), "hidden": 32 * (n % 7 + 1)})
        good = n % (count // kept) == 0
        value = 0.5 + n / 10 / count if good else 0.4 + n % 13 / 200
        made.run(f"i{n}", value, "keep" if good else "discard", curve=False)
    return made


def test_zoom_hover_and_log_axis(lived: Any, chrome: Browser) -> None:
    chrome.open(page_of(lived))
    assert chrome.js(f"{PLOT}.querySelectorAll('.annotation').length") == 3 and chrome.js(OVERLAPS) == 0
    box = chrome.js(f"(() => {{ {PLOT}.scrollIntoView(); const b = {PLOT}.querySelector('.nsewdrag')"
                    ".getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")  # fmt: skip
    x, y = chrome.js(f"(() => {{ const l = {PLOT}._fullLayout; return [l.xaxis.d2p(9), l.yaxis.d2p(0.65)]; }})()")
    chrome.mouse("mouseMoved", box[0] + x + 1, box[1] + y + 1)
    chrome.settle()
    words = chrome.js(f"{PLOT}.querySelector('.hoverlayer').textContent")
    assert "#9 lr=0.3 (on #2)" in words and "+0.05 to +0.25" in words and "Lower KL" in words
    chrome.drag((box[0] + box[2] * 0.5, box[1] + 40), (box[0] + box[2] * 0.9, box[1] + box[3] * 0.7))
    low, high = chrome.js(f"{PLOT}._fullLayout.xaxis.range")
    assert low > 4 and high < 10.5
    chrome.js("render()")
    assert chrome.js(f"{PLOT}._fullLayout.xaxis.range") == [low, high], "a live page keeps the zoom"
    chrome.js("document.getElementById('log').click()")
    chrome.settle()
    assert chrome.js(f"{PLOT}._fullLayout.yaxis.type") == "log"


def test_sort_filter_and_curves(lived: Any, chrome: Browser) -> None:
    chrome.open(page_of(lived))
    assert len(chrome.js(NAMES)) == 10
    for _ in range(2):  # ascending, then descending
        chrome.js("document.querySelector('[data-sort=value]').click()")
    names = chrome.js(NAMES)
    assert names[0] == "#7 On the lucky one (on #6)"
    assert set(names[-2:]) == {"#4 Twice the batch (on #2)", "#10 Under way"}
    chrome.js("$('find').value = 'LUCKY #7', $('find').oninput()")
    assert chrome.js(NAMES) == ["#7 On the lucky one (on #6)"]
    chrome.js("$('find').value = '', $('find').oninput(), standing.value = 'discarded', standing.onchange()")
    assert chrome.js(NAMES) == ["#3 lr=0.05"] and chrome.js("shown.textContent") == "1 of 10 shown"
    chrome.js("standing.value = 'better than the baseline, not the best', standing.onchange()")
    assert chrome.js(NAMES) == ["#5 Change the warm-up (on #2)"]
    chrome.js("render()")
    assert len(chrome.js(NAMES)) == 1, "a live page keeps the filter"
    chrome.js("document.querySelector('#rows td.name button').click()")
    chrome.settle()
    drawn = chrome.js("[...document.getElementById('curves-plot').data].map(trace => trace.name)")
    assert drawn == ["#1 baseline"] * 3 + ["#5 Change the warm-up (on #2)"]
    assert chrome.js("document.querySelectorAll('th[scope=col]').length") > 8
    assert not chrome.js("document.body.innerText.match(/.{0,60}(?<![/])\\b(null|undefined|NaN)\\b.{0,20}/)?.[0]")


@pytest.mark.parametrize(("width", "dark"), [(320, False), (1240, True)], ids=["phone", "dark"])
def test_on_a_phone_and_in_the_dark(lived: Any, chrome: Browser, width: int, dark: bool) -> None:
    chrome.open(page_of(lived), width=width, height=640, dark=dark)
    assert chrome.js("document.documentElement.scrollWidth") <= width
    assert chrome.js("document.documentElement.classList.contains('dark')") is dark
    ink = chrome.js(f"getComputedStyle({PLOT}.querySelector('.xtick text')).fill")
    chrome.js("document.getElementById('theme').click()")
    chrome.settle()
    assert chrome.js("document.documentElement.classList.contains('dark')") is not dark
    assert chrome.js(f"getComputedStyle({PLOT}.querySelector('.xtick text')).fill") != ink, "plots follow"


def test_the_table_on_a_phone(lived: Any, chrome: Browser) -> None:
    """It does not scroll sideways; what is left out comes with "more", and what it is sorted by is shown."""
    chrome.open(page_of(lived), width=390, height=800)
    assert chrome.js("(box => box.scrollWidth - box.clientWidth)(document.querySelector('#ideas .card'))") == 0
    shown = ("[...document.querySelectorAll('#rows tr:nth-child(2) td')].filter(cell => cell.getClientRects().length)"
             ".map(cell => cell.innerText)")  # fmt: skip
    first = chrome.js(shown)
    assert first[:3] == ["#2 lr=0.2", "kept", "0.59"] and len(first) == 6, "words and a button, too"
    more = "document.querySelector('#rows tr:nth-child(2) td.more button')"
    chrome.js(f"{more}.click()")
    assert "10m" in chrome.js(shown) and "lr-up" in str(chrome.js(shown))
    chrome.js("render()")
    assert "10m" in chrome.js(shown) and chrome.js(f"{more}.ariaExpanded") == "true", "as it was in a live page"
    chrome.js(f"{more}.click()")
    assert chrome.js(shown) == first
    chrome.js("document.querySelector('[data-sort=minutes]').click()")
    times = "[...document.querySelectorAll('#rows td.by')].map(cell => cell.innerText)"
    assert chrome.js(times)[-3:] == ["15m", "20m", "–"] and chrome.js(NAMES)[-2] == "#9 lr=0.3 (on #2)"
    chrome.js("$('find').value = 'lower kl', $('find').oninput()")
    assert chrome.js(NAMES) == ["#9 lr=0.3 (on #2)"]


BROKEN = """(() => { // words of the table that are on two lines
  const broken = [], walker = (cell) => document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (const cell of document.querySelectorAll('#rows td'))
    for (let walk = walker(cell); walk.nextNode();)
      for (const word of walk.currentNode.data.matchAll(/[\\w.=]+/g)) {
        const range = document.createRange();
        range.setStart(walk.currentNode, word.index);
        range.setEnd(walk.currentNode, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
      }
  return broken;
})()"""


def test_on_paper(lived: Any, chrome: Browser) -> None:
    """A4 with usual margins is 720 pixels wide; a window's plots fit on it, and no word is broken."""
    for n in range(3):
        settings = {"actor.optim.warmup_steps": n, "algorithm.kl_ctrl.kl_coef": n / 7}
        lived.idea(f"long-{n}", overrides=settings, git=False)
        lived.run(f"long-{n}", 0.4 + n / 100, "discard")
    chrome.open(page_of(lived), width=1240)
    chrome._call("Emulation.setEmulatedMedia", media="print")
    width = "document.querySelector('main').getBoundingClientRect().right"
    chrome.js("document.body.style.width = '720px', dispatchEvent(new Event('beforeprint'))")
    rights = chrome.js("[...document.querySelectorAll('.main-svg, table')]"
                       ".map(one => one.getBoundingClientRect().right)")  # fmt: skip
    assert len(rights) > 6 and max(rights) <= chrome.js(width)
    ratio = chrome.js(f"(() => {{ const b = {PLOT}.querySelector('.main-svg').getBoundingClientRect();"
                      " return b.width / b.height; })()")  # fmt: skip
    assert 1.5 < ratio < 3, "scaled, not squeezed"
    assert chrome.js(BROKEN) == []
    ink = f"getComputedStyle({PLOT}.querySelector('.xtick text')).fill"
    light = chrome.js(ink)
    chrome.js("document.documentElement.classList.add('dark')")
    assert chrome.js(ink) == light, "paper is white"
    chrome.js("dispatchEvent(new Event('afterprint'))")
    assert chrome.js("document.querySelectorAll('.main-svg[viewBox]').length") == 0, "the window's plots are as before"


def test_a_thousand_ideas(campaign: Callable[..., Any], chrome: Browser) -> None:
    page = page_of(many(campaign, 1000, 20))
    assert Path(page.removeprefix("file://")).stat().st_size < 5_000_000
    chrome.open(page)
    assert len(chrome.js(NAMES)) == 1000 and chrome.js(OVERLAPS) == 0
    assert chrome.js(f"{PLOT}.querySelectorAll('.annotation').length") == 20, "each kept idea has its label"
    chrome.js("document.querySelector('[data-sort=value]').click()")
    values = chrome.js("[...document.querySelectorAll('#rows tr')].map(row => parseFloat(row.cells[2].textContent))")
    assert len(values) == 1000 and values[0] != values[-1] and values == sorted(values, reverse=values[0] > values[-1])


@pytest.mark.parametrize("runs", [0, 1])
def test_nothing_yet(campaign: Callable[..., Any], chrome: Browser, runs: int) -> None:
    made = campaign()
    if not runs:
        made.place.events.unlink()
        made.place.ledger.unlink()
    chrome.open(page_of(made))
    assert f"{runs} of 12 ideas" in chrome.js("outcome.textContent")


def test_evil_names_are_text(campaign: Callable[..., Any], chrome: Browser) -> None:
    made = campaign()
    made.idea("e-vil", EVIL, git=False, overrides={EVIL: EVIL})
    made.run("e-vil", 0.9, metric_name=EVIL)
    made.verdict("confirmed", "e-vil", reason=EVIL)
    chrome.open(page_of(made))
    chrome.js("document.querySelector('#rows tr:last-child td.name button').click()")
    chrome.settle()
    assert chrome.js("document.title") != "hit" and chrome.js("document.querySelectorAll('img').length") == 0
    assert "<script>document.title" in chrome.js("document.getElementById('rows').textContent")
