"""All attempts of one evaluation: tasks times variants times repetitions, one after another, and the summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.agents.registry import researcher
from autoresearch.core.agents.agent import Agent, Chosen, TurnFault
from autoresearch.core.agents.evals import WITH, WITHOUT, EvalTask, Graded, Score, benchmark, tasks_from, triggers_from
from autoresearch.errors import ConflictError, NotFoundError, ResearcherFailed, UsageError
from autoresearch.lab.render import data_dir
from autoresearch.lab.skill_evals import skill
from autoresearch.lab.skill_evals.attempt import EvalAttempt, attempt, installed_for_user
from autoresearch.records.rundir import write_json

# Both variants may run any command: with only the skill's own allowed, an agent without it could do nothing.
_MAY_TYPE: Mapping[str, tuple[str, ...]] = {
    "claude": ("--tools", "Skill", "--allowedTools", "Bash"),  # beside those that it has anyway
    "gemini": ("--allowed-tools", "run_shell_command,activate_skill"),
    "qwen": ("--allowed-tools", "run_shell_command,skill"),
}
VARIANTS = {"both": (WITH, WITHOUT), "with": (WITH,), "without": (WITHOUT,)}


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to measure."""

    agent: str
    model: str = ""
    template: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # names or ids; all if none
    triggers: bool = False  # the queries of eval_queries.json instead of the tasks
    variant: str = "both"
    attempts: int = 1
    seconds: float = 600.0  # per attempt


def tasks(*, triggers: bool = False) -> list[EvalTask]:
    """The skill's tasks. UsageError says what is wrong with its files."""
    name = "eval_queries.json" if triggers else "evals.json"
    path = data_dir("skills") / skill.NAME / "evals" / name
    try:
        document = json.loads(path.read_bytes())
        return triggers_from(document) if triggers else tasks_from(document)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path}: {error}") from error


def chosen_tasks(eval_request: EvalRequest) -> list[EvalTask]:
    """The named tasks. Raises NotFoundError for an unknown one."""
    known = tasks(triggers=eval_request.triggers)
    names = {name for task in known for name in (task.name, str(task.id))}
    for name in eval_request.tasks:
        if name not in names:
            raise NotFoundError(f"there is no eval {name[:60]!r}", hint=", ".join(task.name for task in known))
    return [task for task in known if not eval_request.tasks or {task.name, str(task.id)} & set(eval_request.tasks)]


def evaluate(
    eval_request: EvalRequest, out: Path, environ: Mapping[str, str], tell: Callable[[Score, Sequence[Graded]], None]
) -> dict[str, Any]:
    """Run every attempt, call `tell` as each ends, and write `benchmark.json` after each of them.

    Raises ConflictError if the skill is in the user's own directories, so that no attempt would be without it, and
    ResearcherFailed if the agent is not installed or not logged in.
    """
    variants = _variants(eval_request, environ)
    agent = _agent(eval_request)
    scores: list[Score] = []
    summary: dict[str, Any] = {}
    for one in _attempts(eval_request, variants, agent, out):
        score, graded = attempt(one, environ)
        if score.fault and TurnFault(score.fault).needs_person:
            said = json.loads((one.path / "grading.json").read_bytes())["said"]
            raise ResearcherFailed(
                f"{eval_request.agent}: {said or score.fault}", hint=f"its output is in {one.path / 'turn'}"
            )
        scores.append(score)
        tell(score, graded)
        head = {"skill_name": skill.NAME, "agent": eval_request.agent, "model": eval_request.model or None}
        summary = {**head, **benchmark(scores), "tasks": _by_task(scores)}
        write_json(out / "benchmark.json", summary)
    return summary


def _variants(eval_request: EvalRequest, environ: Mapping[str, str]) -> tuple[str, ...]:
    if eval_request.variant not in VARIANTS:
        raise UsageError(f"there is no variant {eval_request.variant!r}", hint=", ".join(VARIANTS))
    variants = VARIANTS[eval_request.variant]
    if WITHOUT in variants and not eval_request.triggers and (found := installed_for_user(environ)):
        raise ConflictError(
            f"the skill is in {found}: no attempt would be without it",
            hint="move it away while this lasts, or measure --variant with",
        )
    return (WITH,) if eval_request.triggers else variants


def _agent(eval_request: EvalRequest) -> Agent:
    extra = (*_MAY_TYPE.get(eval_request.agent, ()), *eval_request.extra)
    return researcher(
        eval_request.agent, Chosen(model=eval_request.model, extra=extra, template=eval_request.template, outside=True)
    )


def _attempts(eval_request: EvalRequest, variants: Sequence[str], agent: Agent, out: Path) -> Iterable[EvalAttempt]:
    for task in chosen_tasks(eval_request):
        for number in range(1, eval_request.attempts + 1):
            for variant in variants:
                path = out / f"eval-{task.name}" / variant / f"attempt-{number}"
                yield EvalAttempt(task, variant, path, agent, eval_request.seconds, skilled=variant == WITH)


def _by_task(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Per task and variant: attempts, assertions that passed, and those that were checked."""
    found = []
    for name in dict.fromkeys(score.task for score in scores):
        row: dict[str, Any] = {"task": name}
        for variant in (WITH, WITHOUT):
            mine = [score for score in scores if (score.task, score.variant) == (name, variant)]
            passed, total = sum(score.passed for score in mine), sum(score.total for score in mine)
            row[variant] = {"attempts": len(mine), "passed": passed, "total": total} if mine else None
        found.append(row)
    return found
