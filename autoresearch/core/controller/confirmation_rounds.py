"""Rounds of confirmation: planned before their first run, judged after their last.

Whether the seed of a campaign has an effect, judged from the curves of the baseline's runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from autoresearch.core.campaign.claim import Claim, ClaimEstimate
from autoresearch.core.campaign.judgement import claim_words, one_run_claim
from autoresearch.core.campaign.spec import MOST_ROUNDS
from autoresearch.core.campaign.state import CampaignState, Idea, Round, marked, measured
from autoresearch.core.controller import ablation, runs_and_retries
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.controller.sentences import breach_words, doubt_words, seed_words
from autoresearch.core.run.ending import TAMPERED, UNPROVEN, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics import seeding
from autoresearch.core.statistics.confirmation import (
    FEWEST,
    Design,
    confirm,
    design,
    design_at,
    fewest_runs,
    level,
    unfinished,
)
from autoresearch.core.statistics.noise import mean
from autoresearch.core.statistics.noise import measured as measured_values
from autoresearch.core.statistics.seeding import Randomness, SeedCheck, SeededRun

Curves = Mapping[str, SeededRun]  # by run ID


# -- the seeds -------------------------------------------------------------------------------------------------------


def check_due(state: CampaignState) -> bool:
    """Whether the check of the seeds is to be made, as soon as the baseline's runs allow it."""
    baseline = state.baseline
    return state.seed_check is None and baseline is not None and not baseline.waits


def measured_rows(idea: Idea) -> list[LedgerRow]:
    """The judged rows of an idea that have the metric."""
    return [row for row in idea.judged if measured(row) is not None]


def round_rows(idea: Idea, number: int) -> list[LedgerRow]:
    """The rows of an idea's confirmation runs in a round that have the metric."""
    fresh = {run.run for run in idea.runs if run.round == number}
    return [row for row in idea.rows if row.run_id in fresh and measured(row) is not None]


def check_seeds(state: CampaignState, curves: Curves) -> tuple[ControllerAction, ...]:
    """Record the result of the check; () if the runs do not allow it yet."""
    if (baseline := state.baseline) is None:
        return ()
    rows = [row for row in measured_rows(baseline) if row.run_id in curves]
    runs = _runs(rows, curves)
    effect = seeding.effect(runs)
    if effect is None:
        return ()
    step = seeding.last_digit(value for run in runs for _, value in run.series if math.isfinite(value))
    check = SeedCheck(
        seen=effect.seen,
        reason=effect.reason,
        by=next((row.seed_by for row in baseline.judged if row.seed_by), ""),
        runs=runs_and_retries.begun(state, baseline),
        values=effect.values,
        exact=effect.exact,
        step=step,
    )
    check = replace(check, **_randomness(state, effect, runs))
    copies = seeding.copies([(row.run_id, curves[row.run_id].seed) for row in rows])
    return Note("seed_check", {**asdict(check), "copies": copies}), Say(seed_words(replace(state, seed_check=check)))


def _randomness(state: CampaignState, effect: seeding.Effect, runs: Sequence[SeededRun]) -> dict[str, Any]:
    """What is known of the randomness: as it was declared, else by the curves; equal runs are copies."""
    known, why = state.spec.seeding, state.spec.seeding_why
    if known == Randomness.RANDOM and effect.values:
        return {"seen": False, "randomness": known, "why": why}
    if effect.seen:
        return {"randomness": Randomness.SEED.value}
    if known == Randomness.NONE and not effect.values:
        return {"randomness": known, "why": why}
    if known == Randomness.FIXED or not effect.values:
        return {"randomness": Randomness.FIXED.value, "why": why if known == Randomness.FIXED else ""}
    return {"randomness": seeding.from_the_start(runs).value}


def _runs(rows: Iterable[LedgerRow], curves: Curves) -> list[SeededRun]:
    return [curves[row.run_id] for row in rows if row.run_id in curves]


def _doubt(state: CampaignState, idea: Idea, number: int, curves: Curves) -> str:
    """Why the runs of a round are not known to be replicates: the check of the baseline again, with all of its runs,
    and fresh runs of the idea that are all equal. "" if nothing is found.
    """
    baseline = state.baseline
    if state.seed_check is None or baseline is None:
        return "not confirmed: no runs of the baseline show whether the seed does anything"
    again = seeding.effect(_runs([*measured_rows(baseline), *round_rows(baseline, number)], curves))
    if not state.replicated and again is not None and not again.seen:
        return f"not confirmed: {again.reason} (with the fresh runs of the baseline); {seeding.DECLARE}"
    if seeding.same_trace(_runs(round_rows(idea, number), curves)):
        return f"not confirmed: its fresh runs are equal to the last digit, whatever their seed; {seeding.DECLARE}"
    return ""


def verdicts_without_test(state: CampaignState, ideas: Sequence[Idea] = ()) -> tuple[ControllerAction, ...]:
    """The verdicts on ideas (else on all that are kept) where further runs would be copies, and what they mean.

    () on ideas that have their verdict, and where the seed changes the runs, as far as is known.
    """
    if not state.unseeded:
        return ()
    actions: list[ControllerAction] = []
    for idea in ideas or state.keeps:
        if not idea.kept or idea.index == 1 or idea.confirmed or state.distrusted(idea):
            continue
        do, reason = one_run_claim(state), claim_words(state, idea)
        fields = {"index": idea.index, "slug": idea.slug, "reason": reason}
        actions += [Note(do, fields), Say(f"{idea.name}: {do}: {reason}")]
    return tuple(actions)


# -- the plan of a round ---------------------------------------------------------------------------------------------


def rounds_left(state: CampaignState) -> int:
    """How many rounds may still follow by themselves, until the campaign ends; one that is continued has them again."""
    return (1 if state.spec.prove else MOST_ROUNDS) - (next_round(state) - 1 - state.earlier_rounds)


def next_round(state: CampaignState) -> int:
    """The number of the next proof."""
    return 1 + sum(not one.of for one in state.rounds)


def to_be_proved(state: CampaignState) -> list[Idea]:
    """The ideas that the next round tests if nobody names others: the best one or a smaller version of it, or all
    that a proof is about.
    """
    if state.spec.prove:
        return [idea for idea in state.ideas if idea.index > 1 and idea.values and not idea.confirmed]
    best = state.best
    if best and best.kept and best.index > 1 and not best.confirmed:
        return [best]
    smaller = ablation.smaller(state)
    return [smaller] if smaller else []


def plan_round(state: CampaignState, candidates: Sequence[Idea] = ()) -> tuple[Round | None, str]:
    """The next round, for the named ideas or else the best one, and the reason; None and why not."""
    baseline = state.baseline
    chosen = list(candidates) or to_be_proved(state)
    doubted = next((idea for idea in (chosen or state.doubtful) if state.distrusted(idea)), None)
    chosen = [idea for idea in chosen if not state.distrusted(idea)]
    if not chosen and doubted is not None:
        return None, doubt_words(state, doubted)
    if not chosen or baseline is None or not baseline.values:
        return None, "no idea was kept"
    if state.unseeded:
        return None, "runs are not known to be more than copies; `campaign status` says what to declare"
    number, budget = next_round(state), state.spec.rules.confirm_runs
    looks = design(number, len(chosen), budget)
    if looks is None:
        needed = fewest_runs(number, len(chosen))
        return None, f"a claim needs {needed} fresh runs, and `confirm_runs` allows {budget}: `campaign set` raises it"
    *first, last = looks.sizes
    each = f"{', '.join(map(str, first))} or {last}" if first else f"{last}"
    names = ", ".join(idea.name for idea in chosen)
    total = " to ".join(str((len(chosen) + 1) * size) for size in dict.fromkeys((looks.sizes[0], last)))
    why = f"{each} fresh runs of {names} and as many of the baseline: {total} in all"
    return Round(number, tuple(sorted(idea.index for idea in chosen)), looks.sizes), why


def plan_in_time(state: CampaignState, waves: float) -> tuple[Round | None, str]:
    """The next round, as `plan_round` plans it, that ends after so many runs one after the other.

    Each slot takes its share of them, and all runs of a look end before those of the next one begin.
    """
    planned, why = plan_round(state)
    while planned is not None and _waves(planned, state.spec.parallel) > waves:
        fewer = (len(planned.candidates) + 1) * planned.sizes[-1] - 1
        planned, why = plan_round(replace(state, spec=state.spec.with_rules({"confirm_runs": fewer})))
    return planned, why


def _waves(planned: Round, slots: int) -> int:
    sides = len(planned.candidates) + 1
    steps = (size - before for before, size in pairwise((0, *planned.sizes)))
    return sum(math.ceil(step * sides / slots) for step in steps)


# -- the open round --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Test:
    """One candidate of a round against the baseline, by their fresh runs."""

    ongoing: Round
    idea: Idea
    ours: list[float | None]
    theirs: list[float | None]
    result: ClaimEstimate | None  # None: it needs more runs

    @property
    def next_size(self) -> int:
        """The runs of each side at the next look."""
        return next(size for size in self.ongoing.sizes if min(len(self.ours), len(self.theirs)) < size)


def design_of(ongoing: Round) -> Design:
    """The looks of a round, with their levels."""
    return design_at(level(ongoing.number) / len(ongoing.candidates), ongoing.sizes, ongoing.planned)


def _tests(state: CampaignState, ongoing: Round) -> list[_Test]:
    baseline = state.baseline
    assert baseline is not None
    theirs, found = baseline.fresh_values(ongoing.number), []
    looks = design_of(ongoing)
    least = state.spec.least_gain(mean(values)) if (values := measured_values(theirs)) else 0.0
    for idea in state.ideas:
        if idea.index in ongoing.candidates:
            ours = idea.fresh_values(ongoing.number)
            if idea.breach is not None:  # one run that breaks a constraint is enough
                result: ClaimEstimate | None = unfinished(ours, theirs, breach_words(idea.breach))
            else:
                result = confirm(state.spec.objective, looks, ours, theirs, baseline.past_values, least)
            found.append(_Test(ongoing, idea, ours, theirs, result))
    return found


def owed_to_round(state: CampaignState) -> RunRequest | None:
    """A fresh run that the open round still needs; before it, a run that the seed check needs."""
    ongoing, baseline = state.open_round, state.baseline
    if ongoing is None or state.unseeded:
        return None
    if ongoing.of:
        return ablation.owed(state, ongoing)
    if state.seed_check is None:
        return runs_and_retries.owed_to_check(state)
    if baseline is None or _exhausted(baseline, ongoing):
        return None
    open_tests = [one for one in _tests(state, ongoing) if one.result is None and not _exhausted(one.idea, ongoing)]
    needs = [(one.idea, one.next_size) for one in open_tests]
    if needs:
        needs.append((baseline, max(size for _, size in needs)))
    for idea, size in sorted(needs, key=lambda need: _begun(need[0], ongoing) / need[1]):
        if _begun(idea, ongoing) < size:
            return RunRequest(idea, runs_and_retries.next_replicate(idea), "confirm")
    return None


def _exhausted(idea: Idea, ongoing: Round) -> bool:
    """Whether the machine ended so many of an idea's runs that no further one is replaced: as many as were planned."""
    spent = sum(run.round == ongoing.number for run in idea.runs)
    return spent >= 2 * ongoing.sizes[-1] and _begun(idea, ongoing) < ongoing.sizes[-1]


def _begun(idea: Idea, ongoing: Round) -> int:
    return _live(idea, ongoing) + len(idea.fresh_values(ongoing.number))


def _live(idea: Idea, ongoing: Round) -> int:
    return sum(run.round == ongoing.number and run.run not in idea.done for run in idea.runs)


def round_is_over(state: CampaignState) -> bool:
    """Whether every test of the open round is decided, or cannot go on."""
    ongoing, baseline = state.open_round, state.baseline
    if ongoing is None or owed_to_round(state) is not None or any(_live(idea, ongoing) for idea in state.ideas):
        return False
    return baseline is None or not baseline.waits


def cut_round(state: CampaignState) -> tuple[ControllerAction, ...]:
    """End the open round with the runs that it has, as no time is left; () if they are too few to claim anything."""
    assert state.open_round is not None
    undecided = [test for test in _tests(state, state.open_round) if test.result is None]
    size = min((min(len(test.ours), len(test.theirs)) for test in undecided), default=0)
    if size < FEWEST:
        return ()
    return Note("cut_round", {"size": size}), Say(f"no time is left: {size} fresh runs of each side decide")


def judge_round(state: CampaignState, curves: Curves) -> tuple[ControllerAction, ...]:
    """The verdicts of the open round, from the curves of its runs, and one sentence for each."""
    ongoing = state.open_round
    assert ongoing is not None
    settled = Note("confirmed_round", {"round": ongoing.number})
    tests = _tests(state, ongoing)
    if state.unseeded:
        return (*verdicts_without_test(state, [test.idea for test in tests]), settled)
    verdicts: list[ControllerAction] = []
    sentences: list[ControllerAction] = []
    claims = {idea.index: idea.confirmed for idea in state.ideas}
    for test in tests:
        verdict, reason = _verdict(state, test, curves)
        claims[test.idea.index] = verdict.do
        verdicts.append(verdict)
        sentences.append(Say(f"{test.idea.name}: {reason}"))
    shaky = marked(state.ideas, claims)
    for idea in state.keeps:  # those that were built on one that is demoted now
        if idea.index in shaky and not idea.marked and claims[idea.index] != Claim.DEMOTED:
            verdicts.append(Note("marked", {"index": idea.index, "slug": idea.slug, "of": idea.parent}))
            sentences.append(Say(f"{idea.name} was built on a demoted one"))
    return (*verdicts, settled, *sentences)


def _verdict(state: CampaignState, test: _Test, curves: Curves) -> tuple[Note, str]:
    """The verdict on a candidate, and its reason.

    Undecided where no test is valid, as its runs are copies; and instead of confirmed where records of the idea were
    tampered with, it lost more runs than the baseline, or a person has to approve it first.
    """
    idea, number = test.idea, test.ongoing.number
    result = test.result or unfinished(test.ours, test.theirs, "the machine ended too many of its runs")
    claim, reason, p, caveat = Claim(result.claim), result.reason, result.p, ""
    if claim is Claim.CONFIRMED and (why := _why_not_claimed(state, idea)):
        claim, reason = Claim.UNDECIDED, f"not claimed: {why}"
    if doubt := _doubt(state, idea, number, curves):
        claim, reason, p = Claim.UNDECIDED, doubt, None
    if idea.breach is not None:
        claim, reason, p = Claim.DEMOTED, f"not claimed: {breach_words(idea.breach)}", None
    elif claim is Claim.DEMOTED and idea.status != Verdict.KEEP:  # somebody named it, to know its gain
        claim = Claim.UNCONFIRMED
    if claim is Claim.CONFIRMED and idea.edited:  # edited code that ran outside of a sandbox may forge its own success
        runs = {run.run for run in idea.runs if run.round == number}
        sandboxed = all(row.sandbox for row in idea.rows if row.run_id in runs)
        caveat = "; ".join(filter(None, ("" if sandboxed else "not sandboxed", state.too_good(idea))))
        reason = f"{reason} ({caveat})" if caveat else reason
    if doubt:  # an interval is of independent runs
        result = replace(result, gain_low=None, gain_high=None, coverage=None)
    told = replace(result, reason=reason, p=p, caveat=caveat)
    fields = asdict(told) | {"index": idea.index, "slug": idea.slug, "round": number}
    del fields["claim"]  # which the line itself is called by
    return Note(str(claim), fields), reason


def _why_not_claimed(state: CampaignState, idea: Idea) -> str:
    """What forbids to claim an idea that passed its test; "" if nothing does."""
    assert state.baseline is not None
    if state.distrusted(idea):
        return doubt_words(state, idea)
    if tampered := [text for row in idea.rows for text in row.flags.split("; ") if text.startswith(TAMPERED)]:
        return tampered[0]
    # runs whose Runner died, so that only the run itself could tell why
    ours, theirs = (
        sum(row.failure in UNPROVEN and not row.sandbox for row in one.rows) for one in (idea, state.baseline)
    )
    return f"lost runs: {ours} of its own, {theirs} of the baseline's" if ours > theirs else ""
