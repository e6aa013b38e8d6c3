"""`autoresearch clean`: remove what is left of campaigns and runs that are over; a dry run unless --yes is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts

if TYPE_CHECKING:
    from autoresearch.lab.disk.cleaning import Cleaned

MOST_LISTED = 100  # in the JSON object; people see fewer
MOST_KEPT_LINES = 8


def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; otherwise it is only listed.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Of all projects of this account.")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Remove worktrees, ended tmux sessions and caches of campaigns and runs of this project that are over.

    Branches, ledgers, results and run directories stay, and so does a worktree with changes that no commit holds.
    """
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab import settings as project_settings
    from autoresearch.lab.disk.cleaning import find_leftovers, remove_leftovers

    project = None if every else current_project()
    socket = project_settings.load(Path.cwd(), environ=os.environ).text("tmux_socket")
    cleaned = (remove_leftovers if yes else find_leftovers)(real_parts(), project, socket)
    again = ["autoresearch clean --all --yes" if every else "autoresearch clean --yes"]
    payload: dict[str, Any] = {
        "state": "cleaned" if yes else "planned",
        "project": None if project is None else str(project),
        "bytes": sum(one.bytes for one in cleaned.leftovers if not yes or one.name in cleaned.removed),
        "leftovers": [
            {"kind": one.kind.value, "name": one.name, "bytes": one.bytes, "why": one.why}
            | ({"removed": one.name in cleaned.removed} if yes else {})
            for one in cleaned.leftovers[:MOST_LISTED]
        ],
        "kept": [{"kind": one.kind.value, "name": one.name, "why": one.why} for one in cleaned.kept[:MOST_LISTED]],
        "not_listed": max(0, len(cleaned.leftovers) - MOST_LISTED) + max(0, len(cleaned.kept) - MOST_LISTED),
        "next": [] if yes or not cleaned.leftovers else again,
    }
    output.emit("clean", payload, as_json=as_json, lines=_lines(cleaned, payload, yes=yes))
    return 0


def _lines(cleaned: Cleaned, payload: dict[str, Any], *, yes: bool) -> list[str]:
    from autoresearch.lab.disk.usage import gb

    where = payload["project"] or "this account"
    if not cleaned.leftovers and not cleaned.kept:
        return [f"nothing of {where} is left over"]
    shown = [one for one in cleaned.leftovers if not yes or one.name in cleaned.removed]
    size = gb(payload["bytes"])
    head = f"removed of {where}, {size}:" if yes else f"could be removed of {where}, {size}; nothing is changed yet:"
    kept = [f"kept {one.name}: {one.why}" for one in cleaned.kept]
    room = output.MAX_LINES - 4 - min(len(kept), MOST_KEPT_LINES)
    lines = [f"{one.kind}  {one.name}  {gb(one.bytes) if one.bytes else '-'}  {one.why}" for one in shown]
    lines, more = lines[:room], len(lines) - room
    kept, more_kept = kept[:MOST_KEPT_LINES], len(kept) - MOST_KEPT_LINES
    return [
        head if shown else f"nothing of {where} was removed" if yes else f"nothing of {where} could be removed",
        *lines,
        *([f"... and {more} more"] if more > 0 else []),
        *kept,
        *([f"... and {more_kept} more are kept"] if more_kept > 0 else []),
    ]
