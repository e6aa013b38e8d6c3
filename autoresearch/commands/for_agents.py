"""`autoresearch skill show|install` and `autoresearch mcp`: how coding agents learn and drive this command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.layout import Whole
from autoresearch.commands.output import CommandResult
from autoresearch.errors import UsageError


def show(
    name: Annotated[str, Positional(metavar="TOPIC", help="Without it: the list.")] = "",
) -> CommandResult:
    """Print one page of the skill, as it is for this version of the command."""
    from autoresearch import __version__
    from autoresearch.lab import skill

    if name:
        page = skill.topic(name)
        payload: dict[str, Any] = {"topic": page.name, "summary": page.summary, "version": __version__}
        return CommandResult(payload | {"text": page.text, "next": []}, [Whole(page.text.rstrip("\n"))])
    pages = skill.topics()
    payload = {
        "version": __version__,
        "topics": [{"topic": page.name, "summary": page.summary} for page in pages],
        "next": ["autoresearch skill show TOPIC"],
    }
    lines = [f"{page.name.ljust(13)}{page.summary}" for page in pages]
    return CommandResult(payload, lines)


def install(
    scope: Annotated[str, Option(help="project (for all who work on it) or user (all projects).")] = "project",
    directory: Annotated[str, Option("--dir", metavar="DIR", help="Of the project, or the home.")] = "",
    allow: Annotated[bool, Option("--allow", help="Let Claude Code and Codex type our commands.")] = False,
) -> CommandResult:
    """Write the skill to .agents/skills, and where Claude Code looks; safe to repeat."""
    from autoresearch.lab import skill

    if scope not in ("project", "user"):
        raise UsageError(f"--scope {scope}: there is no such scope", hint="project or user")
    root = _root(scope, directory)
    user = scope == "user"
    claude = os.environ.get("CLAUDE_CONFIG_DIR") if user and not directory else None
    claude_home = Path(claude) if claude else root / ".claude"
    done = skill.install(root, claude=claude_home)
    codex = os.environ.get("CODEX_HOME") if user and not directory else None
    codex_home = Path(codex) if codex else root / ".codex"
    allowed = skill.allow(claude_home, codex_home, user=user) if allow else {}
    payload = {
        "root": str(root),
        "scope": scope,
        "rules": {"claude": skill.CLAUDE_RULE, "codex": skill.CODEX_RULE},
        "allowed": {name: str(path) for name, path in allowed.items()},
        "places": [
            {"path": str(one.path), "done": one.done, "kept": str(one.kept) if one.kept else None} for one in done
        ],
        "next": ["autoresearch skill show", "autoresearch doctor"],
    }
    lines = [f"{one.done}: {one.path}" for one in done]
    lines += [f"kept: what had been edited there is in {one.kept}" for one in done if one.kept]
    if allowed:
        lines.append(f"allowed: {skill.CLAUDE_RULE} in {allowed['claude']}")
        lines.append(f"allowed: {skill.CODEX_RULE} in {allowed['codex']}")
        if not user:
            lines.append(
                "Codex reads the rules of a project that it trusts: `codex exec --trust`, or say so when it asks"
            )
    else:
        lines.append("Claude Code denies our commands where nobody is asked, and Codex runs them in its sandbox, which")
        lines.append("no run survives. --allow adds the rules that change this:")
        settings = claude_home / ("settings.json" if user else "settings.local.json")
        lines.append(f"  Claude Code  {skill.CLAUDE_RULE} in {settings}")
        lines.append(f"  Codex        {skill.CODEX_RULE} in {codex_home / 'rules' / skill.CODEX_RULES}")
    return CommandResult(payload, lines)


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


def mcp() -> int:
    """Serve this machine's runs to a coding agent, outside of its sandbox; it ends with its stdin."""
    from autoresearch.lab.mcp_server import McpServer

    if sys.stdin.isatty():
        told = "`autoresearch skill show mcp` says how to register it"
        output.remark(f"this speaks JSON-RPC to a client, not to a person; {told}")
    out = _own_stdout()
    McpServer(lambda line: _write(out, line), os.getcwd()).serve(sys.stdin.buffer)  # noqa: PTH109
    return 0


def _own_stdout() -> int:
    """The client's end of stdout; whatever else is printed in this process goes to stderr, where it breaks nothing."""
    sys.stdout.flush()
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def _write(out: int, line: bytes) -> None:
    """All of it; a client that has gone is none to be answered, and its end of stdin says so too."""
    try:
        while line:
            line = line[os.write(out, line) :]
    except OSError:
        pass
