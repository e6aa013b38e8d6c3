"""`autoresearch config show`: every setting, and where its value comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.errors import UsageError
from autoresearch.lab import settings as project


def show(
    directory: Annotated[str, typer.Option("--dir", metavar="DIR", help="Of which project.")] = ".",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Every setting, its value, and where the value comes from."""
    found = project.load(Path(directory), environ=os.environ)
    rows = [[v.key.name, v.text or "-", v.source, v.key.meaning] for v in found.values.values()]
    declared = [_declared(name, found) for name in found.launchers]
    if as_json:
        settings = {v.key.name: {"value": v.text, "source": v.source} for v in found.values.values()}
        payload = {
            "settings": settings,
            "launchers": declared,
            "file": str(found.file) if found.file else None,
            "next": [f"autoresearch doctor --launcher {one['name']}" for one in declared if not one["error"]],
        }
        output.emit("config show", payload, as_json=True)
    else:
        output.table([*rows, *([f"launchers.{one['name']}", _words(one), str(found.file), ""] for one in declared)])
    return 0


def _declared(name: str, found: project.Settings) -> dict[str, Any]:
    """A declared place, and what is wrong with it: unlike `--launcher`, nobody is going there now."""
    try:
        place = project.targets_of(name, found.launchers, str(found.file))[0]
    except UsageError as wrong:
        return {"name": name, "kind": None, "slots": None, "options": {}, "error": wrong.message}
    return {**place.to_json(), "error": None}


def _words(one: dict[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in one["options"].items())
    slots = f", {one['slots']} at a time" if one["slots"] else ""
    return one["error"] or f"{one['kind']}{slots}{'; ' if options else ''}{options}"
