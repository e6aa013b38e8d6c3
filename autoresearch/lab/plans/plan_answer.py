"""The plan in an agent's answer: its text, as it would be written to the file, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.agents.proposal_text import is_inside
from autoresearch.core.blueprint.finding import errors
from autoresearch.core.plans.agent_answer import plan_of
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, read_draft
from autoresearch.lab.plans.plan_request import PlanRequest
from autoresearch.lab.yaml_files import dump
from autoresearch.records.secrets import mask_text


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """An answer that was read: either a draft without errors, or the problems that the agent is told."""

    text: str = ""
    draft: Draft | None = None
    problems: tuple[str, ...] = ()


def read_plan_answer(request: PlanRequest, data: object, parts: Parts) -> PlanAnswer:
    """Turn the answer's data into a plan, and check it as `plan check` would."""
    plan, problems = plan_of(data)
    problems = problems or _name_from_plan(plan["stages"], request.plan_dir.checkout.root, request.file.parent)
    if problems:
        return PlanAnswer(problems=tuple(problems))
    topic = os.path.relpath(request.topic, request.file.parent)
    ordered = {"title": plan.get("title"), "question": plan.get("question"), "topic": topic, "stages": plan["stages"]}
    unknown = [f"there is no key `{key}`" for key in plan if key not in ordered]
    check = f"autoresearch plan check {request.file.name}"
    text = f"# Written by {request.author.name} for {topic}; after a change: {check}\n\n{mask_text(dump(ordered))}"
    try:
        draft = read_draft(request.file, parts, data=text.encode())
    except AutoresearchError as error:
        return PlanAnswer(text, problems=(error.message,))
    invalid = [finding.message + (f" ({finding.hint})" if finding.hint else "") for finding in errors(draft.findings)]
    problems = [*unknown, *invalid]
    return PlanAnswer(text, None if problems else draft, tuple(problems))


def _name_from_plan(stages: Iterable[Mapping[str, Any]], root: Path, folder: Path) -> list[str]:
    """Rewrite the paths of blueprints, which an agent gives from the repository's root; returns the problems."""
    problems = []
    for n, stage in enumerate(stages):
        blueprint = stage["campaign"]["blueprint"]
        if not isinstance(blueprint, str) or not is_inside(blueprint) or not (root / blueprint).is_file():
            problems.append(f"stages[{n}].blueprint: {blueprint!r} is no file of the repository")
        else:
            stage["campaign"]["blueprint"] = os.path.relpath(root / blueprint, folder)
    return problems
