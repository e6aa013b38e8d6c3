"""Seed check: whether the seed of a campaign has an effect, judged from the first runs of its baseline."""

from __future__ import annotations

from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import seeding
from autoresearch.core.statistics.seeding import SeededRun
from autoresearch.lab.campaign_report import progress, summary
from autoresearch.lab.campaign_report.curves_and_diffs import measured_again
from autoresearch.lab.campaigns import scheduler
from autoresearch.lab.campaigns.control import CampaignControl


def look(control: CampaignControl, state: CampaignState) -> CampaignState:
    """Make the check as soon as the baseline's runs allow it; the state that knows of it."""
    baseline = state.baseline
    if state.seed_check is not None or baseline is None or scheduler.waits(baseline):
        return state
    runs = _runs(baseline, [row for row in baseline.judged if measured(row) is not None])
    found = seeding.effect([run for _, run in runs])
    if found is None:
        return state
    by = next((row.seed_by for row in baseline.judged if row.seed_by), "")
    control.note(
        "seed_check",
        seen=found.seen,
        reason=found.reason,
        by=by,
        runs=scheduler.begun(baseline),
        values=found.values,
        exact=found.exact,
        copies=seeding.copies([(name, run.seed) for name, run in runs]),
    )
    state = control.history.state()
    control.say(summary.seed_words(state))
    progress.write_documents(control.campaign_dir, state, control.stand(state))
    return state


def refusal(state: CampaignState) -> str:
    """Why nothing can be confirmed in this campaign; "" if the seed is known to have an effect, or not checked yet."""
    return summary.seed_words(state) if state.unseeded else ""


def doubt(state: CampaignState, idea: Idea, round_number: int) -> str:
    """Why the runs of a round are not independent replicates, checked again with all of them; "" if they are."""
    baseline = state.baseline
    if state.seed_check is None or baseline is None:
        return "not confirmed: no runs of the baseline show whether the seed does anything"
    if state.unseeded:
        return f"not confirmed: the seed does nothing that can be seen ({state.seed_check.reason})"
    ours = [run for _, run in _runs(baseline, _of_round(baseline, round_number, judged=True))]
    again = seeding.effect(ours)
    if again is not None and not again.seen:
        return f"not confirmed: {again.reason} (with the fresh runs of the baseline); {seeding.DECLARE}"
    fresh = [run for _, run in _runs(idea, _of_round(idea, round_number))]
    found = seeding.differs(fresh, ours)
    if found is not None and not found.seen:
        return f"not confirmed: its fresh runs are copies of one another, as it fixes a seed itself ({found.reason})"
    return ""


def _of_round(idea: Idea, number: int, *, judged: bool = False) -> list[LedgerRow]:
    fresh = {run.run for run in idea.runs if run.round == number}
    rows = [row for row in idea.rows if row.run_id in fresh]
    return [row for row in (*(idea.judged if judged else ()), *rows) if measured(row) is not None]


def _runs(idea: Idea, rows: list[LedgerRow]) -> list[tuple[str, SeededRun]]:
    seeds = {run.run: run.seed for run in idea.runs}
    found = [(row, seeds.get(row.run_id)) for row in rows]
    return [(row.run_id, _run(row, seed)) for row, seed in found if seed is not None]


def _run(row: LedgerRow, seed: int) -> SeededRun:
    found = measured_again(row)
    others: dict[str, list[tuple[int, float]]] = {}
    for reading in found.readings:
        for key, value in reading.metrics.items():
            others.setdefault(key, []).append((reading.step, value))
    return SeededRun(seed, tuple(found.series) or _last(row), others)


def _last(row: LedgerRow) -> tuple[tuple[int, float], ...]:
    """The last value that the ledger has, as a series of one point; () if there is none."""
    return () if row.metric_value is None else ((row.metric_step or 0, row.metric_value),)
