"""What an idea is judged against in the state of its campaign, and whether it is owed a re-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoresearch.core.campaign.decision import Decision, DecisionRule, RunEvidence, decide, gain
from autoresearch.core.campaign.deterministic import best_kept, decide_once, resolution_of
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import UNKNOWN, Noise, pooled, total


def pending(state: CampaignState, idea: Idea) -> Decision | None:
    """The decision after the last judged row of an idea, computed again.

    None without a judged row, if its curve ended it, and if clearly no re-test is owed, as where it would be a copy:
    there are thousands of such ideas, and each is checked before every run.
    """
    if not idea.judged or idea.pruned or state.unseeded or _is_out(state, idea):
        return None
    return decision_of(state, idea, past_values(idea), simpler=idea.simpler, smoke=idea.hypothesis.smoke)


def decision_of(
    state: CampaignState,
    idea: Idea,
    values: Sequence[float | None],
    *,
    simpler: bool,
    smoke: bool,
    copied: bool = False,
) -> Decision:
    """The decision on an idea whose runs gave these values, oldest first; None is a run without a metric.

    `copied`: its further runs are copies of its first one, which is then all that can be known of it.

    The only way to a decision, of a run that has just ended as of a row that is read again.
    """
    evidence = RunEvidence(
        values=values,
        incumbent=() if idea.hypothesis.is_baseline else incumbent(state, idea),
        noise=noise_without(state, idea),
        simpler=simpler,
        smoke=smoke,
    )
    if state.unseeded and evidence.incumbent:
        return decide_once(state.spec.objective, evidence, resolution_of(state, values), best_kept(state, idea))
    rule = replace(rule_of(state), least=1, most=1) if copied else rule_of(state)
    return decide(state.spec.objective, evidence, rule)


def _is_out(state: CampaignState, idea: Idea) -> bool:
    """Whether clearly, without its exact noise, no re-test is owed: `decide` requires more than this."""
    if not idea.values or idea.copies or idea.hypothesis.smoke or len(idea.judged) >= rule_of(state).most:
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
    """The decision rule with as many re-tests as this campaign allows."""
    return rule_for(state.spec.retests)


def rule_for(retests: int) -> DecisionRule:
    """The decision rule with at most so many re-tests of an idea."""
    usual, most = DecisionRule(), 1 + retests
    return replace(usual, least=min(usual.least, most), most=most)


def past_values(idea: Idea) -> list[float | None]:
    """One entry per row that counts for the idea, oldest first."""
    return [measured(row) for row in idea.judged if row.run_id not in idea.copies]
