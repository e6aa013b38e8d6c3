"""The conclusion of a stage whose campaign has ended: result against expectation, outcome, deviations from the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autoresearch.core.campaign.shown_value import shown_value
from autoresearch.core.campaign.spec import CampaignPhase, Rules
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.plans.condition import WORDS
from autoresearch.core.plans.model import Stage
from autoresearch.core.plans.stage_facts import condition_facts, judged, stage_facts
from autoresearch.core.plans.view import StageRun
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
