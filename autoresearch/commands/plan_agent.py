"""Where `autoresearch plan` meets its agent: the one place that wires a real researcher to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autoresearch.errors import EnvironmentUnusable, UsageError

if TYPE_CHECKING:
    from autoresearch.core.plan_view import PlanView
    from autoresearch.core.researcher import Ask
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.planning.ask import WrittenPlan
    from autoresearch.lab.planning.place import PlanPlace

Chosen: TypeAlias = tuple[str, str, str, str]
"""Agent, model, command line of `command`, time of a turn; as typed."""


def asked(
    chosen: Chosen,
    topic: Path,
    path: Path,
    place: PlanPlace,
    parts: Parts,
    *,
    view: PlanView | None = None,
    reason: str = "",
) -> WrittenPlan:
    """Have an agent write the plan that will lie at `path`. ResearcherFailed where it writes none."""
    from autoresearch.core.durations import parse_duration
    from autoresearch.core.researcher import Bounds
    from autoresearch.lab.planning.ask import Question, written

    try:
        seconds = parse_duration(chosen[3])
    except ValueError as error:
        raise UsageError(f"--turn-timeout: {error}", hint="durations look like 20m or 1h") from None
    ask, resumes = researcher_of(chosen, parts)
    bounds = Bounds(seconds=seconds)
    question = Question(topic, path, place, ask, chosen[0], bounds, resumes, view, reason)
    return written(question, parts)


def researcher_of(chosen: Chosen, parts: Parts) -> tuple[Ask, bool]:
    """How to ask an agent, and whether it remembers its last turn."""
    raise EnvironmentUnusable(f"the agent {chosen[0]} cannot be asked yet")
