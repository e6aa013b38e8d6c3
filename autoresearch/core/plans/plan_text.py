"""A plan as text for people to review before they approve it, and as data for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autoresearch.core.plans.model import Stage, StagedPlan


def plan_lines(plan: StagedPlan) -> Iterator[str]:
    """The lines of the text: title, question, then each stage with its outcomes."""
    yield _line(plan.title)
    yield f"  {_line(plan.question)}"
    for n, stage in enumerate(plan.stages, 1):
        yield f"{n}. {stage.name}: {_line(stage.question)}"
        yield f"   campaign: {_campaign(stage)}"
        yield f"   expected: {_line(stage.expectation.sentence)} [{stage.expectation.when.text}]"
        for outcome in stage.outcomes:
            yield f"   {outcome.condition} -> {outcome.next}: {_line(outcome.conclusion)}"


def as_data(plan: StagedPlan) -> dict[str, Any]:
    """The plan as a JSON-like dict."""
    stages = [
        {
            "name": stage.name,
            "question": stage.question,
            "expected": stage.expectation.sentence,
            "expectation": stage.expectation.when.text,
            "ideas": [str(idea.get("slug")) for idea in stage.ideas],
            "outcomes": [
                {"when": outcome.condition, "conclusion": outcome.conclusion, "next": outcome.next}
                for outcome in stage.outcomes
            ],
            "most_runs": stage.most_runs,
        }
        for stage in plan.stages
    ]
    return {"title": plan.title, "question": plan.question, "stages": stages}


def _campaign(stage: Stage) -> str:
    keys = dict(stage.campaign)
    name = keys.pop("file", None) or keys.pop("blueprint", "")
    rest = ", ".join(f"{key} {value}" for key, value in keys.items() if not isinstance(value, dict | list))
    ideas = f"; {len(stage.ideas)} ideas: {', '.join(str(i.get('slug')) for i in stage.ideas)}" if stage.ideas else ""
    return _line(f"{name}{', ' if rest else ''}{rest}{ideas}")


def _line(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
