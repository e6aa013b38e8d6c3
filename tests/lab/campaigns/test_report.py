"""The report: honest words, every attempt, nothing from outside, nothing that others wrote as markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.campaign.spec import Rules
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.lab.campaign_report import memory, plot_data, summary
from autoresearch.lab.campaign_report.report import CampaignReport, write_report
from autoresearch.lab.campaign_report.svg import Frame, mark, ticks, whole_ticks

METRIC = "task_pass_rate@1"
PROVED = f"{METRIC} 0.65, +0.15 against the baseline (90 % interval +0.05 to +0.25; 4 fresh runs against 5; 1 of its 5"
EVIL = "<script>alert(1)</script> <img src=x onerror=alert(2)> ![x](http://e.vil/x.png) \x1b[31m `rm -rf` | \" ' &amp;"


class Page(HTMLParser):
    """Tags that are open too long, and everything that could fetch or run something."""

    VOID = frozenset({"meta", "link", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.classes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "img", "form", "base"):
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or (name in ("src", "href", "action") and value != "data:,"):
                self.faults.append(f"{tag} {name}={value}")
            if name == "class":
                self.classes.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")


def written(made: Any, **options: Any) -> tuple[CampaignReport, str, str]:
    state = made.state()
    report = write_report(made.place, state, made.stand(state), now=made.clock, **{"png": False, **options})
    return report, report.markdown.read_text(), report.page.read_text()


def read_page(html: str) -> Page:
    page = Page()
    page.feed(html)
    assert not page.faults, page.faults
    assert not page.open, page.open
    return page


@pytest.mark.system
def test_every_attempt_is_a_point(lived: Any) -> None:
    _, _, html = written(lived)
    plot = html[html.index('<svg class="plot"') : html.index("</svg>")]
    for kind, count in {
        'class="kept"': 2,  # lr-up, child
        'class="confirmed"': 1,
        'class="interval confirmed"': 1,
        'class="selected"': 2,  # the search means of best and of lucky
        'class="demoted"': 1,
        'class="discarded"': 2,
        'class="crashed"': 1,
        'class="smoke': 1,
        'class="baseline"': 1,
        'class="band"': 1,
        'polyline class="best"': 1,
    }.items():
        assert plot.count(kind) == count, (kind, plot.count(kind))
    assert plot.count('class="replicate baseline"') == 3
    assert "9 plumbing" not in plot and "8 plumbing: smoke" in plot
    read_page(html)


@pytest.mark.system
def test_the_words_are_honest(lived: Any) -> None:
    _, markdown, html = written(lived)
    for text in (markdown, html):
        assert f"Confirmed by fresh runs with other seeds: best, {PROVED} and none of" in text
        assert "Kept, not confirmed: lr-up 0.59 (mean of 2), child 0.67 (one run). " in text
        assert "Demoted, because fresh runs did not confirm it: lucky, +0.01 against the baseline (diff" in text
        assert "search mean (selected)" in text.replace("<br>", " ")
        assert "child (on lucky)" in text
        assert "stop condition not yet met: 10/12 attempted" in text
        assert "equal to lr-up" in text
        assert "autoresearch repro 20261121-sort:1.3" in text


@pytest.mark.system
def test_without_a_confirmation_nothing_is_claimed(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("one")
    made.run("one", 0.9)
    made.verdict("undecided", "one")
    _, markdown, html = written(made)
    for text in (markdown, html):
        assert "Nothing is confirmed" in text and "one 0.9 (undecided, one run)" in text
    assert f"kept, undecided: {METRIC} 0.9 (search mean, picked because it was high; one run)</span>" in html


@pytest.mark.system
def test_what_others_wrote_is_data(campaign: Callable[..., Any]) -> None:
    made = campaign()
    index = made.idea("e-vil", EVIL, parent=EVIL, git=False, overrides={EVIL: EVIL})
    made.run("e-vil", None, "crash", failure=EVIL, ending=EVIL)
    made.indexes["e-vil"] = index
    made.verdict("confirmed", "e-vil", reason=EVIL)
    made.tell("skipped", hypothesis={"slug": EVIL, "sentence": EVIL}, reason=EVIL)
    made.tell("state", state="paused", reason=EVIL)
    _, markdown, html = written(made)
    read_page(html)
    assert "&lt;script&gt;alert(1)" in html
    assert "<script" not in markdown and "![" not in markdown and "\x1b" not in markdown + html
    table = [line for line in markdown.splitlines() if line.startswith("| 2 |")]
    assert len(table) == 1 and len(re.findall(r"(?<!\\)\|", table[0])) == 14


@pytest.mark.system
def test_a_diff_is_escaped_bounded_and_without_our_own_files(lived: Any) -> None:
    _, markdown, html = written(lived)
    assert "+print(&#39;best &lt;/script&gt;&lt;b&gt;&#39;)" in html
    assert "-lr: 0.2" in html and "+lr: 0.3" in html
    assert ".autoresearch/blueprint.md" not in html.replace(f"{lived.root}/.autoresearch", "")
    assert "best.py" in markdown


@pytest.mark.system
def test_what_is_gone_is_a_remark(lived: Any) -> None:
    shutil.rmtree(lived.place.path / "best-1")
    (lived.place.path / "best-2/spec.json").write_text("{")
    shutil.rmtree(lived.root)
    report, _, html = written(lived)
    assert report.remarks == ("2 runs have no curve: their directories cannot be read, or hold no metric",)
    assert "its commits are not recorded" in html
    read_page(html)


@pytest.mark.system
def test_curves_are_those_of_the_runs(lived: Any) -> None:
    _, _, html = written(lived)
    assert html.count('class="curve confirmed"') == 4 * 2  # overlaid, and beside each other
    assert "best-000001): confirmed, last 0.7" in html


@pytest.mark.system
def test_a_campaign_without_anything(campaign: Callable[..., Any]) -> None:
    made = campaign(rules=Rules())
    for path in (made.place.journal, made.place.ledger):
        path.unlink()
    _, markdown, html = written(made)
    read_page(html)
    assert "The baseline was not measured" in markdown
    assert "No rule limits ideas" in html


@pytest.mark.system
def test_the_noise_of_the_baseline_is_that_of_its_band(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.run("baseline", 0.54, metric_noise=0.5)
    state = made.state()
    (line,) = summary.idea_lines(state)
    band = summary.band_of(state)
    assert band is not None and (line.n, line.noise) == (band.n, band.sd)


@pytest.mark.system
def test_minimised_metrics_have_their_edge_above(campaign: Callable[..., Any]) -> None:
    made = campaign(objective=Objective("loss", Direction.MINIMIZE))
    made.idea("down")
    made.run("down", 0.3)
    made.idea("gone")
    made.run("gone", None, "crash")
    state = made.state()
    data = plot_data.progress_of(state, summary.idea_lines(state))
    assert [v for _, v in data.path] == [pytest.approx(0.5), 0.3, 0.3]
    _, _, html = written(made)
    cross = re.search(r'<path class="crashed" d="M[\d.]+ ([\d.]+)', html)
    assert cross and float(cross[1]) < 60 and "lower is better" in html


@pytest.mark.system
@pytest.mark.parametrize("direction", list(Direction))
def test_a_confirmed_idea_is_drawn_at_its_estimate(campaign: Callable[..., Any], direction: Direction) -> None:
    """Its search mean is a hollow mark; the band is that of all runs of the baseline."""
    made = campaign(objective=Objective("loss", direction))
    change = made.spec.objective.change
    made.idea("sure")
    made.run("sure", 0.5 + change(0.2))
    for value in (0.5, 0.6):
        made.run("baseline", value, why="confirm")
    made.run("sure", 0.5 + change(0.1), why="confirm")
    made.verdict("confirmed", "sure", gain=0.1, gain_low=0.02, gain_high=0.15, coverage=0.9, value=0.52 + change(0.1),
                 n=1, n_baseline=2, failed=0, failed_baseline=0)  # fmt: skip
    state = made.state()
    data = plot_data.progress_of(state, summary.idea_lines(state))
    base, sure = data.points
    ends = sorted((0.52 + change(0.02), 0.52 + change(0.15)))
    assert (sure.y, sure.low, sure.high) == pytest.approx((0.52 + change(0.1), *ends))
    assert sure.selected == pytest.approx(0.5 + change(0.2)) and sure.replicates == (0.5 + change(0.1),)
    assert data.band is not None and (data.band.n, data.band.runs) == (5, "mean of all 5")
    assert (data.band.mean, base.y, len(base.replicates)) == (pytest.approx(0.52), pytest.approx(0.52), 5)
    assert data.low < min(ends) and data.high > max(ends)
    report, markdown, html = written(made)
    sign = "+" if direction is Direction.MAXIMIZE else "-"
    for text in (markdown, html):
        assert f"{sign}0.1 against the baseline (90 % interval {sign}" in text
        assert "1 fresh run against 2, none failed" in text
    assert "baseline: mean ± sd of one run, over all its runs" in html
    assert report.markdown.exists()


@pytest.mark.system
def test_missing_runs_are_named_wherever_the_mean_is(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("shaky")
    for value in (0.6, 0.62, None, 0.61, None, 0.63):
        made.run("shaky", value, "crash" if value is None else "keep", failure="" if value else "nan_metric")
    made.run("baseline", None, "crash", failure="nan_metric")
    _, markdown, html = written(made)
    for text in (markdown, html):
        assert "shaky 0.615 (mean of 4; 2 of 6 runs have no metric)" in text
        assert "mean of 3; 1 of 4 runs has no metric" in text
    brief = "\n".join(memory.brief(made.state(), made.stand()))
    assert "best: shaky: kept, not confirmed" in brief and "mean of 4; 2 of 6 runs have no metric" in brief


@pytest.mark.system
def test_a_deterministic_gain_is_shown_in_its_own_words(campaign: Callable[..., Any]) -> None:
    made = campaign(objective=Objective("loss", Direction.MINIMIZE))
    made.idea("exact")
    made.run("exact", 0.3)
    made.verdict("deterministic", "exact", reason="better", delta=0.2)
    _, markdown, html = written(made)
    for text in (markdown, html):
        assert "exact: better, deterministic: not confirmed on other data or seeds; loss 0.3, -0.2 against" in text
        assert "Nothing is confirmed" in text and "picked because" not in text
    assert any("kept, deterministic" in line for line in memory.brief(made.state(), made.stand()))


@pytest.mark.system
def test_an_outlier_does_not_flatten_the_rest(campaign: Callable[..., Any]) -> None:
    made = campaign()
    made.idea("far")
    made.run("far", -1000.0, "discard")
    state = made.state()
    data = plot_data.progress_of(state, summary.idea_lines(state))
    assert data.low > 0.3
    assert "(off the scale)" in written(made)[2]


@pytest.mark.system
@pytest.mark.parametrize(("values", "low"), [([0.15, 0.07, 0.0], 0.0), ([0.48] * 20 + [0.0], 0.45)])
def test_the_scale_shows_most_of_what_is_worse(campaign: Callable[..., Any], values: list[float], low: float) -> None:
    """A quiet baseline, and ideas that are all much worse: they are what there is to see."""
    made = campaign()
    for n, value in enumerate(values):
        made.idea(f"i{n}", git=False)
        made.run(f"i{n}", value, "discard", curve=False)
    state = made.state()
    data = plot_data.progress_of(state, summary.idea_lines(state))
    assert low - 0.06 < data.low <= low + 0.06 and data.high > 0.5


@pytest.mark.system
def test_budgets_burn_down(lived: Any) -> None:
    state = lived.state()
    ideas, time = plot_data.budgets_of(state, lived.clock)
    assert (ideas.name, ideas.points[0][1], ideas.points[-1][1]) == ("ideas", 1.0, pytest.approx(1 - 9 / 12))
    assert time.name == "time" and 0 < time.points[-1][1] < 1


@pytest.mark.system
def test_the_picture_is_a_png(lived: Any) -> None:
    report, markdown, _ = written(lived, png=True)
    assert report.picture and report.picture.read_bytes().startswith(b"\x89PNG")
    assert "![progress](progress.png)" in markdown


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0.501, 0.512, ["0.502", "0.504", "0.506", "0.508", "0.510", "0.512"]),
        (-3.0, 3.0, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (0.5, 0.5, ["0.5"]),
        (float("nan"), 1.0, []),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    assert [text for _, text in ticks(low, high)] == expected


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e9, 1e300])
def test_ticks_at_any_scale(scale: float) -> None:
    found = ticks(0.1 * scale, 0.9 * scale)
    assert 2 <= len(found) <= 8 and all(0.099 * scale <= v <= 0.901 * scale for v, _ in found)


def test_small_parts_of_a_drawing() -> None:
    assert [n for n, _ in whole_ticks(1, 10)] == list(range(1, 11))
    assert len(whole_ticks(1, 1000)) <= 20
    frame = Frame(100, 100, 0, 10, 0, 1)
    assert frame.x(-5) == frame.left and frame.y(7) == frame.top
    assert "&lt;b&gt;" in mark("circle", 1, 1, "kept", "<b>")


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell", "chromium-headless-shell")
    return next((path for name in names if (path := shutil.which(name))), "")


@pytest.mark.real
@pytest.mark.skipif(not _chromium(), reason="no Chromium on this machine")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_real_browser_opens_it_without_a_complaint(lived: Any, tmp_path: Path, dark: bool) -> None:
    report, _, _ = written(lived)
    out = tmp_path / "dom.html"
    log = tmp_path / "browser.log"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--log-level=0"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,4200", "--virtual-time-budget=3000"]
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    shot = tmp_path / "page.png"
    for action, stream in (([f"--screenshot={shot}"], None), (["--dump-dom"], out)):
        with log.open("ab") as err, (stream or tmp_path / "ignored").open("wb") as dom:
            command = [_chromium(), *flags, *action, report.page.as_uri()]
            subprocess.run(command, stdout=dom, stderr=err, stdin=subprocess.DEVNULL, timeout=120, check=True)
    said = [line for line in log.read_text(errors="replace").splitlines() if "CONSOLE" in line]
    assert not said, said
    dom_text = out.read_text()
    assert dom_text.count("<svg") >= 4 and "Kept, not confirmed" in dom_text
    assert shot.stat().st_size > 50_000
