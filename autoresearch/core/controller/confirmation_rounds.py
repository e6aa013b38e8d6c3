"""Rounds of confirmation: planned before their first run, judged after their last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.lineage import marked
from autoresearch.core.campaign.state import CampaignState, Idea, Round
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import Action, Note, RecordVerdict, Say
from autoresearch.core.controller.scheduler import RunRequest
from autoresearch.core.controller.seed_check import Curves, doubt, verdicts_without_test
from autoresearch.core.controller.sentences import seed_words
from autoresearch.core.run.ending import TAMPERED, UNPROVEN
from autoresearch.core.statistics.confirmation import Claim, Confirmation, confirm, plan
from autoresearch.core.statistics.noise import noise_of

MOST_TRIES = 3  # runs started per wanted run, as some may be lost
MOST_ROUNDS = 2  # at the end of a campaign
HONEST = 0.8  # share of the measured gain to expect: selection inflates the gain


def plan_round(state: CampaignState, candidates: Sequence[Idea] = ()) -> tuple[Round | None, str]:
    """The next round, for the named ideas or else the best one, and the reason; None and why not."""
    best = state.best
    chosen = list(candidates) or ([best] if best and best.kept and best.index > 1 and not best.confirmed else [])
    chosen, baseline = [idea for idea in chosen if not idea.copies], state.baseline
    if not chosen or baseline is None or not baseline.values:
        return None, "nothing was kept that could be claimed"
    if state.unseeded:
        return None, seed_words(state)
    number = len(state.rounds) + 1
    effect = HONEST * min(gain(state.spec.objective, idea.values, baseline.values) for idea in chosen)
    noise = noise_of(idea.values for idea in state.ideas)
    found = plan(effect, noise, candidates=len(chosen), round_number=number, budget=state.spec.confirm_runs)
    if found.each == 0:
        return None, found.reason
    return Round(number, tuple(idea.index for idea in chosen), found.each, found.baseline), found.reason


def owed_to_round(state: CampaignState) -> RunRequest | None:
    """A fresh run that the open round still needs; before it, a run that the seed check needs."""
    ongoing = state.open_round
    if ongoing is None or state.unseeded:
        return None
    if state.seed_check is None:
        return scheduler.owed_to_check(state)
    baseline = state.baseline
    needs = [(idea, ongoing.each) for idea in state.ideas if idea.index in ongoing.candidates]
    needs += [(baseline, ongoing.baseline)] if baseline else []
    for idea, runs in sorted(needs, key=lambda need: _begun(need[0], ongoing.number) / need[1]):
        spent = sum(run.round == ongoing.number for run in idea.runs)
        if _begun(idea, ongoing.number) < runs and spent < MOST_TRIES * runs:
            return RunRequest(idea, 1 + max(run.replicate for run in idea.runs), "confirm")
    return None


def round_is_over(state: CampaignState) -> bool:
    """Whether the open round has all of its runs."""
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
        untested = verdicts_without_test(state, [i for i in state.ideas if i.index in ongoing.candidates])
        return (*untested, Note("confirmed_round", {"round": ongoing.number}))
    candidates = {i.index: i.fresh_values(ongoing.number) for i in state.ideas if i.index in ongoing.candidates}
    found = confirm(state.spec.objective, baseline.fresh_values(ongoing.number), candidates, ongoing.number)
    verdicts: list[Action] = []
    sentences: list[Action] = []
    claims: dict[int, Claim] = {}
    for idea in state.ideas:
        if idea.index not in found:
            continue
        result = _allowed(idea, baseline, found[idea.index])
        if why := doubt(state, idea, ongoing.number, curves):  # no test is valid for copies
            result = replace(result, claim=Claim.UNDECIDED, reason=why, p=None)
        caveat = _caveat(idea, ongoing.number) if result.claim is Claim.CONFIRMED else ""
        if caveat:
            result = replace(result, reason=f"{result.reason} ({caveat})")
        claims[idea.index] = result.claim
        verdicts.append(_verdict(idea, ongoing.number, result, caveat))
        sentences.append(Say(f"idea {idea.index} ({idea.slug}): {result.reason}"))
    marks = _newly_marked(state, claims)
    for idea, of in marks:
        verdicts.append(RecordVerdict("marked", {"index": idea.index, "slug": idea.slug, "of": of}))
        sentences.append(Say(f"idea {idea.index} ({idea.slug}) was built on a demoted one"))
    return (*verdicts, Note("confirmed_round", {"round": ongoing.number}), *sentences)


def _verdict(idea: Idea, number: int, result: Confirmation, caveat: str) -> RecordVerdict:
    fields = {
        "index": idea.index,
        "slug": idea.slug,
        "round": number,
        "reason": result.reason,
        "delta": result.delta,
        "p": result.p,
        "alpha": result.alpha,
        "caveat": caveat,
    }
    return RecordVerdict(result.claim.value, fields)


def _allowed(idea: Idea, baseline: Idea, result: Confirmation) -> Confirmation:
    """The result, but undecided if records of the idea were tampered with, or it lost more runs than the baseline."""
    if result.claim is not Claim.CONFIRMED:
        return result
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
    parents = {i.index: parent.index for i in state.ideas if (parent := state.by_slug(i.parent))}
    verdict = {i.index: claims[i.index].value if i.index in claims else i.confirmed for i in state.ideas}
    demoted = {index for index, claim in verdict.items() if claim == Claim.DEMOTED}
    confirmed = {index for index, claim in verdict.items() if claim == Claim.CONFIRMED}
    found = []
    for index in sorted(marked(parents, demoted, confirmed)):
        idea = next(i for i in state.ideas if i.index == index)
        if idea.status == "keep" and not idea.marked and index not in demoted:
            ancestor = state.by_slug(idea.parent)
            found.append((idea, ancestor.slug if ancestor else ""))
    return found
