"""The report: honest words, every attempt, nothing from outside, nothing that others wrote as markup."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from matplotlib.figure import Figure

from autoresearch.core.campaign.spec import Rules
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.targets import Kind, Target
from autoresearch.lab.campaign_report import how_it_ran, memory, progress_plot, summary
from autoresearch.lab.campaign_report.report import CampaignReport, page_html, write_report
from autoresearch.records.campaign_records import write_spec
from autoresearch.records.files import write_json
from autoresearch.records.rundir import RunDir

METRIC = "task_pass_rate@1"
PROVED = f"{METRIC} 0.65, +0.15 against the baseline's 0.5 (90 % interval +0.05 to +0.25; 4 fresh runs against 5"
SIX = (0.50, 0.52, 0.48, 0.5164, 0.4885, 0.5104)
EVIL = "<script>alert(1)</script> <img src=x onerror=alert(2)> ![x](http://e.vil/x.png) \x1b[31m `rm -rf` | \" ' &amp;"


def written(made: Any, *, png: bool = False) -> tuple[CampaignReport, str, dict[str, Any]]:
    """The report, its markdown, and the data of its page."""
    state = made.state()
    with contextlib.nullcontext() if png else mock.patch("autoresearch.lab.campaign_report.report.write_png"):
        report = write_report(made.place, state, made.stand(state), now=made.clock)
    return report, report.markdown.read_text(), data_of(report.page.read_text())


def data_of(html: str) -> dict[str, Any]:
    """The data in a page, which hold no markup at all and are the only texts of others in it, but for its title."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert not set("<>&") & set(text)
    found: dict[str, Any] = json.loads(text)
    return found


def words_of(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


@pytest.mark.system
def test_what_a_report_says(lived: Any) -> None:
    report, markdown, data = written(lived, png=True)
    assert report.picture.read_bytes().startswith(b"\x89PNG")
    assert "![progress](progress.png)" in markdown
    every_attempt_is_a_point(data)
    the_words_are_honest(markdown, data)
    a_diff_is_bounded_and_without_our_own_files(markdown, data)
    own = [curves for curves in data["curves"] if curves["index"] == 9]
    assert [curves["run"] for curves in own] == [f"best-00000{n}" for n in (1, 2, 3, 4)]
    assert own[0]["series"][METRIC] == {"x": [0, 10, 20, 30, 40], "y": [0.1, 0.25, 0.4, 0.55, 0.7]}


def every_attempt_is_a_point(data: dict[str, Any]) -> None:
    points = data["progress"]["points"]
    counts, better = Counter(point["standing"] for point in points), "better than the baseline, not the best"
    once = ("confirmed", "demoted", "discarded", better, "crashed", "not judged", "baseline")
    assert counts == dict.fromkeys(once, 1) | {"kept": 2}
    picked = {p["name"] for p in points if p["selected"] is not None}
    assert picked == {"#9 lr=0.3 (on #2)"}
    assert [p["name"] for p in points if p["low"] is not None] == ["#9 lr=0.3 (on #2)"]
    assert [p["name"] for p in points if p["y"] is None] == ["#4 Twice the batch (on #2)"]
    assert len(points[0]["replicates"]) == 3
    assert data["progress"]["title"] == data["subtitle"] == "10 of 12 ideas, 3 kept, 1 confirmed"
    assert [idea["standing"] for idea in data["ideas"]][-1] == "running"


def the_words_are_honest(markdown: str, data: dict[str, Any]) -> None:
    kept = f"#2 lr=0.2: kept, not confirmed: {METRIC} 0.59, +0.09 against the baseline's 0.5 (search mean, picked"
    for text in (markdown, words_of(data)):
        assert kept in text and "a part of what its search mean shows may be luck" in text
        assert "#6 Another schedule (on #2): demoted: " in text and "fresh runs: +0.01, p 0.4" in text
        assert "#7 On the lucky one (on #6) is built on demoted #6 Another schedule (on #2)" in text
        assert "equal to lr-up" in text and "autoresearch repro 20261121-sort:INDEX.REPLICATE" in (markdown)
    tried, number, baseline = data["outcome"]
    assert tried == "10 of 12 ideas, 3 kept, 1 confirmed, in 1h15m."
    assert number.startswith(f"#9 lr=0.3 (on #2): confirmed, {PROVED}")
    assert baseline.startswith(f"The baseline's {METRIC} is 0.5")
    assert all(cell in markdown for cell in data["outcome"])


@pytest.mark.system
def test_what_others_wrote_is_data(campaign: Callable[..., Any]) -> None:
    made = campaign()
    index = made.idea("e-vil", EVIL, parent=EVIL, git=False, overrides={EVIL: EVIL})
    made.run("e-vil", None, "crash", failure=EVIL, ending=EVIL)
    made.indexes["e-vil"] = index
    made.verdict("confirmed", "e-vil", reason=EVIL)
    made.tell("skipped", hypothesis={"slug": EVIL, "sentence": EVIL}, reason=EVIL)
    made.tell("state", state="paused", reason=EVIL)
    report, markdown, data = written(made)
    html = report.page.read_text()
    assert "<script>alert(1)</script>" in words_of(data) and "onerror" not in re.sub(r'id="data">.*', "", html)
    assert html.count("</script>") == 3, "data, plotly, the page's own"
    assert "<script" not in markdown and markdown.count("![") == 1 and "\x1b" not in markdown + words_of(data)
    table = [line for line in markdown.splitlines() if line.startswith("| #2 ")]
    assert len(table) == 1 and len(re.findall(r"(?<!\\)\|", table[0])) == 9


def test_a_page_runs_nothing_but_its_own_script_and_fetches_nothing() -> None:
    """Whatever the data say: its policy names one nonce, and no address outside of it."""
    html = page_html({"name": '"><img src=x onerror=alert(1)>', "outcome": ["</p><script>alert(2)</script>"]})
    assert "<img" not in html and "<script>" not in html
    (nonce,) = re.findall(r"script-src 'nonce-([\w-]+)'; connect-src 'none'", html)
    assert html.count(nonce) == 2 and nonce not in page_html({"name": "x"})
    assert re.findall(r"https?://", re.sub(r'id="plotly">.*', "", html)) == []
    assert "connect-src 'self'" in page_html({"name": "x"}, live=True)


def a_diff_is_bounded_and_without_our_own_files(markdown: str, data: dict[str, Any]) -> None:
    (best, *others) = data["diffs"]
    texts = [text for _, text in best["lines"]]
    assert (best["name"], best["parent"]) == ("#9 lr=0.3 (on #2)", "#2 lr=0.2") and len(others) == 2
    assert "+print('best </script><b>')" in texts and {"-lr: 0.2", "+lr: 0.3"} < set(texts)
    assert ".autoresearch/blueprint.md" not in words_of(data["diffs"])
    assert "best.py" in markdown


@pytest.mark.system
def test_what_is_gone_is_a_remark(lived: Any) -> None:
    shutil.rmtree(lived.place.path / "best-1")
    (lived.place.path / "best-2/spec.json").write_text("{")
    shutil.rmtree(lived.root)
    report, _, data = written(lived)
    assert report.remarks == ("2 runs have no curve: their directories cannot be read, or hold no metric",)
    assert "its commits are not recorded" in words_of(data["diffs"])


@pytest.mark.system
def test_a_disk_that_is_full_leaves_the_page_of_before(lived: Any) -> None:
    report, _, _ = written(lived)
    folder = lived.place.path
    before, names = report.page.read_bytes(), sorted(path.name for path in folder.iterdir())
    lived.clock += 60.0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # no file may become larger
    try:
        with pytest.raises(OSError, match="File too large"):
            written(lived)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert report.page.read_bytes() == before and sorted(path.name for path in folder.iterdir()) == names
    assert written(lived)[0].page.read_bytes() != before


@pytest.mark.system
def test_a_line_that_is_being_written_is_not_read_and_not_touched(lived: Any) -> None:
    _, _, before = written(lived)
    halves = {name: (lived.place.path / name) for name in ("events.jsonl", "results.tsv")}
    for name, path in halves.items():
        with path.open("a", encoding="utf-8") as file:
            file.write("11\t0\tb" if name == "results.tsv" else '{"t": 1, "ev')
    texts = [path.read_bytes() for path in halves.values()]
    _, _, after = written(lived)
    assert after["ideas"] == before["ideas"] and after["outcome"] == before["outcome"]
    assert [path.read_bytes() for path in halves.values()] == texts


@pytest.mark.system
def test_kept_runs_have_their_other_metrics_too(campaign: Callable[..., Any]) -> None:
    made = campaign()
    for slug, value, status in (("good", 0.7, "keep"), ("bad", 0.3, "discard")):
        made.idea(slug)
        row = made.run(slug, value, status)
        lines = [{"step": n, "data": {METRIC: value, "kl": n / 10}} for n in range(1, 5)]
        (Path(row.run_dir) / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, _, data = written(made)
    assert data["tree"] == [], "all was built on the baseline"
    keys = {curves["name"]: list(curves["series"]) for curves in data["curves"] if curves["index"] > 1}
    assert keys == {"#2 Try good": [METRIC, "kl"], "#3 Try bad": [METRIC]}


@pytest.mark.system
def test_what_was_built_on_what(lived: Any) -> None:
    """Only what was kept or built on is in the tree, and only where it has a second floor."""
    _, markdown, data = written(lived)
    assert data["tree"][0] == "#1 baseline: baseline" and data["tree"][1].startswith("  #2 lr=0.2: kept")
    assert "    #9 lr=0.3 (on #2): confirmed" in data["tree"] and "\n".join(data["tree"]) in markdown
    assert not any("oom" in line for line in data["tree"])


@pytest.mark.system
def test_a_campaign_without_anything(campaign: Callable[..., Any]) -> None:
    made = campaign(rules=Rules())
    for path in (made.place.events, made.place.ledger):
        path.unlink()
    _, markdown, data = written(made, png=True)
    assert "The baseline has not been measured yet" in markdown
    assert data["outcome"][0] == "0 ideas, 0 kept, 0 confirmed, in –."


@pytest.mark.system
def test_minimised_metrics_have_their_edge_above(campaign: Callable[..., Any]) -> None:
    made = campaign(objective=Objective("loss", Direction.MINIMIZE))
    made.idea("down")
    made.run("down", 0.3)
    made.idea("gone")
    made.run("gone", None, "crash")
    made.idea("never")
    made.run("never", None, "crash", ending="launch_failed", failure="guard_failed")
    state = made.state()
    data = progress_plot.progress_of(state, summary.idea_lines(state))
    assert [v for _, v in data.path] == [pytest.approx(0.5), 0.3, 0.3, 0.3]
    assert (data.maximize, data.better, data.points[-1].y) == (False, "lower is better", None)
    assert [point.standing for point in data.points[2:]] == ["crashed", "not tried"]


@pytest.mark.system
def test_what_is_far_out_has_its_number(campaign: Callable[..., Any]) -> None:
    made = campaign(objective=Objective("loss", Direction.MINIMIZE))
    for n in range(8):
        made.idea(f"near-{n}")
        made.run(f"near-{n}", 0.5 + n / 1000, "discard")
    made.idea("far")
    made.run("far", 20.66, "discard")
    state = made.state()
    data = progress_plot.progress_of(state, summary.idea_lines(state))
    axes = Figure(layout="constrained").add_subplot()
    progress_plot._draw(axes, data)
    assert data.high < 1 and [text.get_text() for text in axes.texts] == ["▲ 20.66"]


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
    data = progress_plot.progress_of(state, summary.idea_lines(state))
    base, sure = data.points
    assert data.path == ((1, base.y), (2, sure.y)), "the line ends where the star is"
    ends = sorted((0.52 + change(0.02), 0.52 + change(0.15)))
    assert (sure.y, sure.low, sure.high) == pytest.approx((0.52 + change(0.1), *ends))
    assert sure.selected == pytest.approx(0.5 + change(0.2)) and sure.replicates == (0.5 + change(0.1),)
    assert data.band is not None and (data.band.n, data.band.runs) == (5, "mean of all 5")
    assert (data.band.mean, base.y, len(base.replicates)) == (pytest.approx(0.52), pytest.approx(0.52), 5)
    assert data.low < min(ends) and data.high > max(ends)
    _, markdown, whole = written(made)
    sign = "+" if direction is Direction.MAXIMIZE else "-"
    for text in (markdown, words_of(whole)):
        assert f"{sign}0.1 against the baseline's 0.52 (90 % interval {sign}" in text
        assert "1 fresh run against 2, none failed" in text


@pytest.mark.system
@pytest.mark.parametrize(("values", "low"), [([0.15, 0.07, 0.0], 0.0), ([0.48] * 20 + [0.0], 0.45)])
def test_the_scale_shows_most_of_what_is_worse(campaign: Callable[..., Any], values: list[float], low: float) -> None:
    """A quiet baseline, and ideas that are all much worse: they are what there is to see."""
    made = campaign()
    for n, value in enumerate(values):
        made.idea(f"i{n}", git=False)
        made.run(f"i{n}", value, "discard", curve=False)
    state = made.state()
    data = progress_plot.progress_of(state, summary.idea_lines(state))
    assert low - 0.06 < data.low <= low + 0.06 and data.high > 0.5


@pytest.mark.system
def test_a_value_reads_the_same_everywhere_and_settings_are_said_once(campaign: Callable[..., Any]) -> None:
    """The mean of these six lies between two texts: added up in two ways, it would read as both."""
    made = campaign()
    for value in SIX[3:]:
        made.run("baseline", value)
    made.checked()
    made.idea("lr-0-2", "Learn faster", overrides={"lr": 0.2}, git=False)
    made.idea("deep", "Learn deeper", overrides={"optim.lr": 0.2}, git=False)
    for slug in ("lr-0-2", "deep"):
        made.run(slug, 0.53125, "discard")
    _, text, data = written(made)
    state = made.state()
    mean = data["ideas"][0]["text"]["value"]
    assert f"{METRIC} is {mean} ±" in text and f"{METRIC} is {mean} ±" in data["outcome"][2]
    assert f"{METRIC} {mean} (" in "\n".join(memory.brief(state, made.stand(state)))
    assert "(lr=0.2)" not in text and "(optim.lr=0.2)" in text
    assert [one["unsaid"] for one in data["ideas"]] == ["", "", "optim.lr=0.2"]


@pytest.mark.system
def test_how_it_was_run(lived: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a reader needs to repeat it; of the packages the largest, by the lists of their files."""
    environment = tmp_path / "env"
    for name, files in (("torch-2.13.0", 900), ("six-1.17.0", 1), ("a_b-0.1", 20)):
        record = environment / f"lib/python3.11/site-packages/{name}.dist-info/RECORD"
        record.parent.mkdir(parents=True)
        record.write_text("a line\n" * files)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    monkeypatch.setattr(how_it_ran, "MOST_PACKAGES", 2)
    how_it_ran.keep_packages(lived.place.path, environment / "bin/python")
    shutil.rmtree(environment / "lib")  # what is installed later tells nothing of these runs
    lived.spec = replace(lived.spec, interpreter=str(environment / "bin/python"), gpus_per_run=2)
    write_spec(lived.place, lived.spec)
    write_json(RunDir(Path(lived.state().rows[0].run_dir)).runner, {"host": "gpu1"})
    _, markdown, data = written(lived)
    told = dict(data["setup"])
    assert told["packages"] == "a-b 0.1, torch 2.13.0 and 1 smaller one"
    assert told["python"].endswith("env/bin/python, version 3.11.7")
    assert (told["machines"], told["GPUs"], told["command"]) == ("gpu1 (1 run)", "2 of each run", "python train.py")
    assert told["code"].startswith(lived.spec.base_commit[:12])
    assert "- command: `python train.py`" in markdown
    lived.spec = replace(lived.spec, places=(Target("gpu1", Kind.SSH),))
    write_spec(lived.place, lived.spec)
    assert not {"python", "packages"} & {*dict(written(lived)[2]["setup"])}, "a host has an environment of its own"
