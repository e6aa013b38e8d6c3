"""What a coding agent is asked when it is to write a plan, or to revise one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.agents.agent import Ask, Bounds
from autoresearch.core.plans.view import PlanView
from autoresearch.lab.plans.plan_dir import PlanDir


@dataclass(frozen=True, slots=True)
class PlanAuthor:
    """The coding agent that writes a plan."""

    name: str
    ask: Ask
    bounds: Bounds = field(default_factory=Bounds)
    resumes: bool = False  # whether it remembers its last turn


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A plan to be written, by whom, and where it will be kept."""

    topic: Path
    file: Path  # of the plan
    plan_dir: PlanDir
    author: PlanAuthor
    view: PlanView | None = None  # of the plan that is revised
    reason: str = ""  # why it is revised
