"""Judges seeds and rounds with the curves of runs, read again from what the runs left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import may_be_equal
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.core.controller.confirmation_rounds import check_seeds, judge_round, measured_rows, round_rows
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import SeededRun, same_program
from autoresearch.lab.campaign_report.curves_and_diffs import measured_again

MOST_COMPARED = 20  # runs of the same seed and value, whose logs are read: a coarse metric gives many of them


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


def note_if_equal(state: CampaignState, run: str) -> tuple[ControllerAction, ...]:
    """That the idea of a run is the same program as an earlier one, as two runs of one seed log the same; else ()."""
    idea = next((one for one in state.ideas if run in {own.run for own in one.runs}), None)
    found = may_be_equal(state, idea) if idea else []
    if idea is None or not found:
        return ()
    curves = _curves(idea, {ours.run_id: ours for _, ours, _ in found}.values())
    known = list(_curves(state.baseline, measured_rows(state.baseline)).values()) if state.baseline else []
    for other, ours, theirs in found[:MOST_COMPARED]:
        curve = curves[ours.run_id]
        apart = next((one for one in known if one.seed != curve.seed), None)
        if apart and same_program([curve, _curves(other, [theirs])[theirs.run_id]], apart):
            words = f"{idea.name} and {other.name} are the same program: equal runs"
            return Note("equal", {"index": idea.index, "of": other.index}), Say(words)
    return ()


def note_equal_ones(state: CampaignState) -> Iterator[ControllerAction]:
    """The same of the runs that ended last, which a controller that was killed may not have compared any more."""
    for row in sorted(state.rows, key=lambda row: row.ended or 0.0)[-state.spec.parallel :]:
        yield from note_if_equal(state, row.run_id)


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
    measurement, others = measured_again(row), dict[str, list[tuple[int, float]]]()
    for reading in measurement.readings:
        for key, value in reading.metrics.items():
            others.setdefault(key, []).append((reading.step, value))
    return SeededRun(seed, tuple(measurement.series) or _last(row), others)


def _last(row: LedgerRow) -> tuple[tuple[int, float], ...]:
    """The last value that the ledger has, as a series of one point; () if there is none."""
    return () if row.metric_value is None else ((row.metric_step or 0, row.metric_value),)
