"""Have a coding agent write a plan: a turn without edits, at most twice more with the problems of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.agents.agent import Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.proposal_text import one_line
from autoresearch.core.plans.agent_answer import SCHEMA
from autoresearch.errors import ResearcherFailed
from autoresearch.git_repo.isolated_worktree import IsolatedWorktree
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.agent_work.propose import data_of
from autoresearch.lab.agents.turn_dir import next_directory
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft
from autoresearch.lab.plans.plan_answer import PlanAnswer, read_plan_answer
from autoresearch.lab.plans.plan_dir import PlanDir
from autoresearch.lab.plans.plan_prompt import correction, plan_prompt, repeated
from autoresearch.lab.plans.plan_request import PlanRequest
from autoresearch.lab.resolve.run_names import key_of
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
