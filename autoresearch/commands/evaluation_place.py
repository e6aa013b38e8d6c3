"""`autoresearch evaluation-place PATH`: the Runner's first act when a campaign's run is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output


def evaluation_place(
    path: Annotated[Path, typer.Argument(show_default=False)],
    repository: Annotated[Path, typer.Option(show_default=False)],
    commit: Annotated[str, typer.Option(show_default=False)],
    include: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
) -> int:
    """Leave exactly the files of a commit there, whatever a run may have done to them."""
    from autoresearch.lab.ideas.worktree_paths import make_place

    make_place(repository, path, commit, include or ())
    output.say(f"evaluated in {path}: {commit[:12]}, as it was committed")
    return 0
