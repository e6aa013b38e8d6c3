"""A researcher writes a plan: one turn that changes nothing, asked again with what is wrong, twice at most."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.agents.agent import Ask, Bounds, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.agents.proposal_text import is_inside, one_line
from autoresearch.core.blueprint.finding import errors
from autoresearch.core.campaign import overrides
from autoresearch.core.plans.agent_answer import SCHEMA, plan_of
from autoresearch.core.plans.condition import OF_IDEA, WORDS
from autoresearch.core.plans.model import REVISE
from autoresearch.core.plans.plan_text import plan_lines
from autoresearch.core.plans.view import PlanView
from autoresearch.errors import AutoresearchError, ResearcherFailed
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.isolated_worktree import IsolatedWorktree
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.agent_work.propose import AGAIN, MOST_QUOTED, MOST_TOLD, data_of
from autoresearch.lab.agents.turn_dir import next_directory
from autoresearch.lab.agents.untrusted_text import fenced
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, read_draft, read_topic
from autoresearch.lab.plans.plan_dir import PlanDir
from autoresearch.lab.plans.register import registered_plan
from autoresearch.lab.plans.write import is_blueprint
from autoresearch.lab.render import render
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.resolve_blueprint import resolve_blueprint
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.lab.yaml_files import dump
from autoresearch.records.index import state_home
from autoresearch.records.secrets import mask_text

MOST_BLUEPRINTS = 12
MOST_KEYS = 80  # of one recipe that are shown
_ASKED_AGAIN = (None, TurnFault.ANSWER, TurnFault.SILENT)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of whom, and where the plan will lie."""

    topic: Path
    path: Path  # of the plan
    plan_dir: PlanDir
    ask: Ask
    agent: str
    bounds: Bounds = field(default_factory=Bounds)
    resumes: bool = False  # whether the agent remembers its last turn
    view: PlanView | None = None  # of the plan that is revised
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """A plan that holds together, and what it cost."""

    text: str
    draft: Draft
    usage: Usage
    turn: Path  # the last one


def written(question: Question, parts: Parts) -> WrittenPlan:
    """Have a plan written. ResearcherFailed, with the last fault, where three answers hold none that can be used."""
    tree = IsolatedWorktree(slot(question.plan_dir.checkout, _tree(question, parts), reason="a plan is being written"))
    try:
        with tree.opened(_code(question)) as opened:
            return _asked(question, opened.path, parts)
    finally:
        tree.slot.remove()


def _asked(question: Question, cwd: Path, parts: Parts) -> WrittenPlan:
    prompt = words = _prompt(question, parts)
    usage, session, problems = Usage(), "", ["nothing was asked"]
    for _ in range(AGAIN + 1):
        directory = next_directory(question.plan_dir.directory / "turns", TurnRole.PLAN)
        answer = question.ask(Turn(TurnRole.PLAN, words, cwd, directory, SCHEMA, session, question.bounds))
        usage, session = usage + answer.usage, answer.session or session
        if answer.fault not in _ASKED_AGAIN and answer.data is None:
            raise _failed(question, f"{answer.fault}: {answer.message}", directory)
        data, missing = data_of(answer, "stages")
        text, draft, problems = ("", None, [missing]) if missing else _understood(question, data, parts)
        if draft is not None:
            return WrittenPlan(text, draft, usage, directory)
        said = answer.text if missing else json.dumps(data, ensure_ascii=False, indent=1, default=str)
        words = _again(prompt, said, problems, resumes=question.resumes and bool(answer.session))
    raise _failed(question, f"no usable plan in {AGAIN + 1} answers; the last one: {problems[0]}", directory)


def _failed(question: Question, said: str, directory: Path) -> ResearcherFailed:
    return ResearcherFailed(
        f"{question.agent} wrote no plan: {mask_text(one_line(said, 400))}",
        hint=f"what was asked and answered lies in {directory}",
        fix=f"autoresearch plan new {question.topic}",
    )


def _tree(question: Question, parts: Parts) -> Path:
    plan = question.plan_dir
    return state_home(parts.environ) / "worktrees" / f"plan-{plan.slug}-{key_of(plan.directory)}" / "reading"


def _code(question: Question) -> str:
    """The working tree as it is: the agent reads a copy, and the user's own is out of its reach."""
    message = f"plan {question.plan_dir.slug}: the code that its author reads"
    reports = question.plan_dir.directory.parents[1]
    return snapshot(question.plan_dir.checkout, message=message, leave_out=[reports]).commit


def _understood(question: Question, data: object, parts: Parts) -> tuple[str, Draft | None, list[str]]:
    """The text of a plan, its draft, and what is wrong with it; the draft is None where something is."""
    plan, problems = plan_of(data)
    if problems:
        return "", None, problems
    folder, root = question.path.parent, question.plan_dir.checkout.root
    for n, stage in enumerate(plan["stages"]):  # an agent names files as the repository does
        blueprint = stage["campaign"]["blueprint"]
        if not isinstance(blueprint, str) or not is_inside(blueprint) or not (root / blueprint).is_file():
            problems.append(f"stages[{n}].blueprint: {blueprint!r} is no file of the repository")
        else:
            stage["campaign"]["blueprint"] = os.path.relpath(root / blueprint, folder)
    if problems:
        return "", None, problems
    topic = os.path.relpath(question.topic, folder)
    head = (
        f"# Written by {question.agent} for {topic}; after a change: autoresearch plan check {question.path.name}\n\n"
    )
    ordered = {"title": plan.get("title"), "question": plan.get("question"), "topic": topic, "stages": plan["stages"]}
    unknown = [f"there is no key `{key}`" for key in plan if key not in ordered]
    text = head + mask_text(dump(ordered))
    try:
        draft = read_draft(question.path, parts, data=text.encode())
    except AutoresearchError as error:
        return text, None, [error.message]
    wrong = [finding.message + (f" ({finding.hint})" if finding.hint else "") for finding in errors(draft.findings)]
    return (text, None, unknown + wrong) if unknown + wrong else (text, draft, [])


def _again(prompt: str, said: str, problems: list[str], *, resumes: bool) -> str:
    wrong = "\n".join(f"- {one_line(problem, 400)}" for problem in problems[:MOST_TOLD])
    ask = f"Your plan cannot be used as it is:\n\n{wrong}\n\nAnswer again: the whole JSON object, and nothing else.\n"
    if resumes:
        return ask
    return f"{prompt}\n\n# Your answer so far\n\n{fenced(said, 'your answer', most=MOST_QUOTED)}\n\n{ask}"


def _prompt(question: Question, parts: Parts) -> str:
    text = read_topic(question.topic).decode("utf-8", "replace")
    return render(
        "plan_prompt.md.j2",
        words=WORDS,
        of_idea=OF_IDEA,
        revise=REVISE,
        blueprints=list(_blueprints(question.plan_dir.checkout, parts)),
        past=_past(question),
        reason=one_line(question.reason, 2000),
        topic=text.strip(),
        schema=json.dumps(SCHEMA, indent=1),
    )


def _past(question: Question) -> str:
    """The plan that is revised, and what came of its stages."""
    view = question.view
    if view is None:
        return ""
    lines = list(plan_lines(registered_plan(question.plan_dir, view)))
    for run in view.runs:
        if (said := run.conclusion) is not None:
            facts = ", ".join(f"{word} {value:.4g}" for word, value in said["facts"].items() if value is not None)
            lines.append(f"{run.stage} was run: expectation {said['met']}; {said['conclusion']} [{facts}]")
            for word in ("kept", "confirmed"):
                lines.append(f"   {word}: {', '.join(said[word]) or 'none'}")
    return fenced("\n".join(lines), "the plan and its results", most=20_000)


@dataclass(frozen=True, slots=True)
class _Shown:
    path: str
    purpose: str
    metric: str
    keys: str


def _blueprints(checkout: Checkout, parts: Parts) -> Iterator[_Shown]:
    """The blueprints of a repository, tracked or not, as an author of plans must know them."""
    listed = checkout.git.run("ls-files", "-co", "--exclude-standard", "-z", "*.md").split(b"\0")
    shown = 0
    for name in sorted(set(filter(None, listed))):
        path = checkout.root / os.fsdecode(name)
        if shown == MOST_BLUEPRINTS or not path.is_file() or not is_blueprint(path):
            continue
        try:
            found = resolve_blueprint(read_blueprint(path), environ=parts.environ)
        except AutoresearchError:
            continue
        shown += 1
        keys = overrides.flatten(dict(found.recipe_data)) if found.recipe_data else {}
        lines = [f"{key}: {json.dumps(value, default=str)[:120]}" for key, value in list(keys.items())[:MOST_KEYS]]
        purpose = one_line(found.blueprint.purpose or found.blueprint.title, 600)
        yield _Shown(os.fsdecode(name), purpose, found.blueprint.notes.metric, mask_text("\n".join(lines)))
