"""Whether the seed of a campaign has an effect, judged from the curves of the baseline's runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from autoresearch.core.campaign.deterministic import claim_words
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import Action, Note, RecordVerdict, Say
from autoresearch.core.controller.sentences import seed_words
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import seeding
from autoresearch.core.statistics.seeding import Randomness, SeedCheck, SeededRun

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
    begun, step = scheduler.begun(state, baseline), seeding.last_digit(_objective(curves[row.run_id] for row in rows))
    check = SeedCheck(found.seen, found.reason, by, begun, found.values, found.exact, step)
    check = replace(check, **_randomness(state, found, [curves[row.run_id] for row in rows]))
    copies = seeding.copies([(row.run_id, curves[row.run_id].seed) for row in rows])
    return Note("seed_check", {**asdict(check), "copies": copies}), Say(seed_words(replace(state, seed_check=check)))


def _randomness(state: CampaignState, effect: seeding.Effect, runs: Sequence[SeededRun]) -> dict[str, Any]:
    """What is known of the randomness: as it was declared or read, else by the curves; equal runs are copies."""
    known, why = state.spec.seeding, state.spec.seeding_why
    if known == Randomness.RANDOM and effect.values:
        return {"seen": False, "randomness": known, "why": why}
    if effect.seen:
        return {"randomness": Randomness.SEED.value}
    if known == Randomness.FIXED or not effect.values:
        return {"randomness": Randomness.FIXED.value, "why": why if known == Randomness.FIXED else ""}
    return {"randomness": seeding.from_the_start(runs).value}


def _objective(seeded_runs: Iterable[SeededRun]) -> Iterable[float]:
    return (value for run in seeded_runs for _, value in run.series if math.isfinite(value))


def verdicts_without_test(state: CampaignState, ideas: Sequence[Idea] = ()) -> tuple[Action, ...]:
    """The verdicts on ideas (else on all that are kept) where further runs would be copies, and what they mean.

    () on ideas that have their verdict, and on those whose runs the seed changes, as far as is known.
    """
    actions: list[Action] = []
    for idea in ideas or state.keeps:
        if not idea.kept or idea.index == 1 or idea.confirmed or state.distrusted(idea):
            continue
        if not (state.unseeded or idea.copies):
            continue
        do, (reason, delta) = "deterministic", claim_words(state, idea)
        if not state.unseeded:
            do, reason, delta = "undecided", "its runs are copies of one another, as it fixes a seed itself", None
        fields = {"index": idea.index, "slug": idea.slug, "reason": reason, "delta": delta}
        actions += [RecordVerdict(do, fields), Say(f"{idea.name}: {do}: {reason}")]
    return tuple(actions)


def doubt(state: CampaignState, idea: Idea, number: int, curves: Curves) -> tuple[str, bool]:
    """Why the runs of a round are not independent replicates, checked again with all of them; "" if they are.

    And whether it is the idea that fixes its seed, so that more runs would show the same.
    """
    baseline = state.baseline
    if state.seed_check is None or baseline is None:
        return "not confirmed: no runs of the baseline show whether the seed does anything", False
    ours = _runs([*measured_rows(baseline), *round_rows(baseline, number)], curves)
    again = None if state.replicated else seeding.effect(ours)
    if again is not None and not again.seen:
        return f"not confirmed: {again.reason} (with the fresh runs of the baseline); {seeding.DECLARE}", False
    test = seeding.scatters if state.replicated else seeding.differs
    found = test(_runs(round_rows(idea, number), curves), ours)
    if found is None or found.seen:
        return "", False
    copies = "are" if not found.values else "cannot be told from"
    why = f"not confirmed: its fresh runs {copies} copies of one another, as it fixes a seed itself ({found.reason})"
    return why, not found.values


def _runs(rows: Iterable[LedgerRow], curves: Curves) -> list[SeededRun]:
    return [curves[row.run_id] for row in rows if row.run_id in curves]
