"""Have a coding agent write a plan: a turn without edits, at most twice more with the problems of its answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.proposal_text import is_inside, one_line
from autoresearch.core.blueprint.finding import errors
from autoresearch.core.plans.agent_answer import SCHEMA, plan_of
from autoresearch.errors import AutoresearchError, ResearcherFailed
from autoresearch.git_repo.isolated_worktree import IsolatedWorktree
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.agent_work.propose import data_of
from autoresearch.lab.agents.turn_dir import next_directory
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, read_draft
from autoresearch.lab.plans.plan_dir import PlanDir
from autoresearch.lab.plans.plan_prompt import correction, plan_prompt, repeated
from autoresearch.lab.plans.plan_request import PlanRequest
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.lab.yaml_files import dump
from autoresearch.records.index import state_home
from autoresearch.records.secrets import mask_text

ATTEMPTS = 3
MESSAGE_END = "the code that its author reads"
_WORTH_ANOTHER = (None, TurnFault.ANSWER, TurnFault.SILENT)  # faults that another prompt may correct


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """A plan without errors, and what it cost."""

    text: str
    draft: Draft
    usage: Usage
    turn: Path  # directory of the last turn


def write_plan(request: PlanRequest, parts: Parts) -> WrittenPlan:
    """Have the plan written. ResearcherFailed, with the last problem, if no answer contains a usable one."""
    path = _reading_dir(request.plan_dir, parts)
    worktree = IsolatedWorktree(slot(request.plan_dir.checkout, path, reason="a plan is being written"))
    try:
        with worktree.opened(_working_tree(request.plan_dir)) as opened:
            return _ask(request, opened.path, parts)
    finally:
        worktree.slot.remove()


def _ask(request: PlanRequest, cwd: Path, parts: Parts) -> WrittenPlan:
    """Ask until an answer can be used."""
    author = request.author
    prompt = first = plan_prompt(request, parts)
    usage, session = Usage(), ""
    problems: tuple[str, ...] = ()
    for _ in range(ATTEMPTS):
        turn_dir = next_directory(request.plan_dir.directory / "turns", TurnRole.PLAN)
        answer = author.ask(Turn(TurnRole.PLAN, prompt, cwd, turn_dir, SCHEMA, session, author.bounds))
        usage, session = usage + answer.usage, answer.session or session
        if answer.fault not in _WORTH_ANOTHER and answer.data is None:
            raise _failed(request, f"{answer.fault}: {answer.message}", turn_dir)
        data, missing = data_of(answer, "stages")
        read = PlanAnswer(problems=(missing,)) if missing else read_plan_answer(request, data, parts)
        if read.draft is not None:
            return WrittenPlan(read.text, read.draft, usage, turn_dir)
        problems = read.problems
        if author.resumes and answer.session:
            prompt = correction(problems)
        else:
            text = answer.text if missing else json.dumps(data, ensure_ascii=False, indent=1, default=str)
            prompt = repeated(first, text, problems)
    raise _failed(request, f"no usable plan in {ATTEMPTS} answers; the last one: {problems[0]}", turn_dir)


def _failed(request: PlanRequest, reason: str, turn_dir: Path) -> ResearcherFailed:
    return ResearcherFailed(
        f"{request.author.name} wrote no plan: {mask_text(one_line(reason, 400))}",
        hint=f"prompt and answer of its last turn: {turn_dir}",
        fix=f"autoresearch plan write {request.topic}",
    )


def _reading_dir(plan_dir: PlanDir, parts: Parts) -> Path:
    name = f"plan-{plan_dir.slug}-{key_of(plan_dir.directory)}"
    return state_home(parts.environ) / "worktrees" / name / "reading"


def _working_tree(plan_dir: PlanDir) -> str:
    """Commit the working tree: the agent reads a copy of it, and cannot reach the user's own."""
    message = f"plan {plan_dir.slug}: {MESSAGE_END}"
    return snapshot(plan_dir.checkout, message=message, leave_out=[plan_dir.directory.parents[1]]).commit


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
