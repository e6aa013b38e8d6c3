"""Whether the seed of a campaign has an effect, judged from the curves of the baseline's runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autoresearch.core.campaign.state import CampaignState, Idea, SeedCheck, measured
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import Action, Note, Say
from autoresearch.core.controller.sentences import seed_sentence
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import seeding
from autoresearch.core.statistics.seeding import SeededRun

Curves = Mapping[str, SeededRun]  # by run ID


def check_due(state: CampaignState) -> bool:
    """Whether the check is to be made, as soon as the baseline's runs allow it."""
    baseline = state.baseline
    return state.seed_check is None and baseline is not None and not scheduler.waits(baseline)


def measured_rows(idea: Idea) -> list[LedgerRow]:
    """The judged rows of an idea that have the metric."""
    return [row for row in idea.judged if measured(row) is not None]


def round_rows(idea: Idea, number: int) -> list[LedgerRow]:
    """The rows of an idea's confirmation runs in a round that have the metric."""
    fresh = {run.run for run in idea.runs if run.round == number}
    return [row for row in idea.rows if row.run_id in fresh and measured(row) is not None]


def check_seeds(state: CampaignState, curves: Curves) -> tuple[Action, ...]:
    """Record the result of the check; () if the runs do not allow it yet."""
    baseline = state.baseline
    if baseline is None:
        return ()
    rows = [row for row in measured_rows(baseline) if row.run_id in curves]
    found = seeding.effect([curves[row.run_id] for row in rows])
    if found is None:
        return ()
    by = next((row.seed_by for row in baseline.judged if row.seed_by), "")
    check = SeedCheck(found.seen, found.reason, by, scheduler.begun(state, baseline), found.values, found.exact)
    copies = seeding.copies([(row.run_id, curves[row.run_id].seed) for row in rows])
    fields = {name: getattr(check, name) for name in SeedCheck.__dataclass_fields__}
    return Note("seed_check", {**fields, "copies": copies}), Say(seed_sentence(check, state.spec.objective.metric))


def doubt(state: CampaignState, idea: Idea, number: int, curves: Curves) -> str:
    """Why the runs of a round are not independent replicates, checked again with all of them; "" if they are."""
    baseline = state.baseline
    if state.seed_check is None or baseline is None:
        return "not confirmed: no runs of the baseline show whether the seed does anything"
    if state.unseeded:
        return f"not confirmed: the seed does nothing that can be seen ({state.seed_check.reason})"
    ours = _runs([*measured_rows(baseline), *round_rows(baseline, number)], curves)
    again = seeding.effect(ours)
    if again is not None and not again.seen:
        return f"not confirmed: {again.reason} (with the fresh runs of the baseline); {seeding.DECLARE}"
    found = seeding.differs(_runs(round_rows(idea, number), curves), ours)
    if found is not None and not found.seen:
        return f"not confirmed: its fresh runs are copies of one another, as it fixes a seed itself ({found.reason})"
    return ""


def _runs(rows: Iterable[LedgerRow], curves: Curves) -> list[SeededRun]:
    return [curves[row.run_id] for row in rows if row.run_id in curves]
