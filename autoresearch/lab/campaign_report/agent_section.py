"""What the documents of a campaign say about its agent: what it cost, what it mended, what looks suspicious."""

from __future__ import annotations

from collections import Counter

from autoresearch.core.agents.agent import Usage
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.campaign_report import formatting

MOST = 20  # of each kind that are told


def words(state: CampaignState) -> list[str]:
    """One line for each thing; none where nobody was asked."""
    research = state.research
    if not state.spec.research.agent or not research.turns:
        return []
    roles = Counter(note.role for note in research.turns.values())
    asked = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    took = formatting.minutes(research.usage.seconds / 60)
    found = [f"{state.spec.research.agent}: {asked}; {spent(research.usage)}, {took} of its time"]
    faults = Counter(note.fault.value for note in research.turns.values() if note.fault)
    if faults:
        found.append(f"turns that failed: {', '.join(f'{count} {fault}' for fault, count in sorted(faults.items()))}")
    for idea in state.ideas:
        found += [f"{idea.name}: suspicious: {flag}" for flag in idea.hypothesis.flags][:MOST]
        found += [f"{idea.name}: {told}" for told in research.fix_story.get(idea.index, [])][:MOST]
    refused = research.refused[-MOST:]
    found += [f"proposal {idea_name(0, hypothesis)}: refused: {why}" for hypothesis, why in refused]
    return found


def spent(usage: Usage) -> str:
    """`1.20 USD, 51,000 tokens`; what is not known is not said."""
    usd = "" if usage.usd is None else f"{usage.usd:.2f} USD"
    tokens = "" if usage.tokens is None else f"{usage.tokens:,} tokens"
    return ", ".join(part for part in (usd, tokens) if part) or "its cost is not known"
