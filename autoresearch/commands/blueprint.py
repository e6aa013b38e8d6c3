"""`autoresearch blueprint new|check`: make and lint blueprints."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.output import CommandResult
from autoresearch.core.blueprint.fields import BlueprintFields, fields_from
from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.text.numbers import counted
from autoresearch.errors import ConflictError


def new(
    path: Annotated[str, Positional(metavar="FILE", show_default=False)],
    purpose: Annotated[str, Option(help="Why it is run, and how it differs from others.")] = "",
    codebase: Annotated[str, Option(metavar="DIR", help="Where the command is run.")] = "",
    command: Annotated[str, Option(help="The launch command.")] = "",
    max_time: Annotated[str, Option(hidden=True)] = "",
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Any other field, such as metric, max_time_s or title."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
) -> CommandResult:
    """Render a blueprint from flags."""
    from autoresearch.core.blueprint.fields import FIELD_NAMES
    from autoresearch.core.keys import ValueType
    from autoresearch.lab.yaml_files import parse_pairs

    given = {
        "purpose": purpose,
        "codebase_dir": codebase,
        "launch_command": command,
        "max_time_s": max_time,
    }
    more = parse_pairs(set_ or (), dict.fromkeys(FIELD_NAMES, ValueType.ANY))
    values = {**{k: v for k, v in given.items() if v}, **more}
    target = Path(path)
    _write(target, _fields(target, values), force=force)
    payload = {
        "path": str(target.absolute()),
        "next": [
            f"autoresearch blueprint check {shlex.quote(path)}",
            f"autoresearch run {shlex.quote(path)} --dry-run",
        ],
    }
    return CommandResult(payload, [f"wrote {target}"])


def check(
    path: Annotated[str, Positional(metavar="BLUEPRINT", show_default=False)],
) -> CommandResult:
    """Parse and lint one blueprint; exits 3 where it could not be run."""
    from autoresearch.lab.resolve.resolve_blueprint import read_blueprint, resolve_blueprint
    from autoresearch.lab.resolve.resolved_run import limits_of
    from autoresearch.lab.resolve.trainer_settings import ask_trainer
    from autoresearch.lab.settings import load
    from autoresearch.trainers import ask, registry

    settings = load(Path(path).absolute().parent, environ=os.environ)
    file = read_blueprint(Path(path))
    resolved = resolve_blueprint(file, environ=os.environ)
    blueprint = resolved.blueprint
    named = settings.chosen("trainer", blueprint.notes.trainer)
    trainer = registry.for_blueprint(blueprint, named, shell_reading=resolved.shell_reading)
    asked = ask_trainer(trainer, resolved, job="ajet_check")
    found = [*asked.all_findings(blueprint.max_time_s, os.environ), *ask.server(trainer).check_server(blueprint)]
    if left := asked.left_behind():
        message = f"{left} is there: {trainer.name} would go on from it"
        found.append(Finding(Severity.ERROR, "would_resume", message, "move it away, or note `- resume: true`"))
    rule = limits_of(asked, settings).first_step_rule(steps_known=ask.steps_known(trainer))
    refusals = [BlueprintInvalid(found)] if errors(found) else []
    metric = str(asked.objective or "")
    shown = asked.metric_shown
    payload = {
        "path": str(resolved.path),
        "valid": not refusals,
        "slug": blueprint.slug,
        "purpose": blueprint.purpose,
        "codebase_dir": str(resolved.codebase),
        "venv_exe": str(resolved.interpreter),
        "yaml_path": str(resolved.recipe or "") or None,
        "launch_command": blueprint.launch_command,
        "result_dir": str(resolved.result_dir),
        "max_time_s": blueprint.max_time_s,
        "first_step_s": blueprint.first_step_s,
        "first_step_rule": rule,
        "trainer": trainer.name,
        "metric": asked.objective.metric if asked.objective else None,
        "metric_line": shown.printed if shown else None,
        "findings": [asdict(f) for f in found],
        "exit_code": 0,
        "next": [f"autoresearch run {shlex.quote(path)} --dry-run"],
    }
    bad = len(errors(found))
    lines = [*map(str, found), f"first step: {rule}"]
    if metric:
        lines.append(f"metric: {metric}" + (f"; {shown.provenance}" if shown else ""))
    lines.append(f"{path}: {counted(bad, 'error')}, {counted(len(found) - bad, 'warning')}")
    if not refusals:
        return CommandResult(payload, lines)
    payload["next"] = []  # people see what refuses it among the findings
    return CommandResult(payload, lines, refusals[0].exit_code, refusals if output.typed.as_json else ())


def _fields(path: Path, values: dict[str, Any]) -> BlueprintFields:
    title = path.stem.replace("_", " ").replace("-", " ")
    return fields_from({"title": title, **values})


def _write(path: Path, fields: BlueprintFields, *, force: bool) -> None:
    from autoresearch.lab.render import render_blueprint

    text = render_blueprint(fields)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConflictError(f"{path} exists already", hint="nothing was changed; --force replaces it") from None
