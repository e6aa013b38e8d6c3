"""What an idea is judged against in the state of its campaign, and whether it is owed a re-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from autoresearch.core.campaign.decision import Decision, DecisionRule, RunEvidence, compared, decide, gain
from autoresearch.core.campaign.deterministic import decide_once, resolution_of
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.collapse import collapsed, floor_of, survivors
from autoresearch.core.statistics.noise import UNKNOWN, Noise, Spread, mean, pooled, spread_of, total

DEFAULT = DecisionRule()
LEAST_BASELINE = 4  # runs of the baseline below which it does not tell how noisy other ideas are


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
    objective, baseline = state.spec.objective, state.baseline
    rival = None if idea.hypothesis.is_baseline else incumbent(state, idea)
    if state.unseeded and rival is not None and rival.values:
        best = anchor(state, idea) if simpler else ()
        evidence = RunEvidence(values, rival.values, noise_without(state, idea), simpler, smoke, best)
        return decide_once(objective, evidence, resolution_of(state, values))
    floor = floor_for(state, idea, values)
    own = survivors(objective, baseline.values, floor) if baseline else []
    evidence = RunEvidence(
        values=values,
        incumbent=past_values(rival) if rival else (),
        noise=noise_without(state, idea, floor),
        simpler=simpler,
        smoke=smoke,
        anchor=anchor(state, idea) if simpler else (),
        floor=floor,
        luck=floor is not None and luck(state, floor),
        kept=idea is state.best and idea.status == Verdict.KEEP,
        baseline_sd=pooled([spread_of(own)]).sd if len(own) >= LEAST_BASELINE else None,
    )
    rule = replace(rule_of(state), least=1, most=1) if copied else rule_of(state)
    return decide(objective, evidence, rule)


def _is_out(state: CampaignState, idea: Idea) -> bool:
    """Whether clearly, without its exact noise, no re-test is owed: `decide` requires more than this."""
    if not idea.values or idea.copies or idea.hypothesis.smoke:
        return True
    if idea.status == Verdict.KEEP:
        return idea is not state.best or not search_goes_on(state)
    if len(idea.judged) >= rule_of(state).most:
        return True
    if idea.simpler or len(idea.judged) > 1:
        return False
    floor = floor_for(state, idea, idea.values)
    if floor is not None and collapsed(state.spec.objective, idea.values[0], floor):
        return not luck(state, floor)
    rival = incumbent(state, idea)
    ahead = gain(state.spec.objective, idea.values, rival.values) if rival and rival.values else 0.0
    if ahead <= 0:
        return True
    sd = noise_without(state, idea, floor).sd
    return sd is not None and ahead < 0.999 * rule_of(state).first * sd


def search_goes_on(state: CampaignState) -> bool:
    """Whether further ideas are to come, as far as the number of ideas tells."""
    count = state.spec.rules.count
    return not state.open_round and (count is None or state.attempted < count)


def incumbent(state: CampaignState, idea: Idea) -> Idea | None:
    """The idea to beat: the best other one that is kept, else the baseline."""
    best = state.best
    parents = state.memo("parents", lambda: {other.parent for other in state.ideas})
    if idea is best or idea.status == Verdict.KEEP or idea.slug in parents or idea.hypothesis.is_baseline:
        rest = CampaignState(state.spec, [other for other in state.ideas if other is not idea])
        best = rest.best
    return best


def anchor(state: CampaignState, idea: Idea) -> Sequence[float]:
    """The values of the best other idea that is kept on merit.

    One that was declared simpler counts if it is better by more than chance, or the resolution, explains.
    """
    best: Sequence[float] = ()
    objective, rule = state.spec.objective, rule_of(state)
    for other in sorted(state.keeps, key=lambda one: one.decided):
        if other is idea or not other.kept or not other.values:
            continue
        bar = 0.0
        if best and other.simpler and state.unseeded:
            bar = resolution_of(state).size
        elif best and other.simpler:
            bar = compared(objective, other.values, best, noise_without(state, other), rule).bar(rule.alpha)
        if not best or gain(objective, other.values, best) > bar:
            best = other.values
    return best


def search_values(state: CampaignState, idea: Idea) -> list[float]:
    """The values that the mean of an idea rests on in the search: without the runs that collapsed, unless all did."""
    if state.unseeded or not idea.values:
        return idea.values
    return survivors(state.spec.objective, idea.values, floor_for(state, idea, idea.values))


def search_mean(state: CampaignState, idea: Idea) -> float | None:
    """The mean by which the search compares an idea; None without a metric."""
    values = search_values(state, idea)
    return mean(values) if values else None


def floor_for(state: CampaignState, idea: Idea, values: Sequence[float | None]) -> float | None:
    """The value beyond which a run has collapsed. `values`: of an idea whose first run may have no row yet."""
    objective = state.spec.objective

    def known() -> list[float]:
        baseline = state.baseline
        return [*(baseline.values if baseline else ()), *(i.values[0] for i in state.ideas[1:] if i.values)]

    if idea.values or idea.hypothesis.is_baseline:
        return state.memo("floor", lambda: floor_of(objective, known()))
    return floor_of(objective, [*known(), *values[:1]])


def luck(state: CampaignState, floor: float) -> bool:
    """Whether an idea is known of which some runs collapsed and others did not."""

    def mixed(idea: Idea) -> bool:
        fallen = [collapsed(state.spec.objective, value, floor) for value in idea.values]
        return any(fallen) and not all(fallen)

    return state.memo(f"luck {floor}", lambda: any(map(mixed, state.ideas)))


def noise_without(state: CampaignState, idea: Idea, floor: float | None = None) -> Noise:
    """The noise of all other ideas' replicates: the total minus its own, as there are thousands of others."""
    objective = state.spec.objective

    def of(any_idea: Idea) -> Spread:
        if floor is None or not any(collapsed(objective, value, floor) for value in any_idea.values):
            return any_idea.spread
        return spread_of(survivors(objective, any_idea.values, floor))

    every = state.memo(f"spread {floor}", lambda: total(map(of, state.ideas)))
    own = of(idea)
    squares = every.squares - own.squares
    if not squares >= 1e-3 * own.squares:  # nearly all is its own, or not finite: digits would be lost
        return pooled(of(other) for other in state.ideas if other is not idea)
    df = every.df - own.df
    return Noise(squares / df, df) if df else UNKNOWN


def rule_of(state: CampaignState) -> DecisionRule:
    """The decision rule with as many re-tests as this campaign allows."""
    return rule_for(state.spec.retests)


@lru_cache
def rule_for(retests: int) -> DecisionRule:
    """The decision rule with at most so many re-tests of an idea."""
    most = 1 + retests
    return replace(DEFAULT, least=min(DEFAULT.least, most), most=most)


def past_values(idea: Idea) -> list[float | None]:
    """One entry per row that counts for the idea, oldest first."""
    return [measured(row) for row in idea.judged if row.run_id not in idea.copies]


def unprovable(idea: Idea) -> str:
    """Why further runs cannot prove it: they are copies of one another until its code changes; "" if they can."""
    if idea.claim is None or idea.confirmed != "undecided":
        return ""
    return idea.claim.reason if idea.copies or idea.claim.copies == idea.commit != "" else ""
