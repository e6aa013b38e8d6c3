"""Rounds of confirmation: planned before their first run, judged after their last.

Whether the seed of a campaign has an effect, judged from the curves of the baseline's runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.judgement import claim_words, unprovable
from autoresearch.core.campaign.state import CampaignState, Idea, Round, marked, measured
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import Action, Note, RecordVerdict, Say
from autoresearch.core.controller.scheduler import RunRequest
from autoresearch.core.controller.sentences import doubt_words, seed_words
from autoresearch.core.run.ending import TAMPERED, UNPROVEN, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import seeding
from autoresearch.core.statistics.confirmation import (
    FUTILE,
    Claim,
    Confirmation,
    Design,
    confirm,
    design,
    fewest_runs,
    level,
    levels,
    unfinished,
)
from autoresearch.core.statistics.noise import mean
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


MOST_ROUNDS = 2  # at the end of a campaign


def rounds_left(state: CampaignState) -> int:
    """How many rounds may still follow by themselves, until the campaign ends; one that is continued has them again."""
    return MOST_ROUNDS - (len(state.rounds) - state.earlier_rounds)


def plan_round(state: CampaignState, candidates: Sequence[Idea] = ()) -> tuple[Round | None, str]:
    """The next round, for the named ideas or else the best one, and the reason; None and why not.

    If the campaign does not allow a round for all of them, the best ones are tested.
    """
    best = state.best
    chosen = list(candidates) or ([best] if best and best.kept and best.index > 1 and not best.confirmed else [])
    doubted = next((idea for idea in (chosen or state.doubtful) if state.distrusted(idea)), None)
    chosen = [idea for idea in chosen if not (idea.copies or unprovable(idea) or state.distrusted(idea))]
    baseline = state.baseline
    if not chosen and doubted is not None:
        return None, doubt_words(state, doubted)
    if not chosen or baseline is None or not baseline.values:
        return None, "nothing was kept that could be claimed"
    if state.unseeded:
        return None, "runs are not known to be more than copies; `campaign status` says what to declare"
    number, budget = len(state.rounds) + 1, state.spec.rules.confirm_runs
    chosen.sort(key=lambda idea: -gain(state.spec.objective, idea.values or baseline.values, baseline.values))
    fitting = next((n for n in range(len(chosen), 0, -1) if design(number, n, budget)), 0)
    found = design(number, fitting, budget) if fitting else None
    needed = fewest_runs(number, len(chosen))
    if found is None:
        return None, f"a claim needs {needed} fresh runs, and `confirm_runs` allows {budget}: `campaign set` raises it"
    sizes, sides = found.sizes, fitting + 1
    each = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    names = ", ".join(idea.name for idea in chosen[:fitting])
    total = " to ".join(str(sides * size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    why = f"{each} fresh runs of {names} and as many of the baseline: {total} in all"
    if left := chosen[fitting:]:
        why += f"; not {', '.join(idea.name for idea in left)}: for all, `confirm_runs` would have to be {needed}"
    return Round(number, tuple(sorted(idea.index for idea in chosen[:fitting])), sizes), why


def owed_to_round(state: CampaignState) -> RunRequest | None:
    """A fresh run that the open round still needs; before it, a run that the seed check needs."""
    ongoing = state.open_round
    if ongoing is None or state.unseeded:
        return None
    if state.seed_check is None:
        return scheduler.owed_to_check(state)
    for idea, size in sorted(_needs(state, ongoing), key=lambda need: _begun(need[0], ongoing.number) / need[1]):
        if _begun(idea, ongoing.number) < size:
            return RunRequest(idea, 1 + max(run.replicate for run in idea.runs), "confirm")
    return None


def _needs(state: CampaignState, ongoing: Round) -> list[tuple[Idea, int]]:
    """The sides of the tests that go on, and how many fresh runs of each the next look has; () if none can go on."""
    baseline, looks = state.baseline, design_of(ongoing)
    if baseline is None or _exhausted(baseline, ongoing):
        return []
    theirs = baseline.fresh_values(ongoing.number)
    needs = []
    for idea in _candidates(state, ongoing):
        ours = idea.fresh_values(ongoing.number)
        if not _exhausted(idea, ongoing) and _judged(state, looks, ours, theirs) is None:
            needs.append((idea, next(size for size in looks.sizes if min(len(ours), len(theirs)) < size)))
    return [*needs, (baseline, max(size for _, size in needs))] if needs else []


def _candidates(state: CampaignState, ongoing: Round) -> list[Idea]:
    return [idea for idea in state.ideas if idea.index in ongoing.candidates]


def _exhausted(idea: Idea, ongoing: Round) -> bool:
    """Whether the machine ended so many of an idea's runs that no further one is replaced: as many as were planned."""
    spent = sum(run.round == ongoing.number for run in idea.runs)
    return spent >= 2 * ongoing.sizes[-1] and _begun(idea, ongoing.number) < ongoing.sizes[-1]


def _judged(
    state: CampaignState, looks: Design, ours: Sequence[float | None], theirs: Sequence[float | None]
) -> Confirmation | None:
    assert state.baseline is not None
    return confirm(state.spec.objective, looks, ours, theirs, state.baseline.past_values)


def design_of(ongoing: Round) -> Design:
    """The looks of a round, with their levels."""
    found = levels(level(ongoing.number) / len(ongoing.candidates), ongoing.sizes)
    return Design(ongoing.sizes, found, FUTILE[: len(ongoing.sizes) - 1])


def round_is_over(state: CampaignState) -> bool:
    """Whether every test of the open round is decided, or cannot go on."""
    ongoing = state.open_round
    return ongoing is not None and owed_to_round(state) is None and not _waits(state, ongoing.number)


def _begun(idea: Idea, number: int) -> int:
    live = sum(run.round == number and run.run not in idea.done for run in idea.runs)
    return live + len(idea.fresh_values(number))


def _waits(state: CampaignState, number: int) -> bool:
    live = any(run.round == number and run.run not in idea.done for idea in state.ideas for run in idea.runs)
    return live or (state.baseline is not None and scheduler.waits(state.baseline))


def judge_round(state: CampaignState, curves: Curves) -> tuple[Action, ...]:
    """The verdicts of the open round, from the curves of its runs, and one sentence for each."""
    ongoing, baseline = state.open_round, state.baseline
    assert ongoing is not None and baseline is not None
    if state.unseeded:
        untested = verdicts_without_test(state, _candidates(state, ongoing))
        return (*untested, Note("confirmed_round", {"round": ongoing.number}))
    theirs = baseline.fresh_values(ongoing.number)
    verdicts: list[Action] = []
    sentences: list[Action] = []
    claims: dict[int, Claim] = {}
    for idea in _candidates(state, ongoing):
        ours = idea.fresh_values(ongoing.number)
        found = _judged(state, design_of(ongoing), ours, theirs)
        result = _allowed(state, idea, found or unfinished(ours, theirs, "the machine ended too many of its runs"))
        why, copies = doubt(state, idea, ongoing.number, curves)
        if why:  # no test is valid for copies
            result = replace(result, claim=Claim.UNDECIDED, reason=why, p=None)
        if result.claim is Claim.DEMOTED and idea.status != Verdict.KEEP:  # somebody named it, to know its gain
            result = replace(result, claim=Claim.UNCONFIRMED)
        caveat = _caveat(idea, ongoing.number) if result.claim is Claim.CONFIRMED else ""
        if caveat:
            result = replace(result, reason=f"{result.reason} ({caveat})")
        claims[idea.index] = result.claim
        verdicts.append(_verdict(state, idea, result, caveat, copies=copies))
        sentences.append(Say(f"{idea.name}: {result.reason}"))
    marks = _newly_marked(state, claims)
    for idea, of in marks:
        verdicts.append(RecordVerdict("marked", {"index": idea.index, "slug": idea.slug, "of": of}))
        sentences.append(Say(f"{idea.name} was built on a demoted one"))
    return (*verdicts, Note("confirmed_round", {"round": ongoing.number}), *sentences)


def _verdict(
    state: CampaignState, idea: Idea, result: Confirmation, caveat: str, *, copies: bool = False
) -> RecordVerdict:
    ongoing = state.open_round
    assert ongoing is not None
    estimate = result.estimate
    if fresh := [value for value in idea.fresh_values(ongoing.number) if value is not None]:
        estimate = replace(estimate, value=mean(fresh))
    fields: dict[str, object] = {"copies": idea.commit} if copies else {}
    fields |= {
        "index": idea.index,
        "slug": idea.slug,
        "round": ongoing.number,
        "reason": result.reason,
        "delta": result.delta,
        "p": result.p,
        "alpha": result.alpha,
        **estimate.to_verdict(),
        "caveat": caveat,
    }
    return RecordVerdict(result.claim.value, fields)


def _allowed(state: CampaignState, idea: Idea, result: Confirmation) -> Confirmation:
    """The result, but undecided if records of the idea were tampered with, or it lost more runs than the baseline.

    And if a person has to approve it first.
    """
    assert state.baseline is not None
    baseline = state.baseline
    if result.claim is not Claim.CONFIRMED:
        return result
    if state.distrusted(idea):
        return replace(result, claim=Claim.UNDECIDED, reason=f"not claimed: {doubt_words(state, idea)}")
    tampered = next((text for row in idea.rows for text in row.flags.split("; ") if text.startswith(TAMPERED)), "")
    lost, theirs = _lost(idea), _lost(baseline)
    why = tampered or (f"lost runs: {lost} of its own, {theirs} of the baseline's" if lost > theirs else "")
    return replace(result, claim=Claim.UNDECIDED, reason=f"not claimed: {why}") if why else result


def _lost(idea: Idea) -> int:
    """Number of runs whose Runner died, so that only the run itself could tell why."""
    return sum(row.failure in UNPROVEN and not row.sandbox for row in idea.rows)


def _caveat(idea: Idea, number: int) -> str:
    """The caveat of a claim: edited code that ran outside of a sandbox may have forged its own success."""
    runs = {run.run for run in idea.runs if run.round == number}
    return "not sandboxed" if idea.edited and not all(row.sandbox for row in idea.rows if row.run_id in runs) else ""


def _newly_marked(state: CampaignState, claims: Mapping[int, Claim]) -> list[tuple[Idea, str]]:
    """The kept ideas that were built on one that is demoted now, each with its parent's slug."""
    verdicts = {idea.index: claims.get(idea.index, idea.confirmed) for idea in state.ideas}
    shaky = marked(state.ideas, verdicts)
    lost = [i for i in state.keeps if i.index in shaky and not i.marked and verdicts[i.index] != Claim.DEMOTED]
    return [(idea, parent.slug if (parent := state.by_slug(idea.parent)) else "") for idea in lost]
