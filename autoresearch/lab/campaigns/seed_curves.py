"""Judges seeds and rounds with the curves of runs, read again from what the runs left."""

from __future__ import annotations

from collections.abc import Iterable

from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.actions import ControllerAction
from autoresearch.core.controller.confirmation_rounds import check_seeds, judge_round, measured_rows, round_rows
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import SeededRun, copied
from autoresearch.lab.campaign_report.curves_and_diffs import measured_again


def check_baseline_seeds(state: CampaignState) -> tuple[ControllerAction, ...]:
    """Make the seed check with the curves of the baseline's measured runs."""
    baseline = state.baseline
    return check_seeds(state, _curves(baseline, measured_rows(baseline))) if baseline else ()


def judge_open_round(state: CampaignState) -> tuple[ControllerAction, ...]:
    """Judge the open round with the curves of the baseline, and of the fresh runs of both sides."""
    ongoing, baseline = state.open_round, state.baseline
    assert ongoing is not None and baseline is not None
    curves = _curves(baseline, [*measured_rows(baseline), *round_rows(baseline, ongoing.number)])
    for idea in state.ideas:
        if idea.index in ongoing.candidates:
            curves |= _curves(idea, round_rows(idea, ongoing.number))
    return judge_round(state, curves)


def copy_of_first(state: CampaignState, idea: Idea, seeded_run: SeededRun) -> str:
    """What shows that a run of an idea repeats its first one, in spite of its seed; "" if nothing does."""
    baseline = state.baseline
    if baseline is None or idea.hypothesis.is_baseline:
        return ""
    own = [*_curves(idea, measured_rows(idea)).values(), seeded_run]
    return copied(own, list(_curves(baseline, measured_rows(baseline)).values()))


def baseline_is_flat(state: CampaignState) -> bool:
    """Whether the baseline's objective is the same at every step, as far as its first measured run shows."""
    rows = measured_rows(state.baseline)[:1] if state.baseline else []
    return all(len({value for _, value in measured_again(row).series}) < 2 for row in rows)


def _curves(idea: Idea, rows: Iterable[LedgerRow]) -> dict[str, SeededRun]:
    """By run ID; a run whose seed is not known is left out."""
    seeds = {run.run: run.seed for run in idea.runs}
    known = [(row, seeds.get(row.run_id)) for row in rows]
    return {row.run_id: _curve(row, seed) for row, seed in known if seed is not None}


def _curve(row: LedgerRow, seed: int) -> SeededRun:
    found = measured_again(row)
    others: dict[str, list[tuple[int, float]]] = {}
    for reading in found.readings:
        for key, value in reading.metrics.items():
            others.setdefault(key, []).append((reading.step, value))
    return SeededRun(seed, tuple(found.series) or _last(row), others)


def _last(row: LedgerRow) -> tuple[tuple[int, float], ...]:
    """The last value that the ledger has, as a series of one point; () if there is none."""
    return () if row.metric_value is None else ((row.metric_step or 0, row.metric_value),)
