"""`autoresearch skill eval`: what the skill is worth to an agent and a model, measured with and without it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoresearch.core.agents.evals import Graded, Score


KEYS = ("agent_model", "agent_command", "agent_args", "turn_timeout")


def evaluate(
    agent: Annotated[str, typer.Option(help="claude, codex, opencode, gemini, qwen or command.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=f"Of the agent: {', '.join(KEYS)}.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these; all without it.")] = None,
    triggers: Annotated[bool, typer.Option("--triggers", help="Only whether the skill is read when due.")] = False,
    variant: Annotated[str, typer.Option(help="both, with or without the skill.")] = "both",
    attempts: Annotated[int, typer.Option(help="Of each task and variant.")] = 1,
    out: Annotated[str, typer.Option(metavar="DIR", help="Else below the state directory.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Let an agent try the skill's evals; without --agent, list them.

    Each attempt gets a project, a state directory and a tmux server of its own; the agent may type any command there,
    with your login and outside a sandbox. It costs what your agent costs.
    """
    from autoresearch.lab.skill_evals import evaluation

    if not agent:
        return _list(as_json=as_json, triggers=triggers)
    of_agent = _agent_values(set_ or ())
    if not 1 <= attempts <= 100:
        raise UsageError(f"--attempts {attempts} cannot be", hint="1 to 100 attempts")
    wanted = evaluation.EvalRequest(
        agent,
        of_agent.get("agent_model", ""),
        tuple(of_agent.get("agent_command", ())),
        tuple(of_agent.get("agent_args", ())),
        tuple(task or ()),
        triggers,
        variant,
        attempts,
        of_agent.get("turn_timeout", 600.0),
    )
    target = Path(out).absolute() if out else _out_dir()
    summary = evaluation.evaluate(wanted, target, os.environ, _tell)
    payload = {**summary, "out": str(target), "next": []}
    if as_json:
        output.emit("skill eval", payload, as_json=True)
        return 0
    _table(summary)
    output.prose(f"written to {target}")
    return 0


def _agent_values(pairs: Sequence[str]) -> dict[str, Any]:
    """What was set for the agent, by the keys of a campaign file."""
    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS, TYPES, converted
    from autoresearch.lab.key_values import parse_pairs

    values: dict[str, Any] = {}
    for name, value in parse_pairs(pairs, {name: TYPES[name] for name in KEYS}).items():
        if value is not None:
            try:
                values[name] = converted(CAMPAIGN_KEYS[name], value, 0.0)
            except (ValueError, TypeError) as error:
                raise UsageError(f"--set {name}: {error}", hint=f"{name} takes a {TYPES[name]}") from None
    return values


def _list(*, as_json: bool, triggers: bool) -> int:
    from autoresearch.lab.skill_evals import evaluation

    found = evaluation.tasks(triggers=triggers)
    payload = {
        "evals": [{"id": task.id, "name": task.name, "prompt": task.prompt} for task in found],
        "next": ["autoresearch skill eval --agent claude --attempts 3"],
    }
    lines = [f"{task.name.ljust(26)}  {task.prompt[:90]}" for task in found]
    output.emit("skill eval", payload, as_json=as_json, lines=lines)
    return 0


def _out_dir() -> Path:
    from autoresearch.records.index import state_home

    return state_home() / "evals" / time.strftime("%Y%m%d-%H%M%S")


def _tell(score: Score, graded: Sequence[Graded]) -> None:
    missed = [each.text for each in graded if each.passed is False]
    fault = f", {score.fault}" if score.fault else ""
    output.remark(f"{score.task}, {score.variant}: {score.passed}/{score.total} in {score.seconds:.0f} s{fault}")
    for text in missed:
        output.remark(f"  not: {text}")


def _table(summary: dict[str, object]) -> None:
    """Assertions that held of those that were checked, by task; then the means."""
    from autoresearch.core.agents.evals import WITH, WITHOUT

    def cell(value: object) -> str:
        return f"{value['passed']}/{value['total']}" if isinstance(value, dict) else "-"

    tasks = summary["tasks"]
    assert isinstance(tasks, list)
    rows = [["", "with", "without"], *([row["task"], cell(row[WITH]), cell(row[WITHOUT])] for row in tasks)]
    runs = summary["run_summary"]
    assert isinstance(runs, dict)
    for key, unit in (("pass_rate", ""), ("time_seconds", " s"), ("tokens", "")):
        cells = []
        for variant in (WITH, WITHOUT):
            found = (runs.get(variant) or {}).get(key)
            cells.append(f"{found['mean']:g}{unit} (sd {found['stddev']:g})" if found else "-")
        rows.append([key.replace("_", " "), *cells])
    right = (runs.get(WITH) or {}).get("triggered_rightly")
    output.table([*rows, ["triggered rightly", "-" if right is None else f"{right:.0%}", ""]])
