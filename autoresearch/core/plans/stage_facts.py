"""The values that the conditions of a stage refer to, computed from its campaign."""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.campaign import decision
from autoresearch.core.campaign.judgement import search_mean, search_values
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.view import Met
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import noise_of


def stage_facts(state: CampaignState) -> dict[str, float | None]:
    """The value of every word of `core.plans.condition`, including those of each idea; None if unknown."""
    ideas = [idea for idea in state.ideas if idea.index > 1]
    begun = [idea for idea in state.ideas if idea.attempted]
    crashed = sum(idea.status == Verdict.CRASH for idea in begun)
    best = state.best
    ends = [row.ended for row in state.rows if row.ended is not None]
    gains = (idea.claim.gain for idea in ideas if _confirmed(idea) and idea.claim)
    proved = [gain for gain in gains if gain is not None]
    facts: dict[str, float | None] = {
        "baseline": search_mean(state, state.baseline) if state.baseline else None,
        "best": search_mean(state, best) if best else None,
        "delta": _delta(state, best),
        "noise": noise_of(search_values(state, idea) for idea in state.ideas).sd,
        "kept": sum(idea.kept for idea in ideas),
        "confirmed": sum(_confirmed(idea) for idea in ideas),
        "confirmed_delta": max(proved, default=None),
        "demoted": sum(idea.confirmed == "demoted" for idea in ideas),
        "attempted": len(begun),
        "crashed": crashed,
        "crashed_share": crashed / len(begun) if begun else None,
        "runs": len(state.rows),
        "hours": (max(ends) - state.spec.created) / 3600 if ends else None,
        "gpu_hours": state.gpu_hours,
        "ended": float(not state.stop_mode),
    }
    for idea in ideas:
        facts[f"value({idea.slug})"] = search_mean(state, idea)
        facts[f"delta({idea.slug})"] = _delta(state, idea)
        facts[f"kept({idea.slug})"] = float(idea.kept)
        facts[f"confirmed({idea.slug})"] = float(_confirmed(idea))
        facts[f"crashed({idea.slug})"] = float(idea.status == Verdict.CRASH)
    return facts


def judged(stage: Stage, facts: Mapping[str, float | None]) -> tuple[Met, int]:
    """Whether the expectation was met, and the index of the outcome."""
    holds = stage.expectation.when.holds(facts)
    met = Met.UNDECIDED if holds is None else Met.MET if holds else Met.NOT_MET
    return met, stage.outcome(facts)


def condition_facts(stage: Stage, facts: Mapping[str, float | None]) -> dict[str, float | None]:
    """The values that the conditions of this stage refer to, by word; None if unknown."""
    conditions = [stage.expectation.when, *(outcome.when for outcome in stage.outcomes if outcome.when)]
    return {word: facts.get(word) for condition in conditions for word in condition.words}


def _confirmed(idea: Idea) -> bool:
    return idea.kept and idea.confirmed == "confirmed"


def _delta(state: CampaignState, idea: Idea | None) -> float | None:
    baseline = state.baseline
    if idea is None or baseline is None or not (idea.values and baseline.values):
        return None
    return decision.gain(state.spec.objective, search_values(state, idea), search_values(state, baseline))
