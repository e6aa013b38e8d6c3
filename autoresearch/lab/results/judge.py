"""Judge a run: a single run is kept if it was measured; in a campaign the noise decides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.decision import Decision, DecisionRule, RunEvidence, decide, gain
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ending import NOTHING_MEASURED, Ending, Verdict, lone_verdict
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.statistics.comparable import Measured, why_not
from autoresearch.core.statistics.no_signal import NO_SIGNAL
from autoresearch.core.statistics.noise import UNKNOWN, Noise, pooled, total
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import locked


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict for the row."""

    verdict: Verdict
    reason: str = ""
    noise: float | None = None
    judged: bool = True  # False: it counts neither for nor against the idea


@contextlib.contextmanager
def judging(spec: RunSpec) -> Iterator[CampaignState | None]:
    """Lock the ledger until the row is written, so that two runs that end together see each other.

    Yields the campaign's state; None for a single run, which needs none.
    """
    campaign_dir = CampaignDir(Path(spec.ledger).parent)
    if not campaign_dir.spec.exists():
        yield None
        return
    from autoresearch.lab.campaigns.campaign_history import history_of

    with locked(campaign_dir.judge_lock):
        yield history_of(campaign_dir).state()


def judge(
    spec: RunSpec,
    end: ExitRecord,
    value: float | None,
    steps: int | None,
    state: CampaignState | None,
    idle: str = "",
    needs_metric: bool = True,
) -> Judgement:
    """The verdict on one finished run. `idle`: why it had nothing to learn from, "" if it had.

    `needs_metric`: False for a run without a named metric that did not fail.
    """
    idea = next((i for i in state.ideas if i.index == spec.index), None) if state else None
    if state is None or idea is None:
        needs_metric = needs_metric or state is not None
        verdict = lone_verdict(end.ending, measured=value is not None, needs_metric=needs_metric)
        reason = NOTHING_MEASURED if verdict is Verdict.KEEP and value is None else ""
        return Judgement(verdict, f"stopped: {end.reason}" if end.ending is Ending.STOPPED else reason)
    if spec.why == "confirm":
        fresh = value if lone_verdict(end.ending, measured=value is not None) is Verdict.KEEP else None
        verdict = Verdict.CRASH if fresh is None else Verdict(idea.status or Verdict.DISCARD)
        return Judgement(verdict, "confirmation run: it judges the claim, not the search", judged=False)
    if is_pruned(end):  # before the smoke rule: it was ended because it was judged
        return Judgement(Verdict.DISCARD, end.reason)
    if foreign := _foreign(spec, state):
        return Judgement(Verdict.DISCARD, f"not judged: {foreign}", judged=False)
    counted = value if _counts(spec, end) else None
    if idle and counted is not None and not idea.hypothesis.is_baseline:
        return Judgement(Verdict.DISCARD, f"{NO_SIGNAL}: {idle}; it judges nothing", judged=False)
    smoke = "smoke" in spec.claims or (steps is not None and steps < state.spec.min_steps)
    smoke = smoke or (end.ending is Ending.STOPPED and counted is not None)
    decision = decide(
        state.spec.objective,
        RunEvidence(
            values=[*_past(idea), counted],
            incumbent=() if idea.hypothesis.is_baseline else incumbent(state, idea),
            noise=noise_without(state, idea),
            simpler="simpler" in spec.claims,
            smoke=smoke,
        ),
        rule_of(state),
    )
    return Judgement(decision.status, decision.reason, decision.noise, decision.judged)


def _foreign(spec: RunSpec, state: CampaignState) -> str:
    """Why the value of this run must not be compared with the campaign's; "" if it may."""
    if spec.objective is None:
        return ""
    ours = Measured(spec.trainer, spec.objective.metric)
    judged = (row for idea in state.ideas for row in idea.judged if row.run_id != spec.run)
    theirs = {Measured.of(row) for row in judged if row.metric_value is not None}
    return next((why for other in sorted(theirs, key=str) if other.metric and (why := why_not(ours, other))), "")


def pending(state: CampaignState, idea: Idea) -> Decision | None:
    """The decision after the last judged row of an idea, computed again.

    None without a judged row, if its curve ended it, and if clearly no re-test is owed: there are thousands of such
    ideas, and each is checked before every run.
    """
    if not idea.judged or idea.pruned or _is_out(state, idea):
        return None
    return decide(
        state.spec.objective,
        RunEvidence(
            values=_past(idea),
            incumbent=() if idea.hypothesis.is_baseline else incumbent(state, idea),
            noise=noise_without(state, idea),
            simpler=idea.simpler,
            smoke=idea.hypothesis.smoke,
        ),
        rule_of(state),
    )


def _is_out(state: CampaignState, idea: Idea) -> bool:
    """Whether clearly, without its exact noise, no re-test is owed: `decide` requires more than this."""
    if not idea.values or idea.hypothesis.smoke or len(idea.judged) >= rule_of(state).most:
        return True
    if idea.status != Verdict.DISCARD or idea.simpler:
        return False
    rule, theirs = rule_of(state), incumbent(state, idea)
    ahead = gain(state.spec.objective, idea.values, theirs) if theirs else 0.0
    if ahead <= 0:
        return True
    sd = noise_without(state, idea).sd
    return sd is not None and ahead < 0.999 * rule.trigger * sd


def incumbent(state: CampaignState, idea: Idea) -> Sequence[float]:
    """The values an idea has to beat: those of the best other idea that is kept, else of the baseline."""
    best = state.best
    parents = state.memo("parents", lambda: {other.parent for other in state.ideas})
    if idea is best or idea.status == Verdict.KEEP or idea.slug in parents or idea.hypothesis.is_baseline:
        rest = CampaignState(state.spec, [other for other in state.ideas if other is not idea])
        best = rest.best
    return best.values if best else []


def noise_without(state: CampaignState, idea: Idea) -> Noise:
    """The noise of all other ideas' replicates: the total minus its own, as there are thousands of others."""
    every = state.memo("spread", lambda: total(other.spread for other in state.ideas))
    own = idea.spread
    squares = every.squares - own.squares
    if not squares >= 1e-3 * own.squares:  # nearly all is its own, or not finite: digits would be lost
        return pooled(other.spread for other in state.ideas if other is not idea)
    df = every.df - own.df
    return Noise(squares / df, df) if df else UNKNOWN


def rule_of(state: CampaignState) -> DecisionRule:
    """The decision rule with as many re-tests as this campaign allows: none if they would be copies."""
    usual = DecisionRule()
    most = 1 if state.unseeded else 1 + state.spec.retests
    return DecisionRule(usual.trigger, min(usual.least, most), most, usual.alpha, usual.flat)


def _past(idea: Idea) -> list[float | None]:
    """One entry per row that counts for the idea, oldest first."""
    return [measured(row) for row in idea.judged if row.run_id not in idea.copies]


def is_pruned(end: ExitRecord) -> bool:
    """Whether a campaign ended the run because of its curve: the Runner keeps the cause of the stop request."""
    return end.ending is Ending.STOPPED and end.cause == PRUNED


def _counts(spec: RunSpec, end: ExitRecord) -> bool:
    """Whether the metric counts after this ending: a campaign's --timeout is a failure, exp_max_time is not."""
    if end.ending is Ending.MAX_TIME:
        return spec.timed_by != "timeout"
    return lone_verdict(end.ending, measured=True) is Verdict.KEEP
