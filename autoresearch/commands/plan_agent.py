"""Where `autoresearch plan` meets its agent: the one place that wires a real researcher to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from autoresearch.errors import UsageError

if TYPE_CHECKING:
    from autoresearch.core.plan_view import PlanView
    from autoresearch.core.researcher import Ask, ResearchSpec
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.planning.ask import WrittenPlan
    from autoresearch.lab.planning.place import PlanPlace

Chosen: TypeAlias = Mapping[str, str]
"""What was typed about the agent, by the keys of a campaign file."""


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
    from autoresearch.lab.planning.ask import Question, written

    spec = _spec(chosen)
    ask, resumes = researcher_of(spec, parts)
    return written(Question(topic, path, place, ask, spec.agent, spec.bounds, resumes, view, reason), parts)


def _spec(chosen: Chosen) -> ResearchSpec:
    """What was typed, checked as a campaign's own keys are."""
    from autoresearch.core.durations import parse_duration
    from autoresearch.lab.campaign.declare_research import RESEARCH, converted, research_spec

    values = dict(RESEARCH)
    for key, value in chosen.items():
        try:
            values[key] = converted(key, value, lambda text: parse_duration(str(text)))
        except (ValueError, TypeError) as error:
            raise UsageError(f"--{key.replace('_', '-')}: {error}") from None
    return research_spec(values)


def researcher_of(spec: ResearchSpec, parts: Parts) -> tuple[Ask, bool]:
    """How to ask an agent, and whether it remembers its last turn. UsageError, EnvironmentUnusable for none."""
    import threading

    from autoresearch.lab.research import crew
    from autoresearch.lab.research.turn import run_turn

    crew.check(spec, parts.environ)
    who, premises = crew.call(spec, parts.environ)
    stop = threading.Event()
    return lambda turn: run_turn(who, turn, premises, stop), who.traits.resumes
