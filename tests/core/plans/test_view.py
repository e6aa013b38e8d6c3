"""Where a plan stands, from its records."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.plans.view import PlanState, PlanView, fold


def registered(version: int = 1, start: str = "screen", **more: object) -> dict[str, Any]:
    return {
        "do": "registered", "t": 1.0, "version": version, "digest": f"d{version}", "code": "c", "file": "/p.yaml",
        "start": start, "commit": "abc", **more,
    }  # fmt: skip


def begun(stage: str, version: int = 1) -> dict[str, Any]:
    return {"do": "begun", "t": 2.0, "stage": stage, "version": version, "prefix": f"autoresearch/plans/p/p-{stage}"}


def concluded(next_: str) -> dict[str, Any]:
    return {"do": "concluded", "t": 3.0, "next": next_, "conclusion": "so"}


APPROVED = {"do": "approved", "t": 1.5, "version": 1}
ENDED = {"do": "ended", "t": 4.0, "reason": "over"}


@pytest.mark.parametrize(
    ("records", "state", "next_"),
    [
        ([registered()], PlanState.REGISTERED, "screen"),
        ([registered(), APPROVED], PlanState.READY, "screen"),
        ([registered(), {"do": "waived", "version": 1}], PlanState.READY, "screen"),
        ([registered(), APPROVED, begun("screen")], PlanState.RUNNING, "screen"),
        ([registered(), APPROVED, begun("screen"), {"do": "withdrawn"}], PlanState.READY, "screen"),
        ([registered(), APPROVED, begun("screen"), concluded("refine")], PlanState.READY, "refine"),
        ([registered(), APPROVED, begun("screen"), concluded("revise")], PlanState.REVISE, "revise"),
        ([registered(), APPROVED, begun("screen"), concluded("end")], PlanState.READY, "end"),
        ([registered(), APPROVED, begun("screen"), concluded("end"), ENDED], PlanState.ENDED, "end"),
        (
            [registered(), APPROVED, begun("screen"), concluded("revise"), registered(2, "refine", reason="why")],
            PlanState.REGISTERED,  # an approval is of one version
            "refine",
        ),
        (
            [registered(), APPROVED, begun("screen"), concluded("end"), ENDED, registered(2, "refine"),
             {"do": "approved", "version": 2}],
            PlanState.READY,
            "refine",
        ),
        ([registered(), APPROVED, {"do": "of a newer version"}], PlanState.READY, "screen"),
    ],
)  # fmt: skip
def test_where_it_stands(records: list[dict[str, Any]], state: PlanState, next_: str) -> None:
    view = fold("p", records)
    assert (view.state, view.next) == (state, next_)


def test_what_was_run() -> None:
    records = [registered(), APPROVED, begun("screen"), concluded("screen"), begun("screen")]
    view = fold("p", records)
    assert view.times("screen") == 2 and view.times("screen", 2) == 0
    assert [run.number for run in view.runs] == [1, 2] and view.runs[0].campaign == "p-screen"
    assert view.live is view.runs[1] and view.runs[0].conclusion == concluded("screen")
    assert view.version.commit == "abc"
    assert isinstance(view, PlanView) and len(view.records) == 5


def test_a_damaged_record_is_told() -> None:
    with pytest.raises((KeyError, IndexError)):
        fold("p", [registered(), concluded("end")])
