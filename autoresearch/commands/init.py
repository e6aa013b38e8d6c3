"""`autoresearch init`: write the file that holds a project's defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.errors import ConflictError
from autoresearch.lab import settings as project


def init(
    directory: Annotated[str, typer.Argument(metavar="DIR")] = ".",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write autoresearch.yaml with every setting, commented out."""
    path = Path(directory).absolute() / project.FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(project.template())
    except FileExistsError:
        raise ConflictError(f"{path} exists already", hint="edit it; nothing was changed") from None
    payload = {
        "path": str(path),
        "next": ["autoresearch config show", "autoresearch blueprint new experiment.md"],
    }
    output.emit("init", payload, as_json=as_json, lines=[f"wrote {path}"])
    return 0
