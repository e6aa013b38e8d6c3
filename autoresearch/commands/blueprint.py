"""`autoresearch blueprint new|check`: make and lint blueprints."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.output import CommandResult
from autoresearch.core.blueprint.fields import FIELDS, blueprint_from
from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.blueprint.model import Blueprint
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
    from autoresearch.lab.yaml_files import parse_pairs

    given = {
        "purpose": purpose,
        "codebase_dir": codebase,
        "launch_command": command,
        "max_time_s": max_time,
    }
    more = parse_pairs(set_ or (), FIELDS)
    values = {**{k: v for k, v in given.items() if v}, **more}
    target = Path(path)
    title = target.stem.replace("_", " ").replace("-", " ")
    _write(target, blueprint_from({"title": title, **values}), force=force)
    following = [f"autoresearch blueprint check {shlex.quote(path)}", f"autoresearch run {shlex.quote(path)} --dry-run"]
    return CommandResult({"path": str(target.absolute()), "next": following}, [f"wrote {target}"])


def check(
    path: Annotated[str, Positional(metavar="BLUEPRINT", show_default=False)],
) -> CommandResult:
    """What `run --dry-run` says of a blueprint, whatever this machine has; exits 3 where it could not be run."""
    from autoresearch.commands.run import plan
    from autoresearch.commands.wiring import parts
    from autoresearch.lab.resolve.resolve_run import RunOptions, resolve_run
    from autoresearch.lab.settings import load

    anywhere = {"gpu_check": "no", "gpus": "none"}
    settings = load(Path(path).absolute().parent, environ=os.environ, flags=anywhere)
    run = resolve_run(Path(path), RunOptions(settings, parts()))
    found, conflict = [*run.findings], run.trainer_settings.resume_conflict()
    if conflict:
        found.append(Finding(Severity.ERROR, conflict.code, conflict.message, conflict.hint))
    refusals = [BlueprintInvalid(found)] if errors(found) else []
    payload = {
        **plan(run, (), path).payload,
        "path": str(run.resolved.path),
        "purpose": run.spec.purpose,
        "valid": not refusals,
        "findings": [asdict(finding) for finding in found],
        "exit_code": 0,
        "next": [] if refusals else [f"autoresearch run {shlex.quote(path)} --dry-run"],
    }
    bad = len(errors(found))
    lines = [*map(str, found), f"first step: {run.first_step_rule}"]
    if run.spec.objective:
        lines.append(f"metric: {run.spec.objective}")
    lines.append(f"{path}: {counted(bad, 'error')}, {counted(len(found) - bad, 'warning')}")
    if not refusals:
        return CommandResult(payload, lines)
    return CommandResult(payload, lines, refusals[0].exit_code, refusals if output.typed.as_json else ())


def _write(path: Path, blueprint: Blueprint, *, force: bool) -> None:
    from autoresearch.lab.render import render_blueprint

    text = render_blueprint(blueprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConflictError(f"{path} exists already", hint="nothing was changed; --force replaces it") from None
