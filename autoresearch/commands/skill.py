"""`autoresearch skill show|install`: what a coding agent must know, served and installed by the command itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.errors import UsageError


def show(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Without it: the list.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Print one page of the skill, as it is for this version of the command."""
    from autoresearch import __version__
    from autoresearch.lab import skill

    if name:
        page = skill.topic(name)
        payload: dict[str, Any] = {"topic": page.name, "summary": page.summary, "version": __version__}
        if as_json:
            output.emit("skill show", {**payload, "text": page.text, "next": []}, as_json=True)
        else:
            output.say(page.text.rstrip("\n"))
        return 0
    pages = skill.topics()
    payload = {
        "version": __version__,
        "topics": [{"topic": page.name, "summary": page.summary} for page in pages],
        "next": ["autoresearch skill show TOPIC"],
    }
    lines = [f"{page.name.ljust(13)}{page.summary}" for page in pages]
    output.emit("skill show", payload, as_json=as_json, lines=lines)
    return 0


def install(
    scope: Annotated[str, typer.Option(help="project (for all who work on it) or user (all projects).")] = "project",
    agents: Annotated[list[str] | None, typer.Option("--agent", metavar="NAME", help="Link it for these.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copies instead of links.")] = False,
    directory: Annotated[str, typer.Option("--dir", metavar="DIR", help="Of the project, or the home.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write the skill to .agents/skills, with a link for Claude Code; safe to repeat."""
    from autoresearch.lab import skill

    if scope not in ("project", "user"):
        raise UsageError(f"--scope {scope}: there is no such scope", hint="project or user")
    root = _root(scope, directory)
    user = scope == "user"
    claude = os.environ.get("CLAUDE_CONFIG_DIR") if user and not directory else None
    done = skill.install(root, agents=agents or (), user=user, claude=Path(claude) if claude else None, copy=copy)
    payload = {
        "root": str(root),
        "scope": scope,
        "places": [
            {"path": str(one.path), "done": one.done, "kept": str(one.kept) if one.kept else None} for one in done
        ],
        "next": ["autoresearch skill show", "autoresearch doctor"],
    }
    lines = [f"{one.done}: {one.path}" for one in done]
    lines += [f"kept: what had been edited there is in {one.kept}" for one in done if one.kept]
    output.emit("skill install", payload, as_json=as_json, lines=lines)
    return 0


def _root(scope: str, directory: str) -> Path:
    """The directory to install below: the one given, the repository's root, or the home."""
    from autoresearch.git_repo import checkout

    if directory:
        root = Path(directory).absolute()
        if not root.is_dir():
            raise UsageError(f"--dir {directory} is not a directory")
        return root
    if scope == "user":
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            raise UsageError("this account has no home directory", hint="set HOME, or give --dir")
        return Path(home)
    here = Path.cwd()
    found = checkout.find(here)
    return found.root if found else here
