"""Curves of runs: each run that is over is read once, no more of it than is shown, and many over several calls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab.campaign_report import curves_and_diffs
from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
from autoresearch.lab.campaign_report.report import page_data
from autoresearch.lab.campaign_report.summary import idea_lines

pytestmark = pytest.mark.system


def read(reader: CurveReader, made: Any) -> Any:
    state = made.state()
    return reader.read(state, idea_lines(state))


def test_a_run_is_read_once_however_many_follow(campaign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves_and_diffs, "MOST_POINTS", 400)
    made, reader = campaign(), CurveReader()
    first = read(reader, made).runs
    assert len(first) == 3
    for curve in first:
        shutil.rmtree(made.place.path / f"baseline-{int(curve.run[-6:])}")
    for n in range(3):  # with each, the others may have fewer points
        made.idea(f"i{n}", git=False)
        made.run(f"i{n}", 0.4, "discard")
    assert read(reader, made).runs[:3] == first


@pytest.mark.parametrize(("kept", "whole"), [([[1, 0.25], [2, 0.5]], True), ([[1, "x"]], False), (None, False)])
def test_the_curve_that_was_recorded_is_shown(campaign: Any, kept: object, whole: bool) -> None:
    made = campaign()
    made.idea("i", git=False)
    made.run("i", 0.4, "discard")
    logged = read(CurveReader(), made).runs[-1].series
    (Path(made.state().rows[-1].run_dir) / "collected.json").write_text(json.dumps({"curve": kept}))
    recorded = {"task_pass_rate@1": ((1, 0.25), (2, 0.5))}
    assert read(CurveReader(), made).runs[-1].series == (recorded if whole else logged)


def test_what_there_is_no_time_to_read_comes_with_later_calls(lived: Any) -> None:
    state = lived.state()
    every = page_data(lived.place, state, lived.stand(state), lived.clock)
    assert every["unread"] == 0
    reader, seen = CurveReader(0.0), []
    while not seen or seen[-1]["unread"]:
        seen.append(page_data(lived.place, state, lived.stand(state), lived.clock, reader))
    assert [one["unread"] for one in seen] == list(range(seen[0]["unread"], -1, -1)) and seen[0]["unread"] > 5
    assert seen[-1]["curves"] == every["curves"] and seen[0]["remarks"] == []
    assert seen[0]["curves"][0]["standing"] in ("kept", "confirmed", "baseline"), "what is shown first is read first"
