"""Order and choice of runs, places with what runs there, the words for them."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.run.overview import (
    OverviewFilter,
    RunLine,
    short_campaign,
)
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import Kind, Target


def line(run: str, state: str = "running", **more: Any) -> RunLine:
    return RunLine(run, RunState(state), **more)


RUNS = (
    line("b-1", place="slurm", kind="slurm", campaign="20261121-sort", member=True, index=2, slug="lr", step=3),
    line("a-1", "pending", place="ssh:gpu1", kind="ssh", campaign="20261121-copy", member=True, left_s=None, job="77"),
    line("c-1", "unreachable", place="ssh:gpu2", kind="ssh", campaign="20261121-sort", member=True, index=1, step=9),
    line("d-1", campaign="20261121-lone", slug="lone", left_s=5.0, elapsed_s=9.0, metric_value=0.5, metric_name="m"),
    line("e-1", left_s=50.0, elapsed_s=90.0, metric_value=0.4, metric_name="m", step=0),
)


def test_this_machine_comes_first() -> None:
    assert "".join(one.run[0] for one in OverviewFilter().of(RUNS)) == "edbac"


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        (OverviewFilter(target="ssh"), "ac"),
        (OverviewFilter(target="gpu1"), "a"),
        (OverviewFilter(target="ssh:gpu2"), "c"),
        (OverviewFilter(target="ss"), ""),  # a part of a place is none
        (OverviewFilter(campaign="sort"), "bc"),
        (OverviewFilter(states=frozenset({RunState.PENDING, RunState.UNREACHABLE})), "ac"),
    ],
)
def test_which_runs_are_wanted(wanted: OverviewFilter, runs: str) -> None:
    assert "".join(sorted(one.run[0] for one in wanted.of(RUNS))) == runs


def test_ended_runs_are_shown_whatever_states_are_wanted() -> None:
    over = [line("x", "ended", place="slurm", kind="slurm"), line("y", "ended")]
    wanted = OverviewFilter(target="slurm", states=frozenset({RunState.PENDING}))
    assert [one.run for one in wanted.of_ended(over)] == ["x"]


def test_words() -> None:
    assert Target("slurm", Kind.SLURM).shown == "slurm"
    assert Target("gpu1", Kind.SSH, options={"host": "gpu1"}).shown == "ssh:gpu1"
    assert short_campaign("20261121-sort") == "sort"
    assert short_campaign("sort-20261121") == "sort-20261121"
    assert line("x", slug="lr-up", member=True, campaign="20261121-sort", index=3).idea == "sort #3 lr-up"
    again = line("x", slug="lr-up", member=True, campaign="20261121-sort", index=3, replicate=2)
    assert again.idea == "sort #3.2 lr-up"
    assert line("x", slug="lone").idea == "lone"
