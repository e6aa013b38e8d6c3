"""`autoresearch init`: the file with a project's defaults, and a first blueprint where there is something to train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.errors import ConflictError
from autoresearch.lab import settings as project

BLUEPRINT = "experiment.md"


def init(
    directory: Annotated[str, typer.Argument(metavar="DIR")] = ".",
    command: Annotated[str, typer.Option(help="How it is trained, if not by train.py, main.py or run.sh.")] = "",
    metric: Annotated[str, typer.Option(help="The number that counts, if not one that the script prints last.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write autoresearch.yaml with every setting, commented out, and a blueprint of the training script."""
    from autoresearch.lab.json_schemas import write_schema

    root = Path(directory).absolute()
    path = root / project.FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{write_schema(root)}\n{project.template()}")
    except FileExistsError:
        raise ConflictError(f"{path} exists already", hint="edit it; nothing was changed") from None
    lines = [f"wrote {path}"]
    first = _first_blueprint(root, command, metric)
    payload = {"path": str(path), **first}
    if first["blueprint"]:
        counts = f"{first['metric']} counts ({first['direction']})" if first["metric"] else "no metric is named in it"
        lines.append(f"wrote {first['blueprint']}: `{first['launch_command']}`; {counts}")
    else:
        new = f"autoresearch blueprint new {BLUEPRINT} --purpose WHY --command COMMAND"
        payload["next"] = ["autoresearch config show", new]
    output.emit("init", payload, as_json=as_json, lines=lines)
    return 0


def _first_blueprint(root: Path, command: str, metric: str) -> dict[str, object]:
    """Write the blueprint, unless there is one or nothing to train; what it says, and what can be done with it."""
    from autoresearch.lab.campaign_setup import first_blueprint as first
    from autoresearch.lab.render import render_blueprint

    path = root / BLUEPRINT
    asked = not output.agent_or_pipe()
    command = command or first.training_command(root)
    if asked and not path.exists():
        command = str(typer.prompt("With which command is it trained (empty: none)?", default=command)).strip()
    if not command or path.exists():
        return {"blueprint": None, "launch_command": command, "metric": metric, "direction": ""}
    metric = metric or first.printed_metric(command, root)
    if asked:
        metric = str(typer.prompt("Which number that it prints counts (empty: none)?", default=metric)).strip()
    fields = first.first_blueprint(root, command, metric, path)
    path.write_text(render_blueprint(fields), encoding="utf-8")
    here = BLUEPRINT if root == Path.cwd() else str(path)
    return {
        "blueprint": str(path),
        "launch_command": command,
        "metric": metric,
        "direction": fields.direction,
        "next": [f"autoresearch run {here} --dry-run", first.campaign_line(root, here, command, metric)],
    }
