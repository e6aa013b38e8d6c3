"""`autoresearch config show`: every setting, and where its value comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.lab import settings as project


def show(
    directory: Annotated[str, typer.Option("--dir", metavar="DIR", help="Of which project.")] = ".",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Every setting, its value, and where the value comes from."""
    found = project.load(Path(directory), environ=os.environ)
    rows = [[v.key.name, v.text or "-", v.source, v.key.meaning] for v in found.values.values()]
    if as_json:
        settings = {v.key.name: {"value": v.text, "source": v.source} for v in found.values.values()}
        output.emit(
            "config show",
            {"settings": settings, "file": str(found.file) if found.file else None, "next": []},
            as_json=True,
        )
    else:
        output.table(rows)
    return 0
