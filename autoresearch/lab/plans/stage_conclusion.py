"""The conclusion of a stage whose campaign has ended: result against expectation, outcome, deviations from the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autoresearch.core.campaign import decision
from autoresearch.core.campaign.judgement import search_mean, search_values
from autoresearch.core.campaign.shown_value import shown_value
from autoresearch.core.campaign.spec import CampaignPhase, Rules
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.plans.condition import WORDS
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.view import Met, StageRun
from autoresearch.core.run.ending import Verdict
from autoresearch.core.statistics.noise import noise_of
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.records.campaign_records import CampaignDir, entries


def conclude_stage(stage_run: StageRun, stage: Stage, campaign_dir: CampaignDir) -> dict[str, Any]:
    """The record of a stage whose campaign has ended: result against expectation, and the next step."""
    state = CampaignHistory(campaign_dir).state()
    facts = stage_facts(state)
    added = sum(1 for _ in entries(campaign_dir.requests, needle=b'"add"'))
    met, n = judged(stage, facts)
    outcome = stage.outcomes[n]
    best = state.best
    return {
        "stage": stage.name,
        "campaign": stage_run.campaign,
        "expected": stage.expectation.sentence,
        "expectation": stage.expectation.when.text,
        "met": met.value,
        "outcome": n,
        "condition": outcome.condition,
        "conclusion": outcome.conclusion,
        "next": outcome.next,
        "facts": {**{word: facts[word] for word in WORDS}, **condition_facts(stage, facts)},
        "kept": [idea.slug for idea in state.ideas if idea.kept and idea.index > 1],
        "confirmed": [idea.slug for idea in state.ideas if idea.kept and idea.confirmed == "confirmed"],
        "shown": {idea.slug: shown_value(state, idea).to_json() for idea in state.ideas if idea.kept},
        "best": best.slug if best else "",
        "best_commit": best.commit if best else "",
        "metric": state.spec.objective.metric,
        "base_commit": state.spec.base_commit,
        "ledger": str(campaign_dir.ledger),
        "reason": state.reason,
        "deviations": list(deviations(state, added=added)),
    }


def deviations(state: CampaignState, *, added: int) -> Iterator[str]:
    """Describe every change to a campaign that its plan does not contain; `added`: ideas added by hand."""
    waiting = False
    for line in state.timeline:
        match line.get("do"):
            case "state":
                waiting = line.get("state") == CampaignPhase.WAITING
            case "rules":
                rules = ", ".join(f"{key} {line[key]}" for key in Rules.__dataclass_fields__ if key in line)
                why = "its ideas were used up" if waiting else "by `campaign set`"
                yield f"stop rules changed to {rules} ({why})"
            case "unwanted":
                yield f"idea {line.get('slug')} was skipped: {line.get('reason')}"
            case "fixed":
                yield f"idea {line.get('slug')} was repaired: {line.get('note')}"
            case "told" if line.get("how"):
                yield f"it was told to {line['how']}: {line.get('reason')}"
    if added:
        yield f"ideas were added by hand (`campaign add`: {added})"
    for hypothesis, reason in state.skipped:
        yield f"idea {hypothesis.slug} was never tried: {reason}"


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
