"""`autoresearch mcp`: the same commands as tools, for clients of the Model Context Protocol; stdin and stdout."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.errors import UsageError


def mcp(
    print_config: Annotated[
        str, typer.Option(metavar="CLIENT", help="How to register it: claude, codex, gemini, opencode, cursor, json.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="With --print-config.")] = False,
) -> int:
    """Serve this machine's runs to a coding agent, outside of its sandbox; it ends with its stdin."""
    if print_config:
        return _registration(print_config, as_json=as_json)
    from autoresearch.lab.mcp.server import McpServer

    if sys.stdin.isatty():
        output.remark("this speaks JSON-RPC to a client, not to a person; `autoresearch mcp --print-config claude`")
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


def _registration(client: str, *, as_json: bool) -> int:
    from autoresearch.lab.mcp.registration import CLIENTS, registration

    if client not in CLIENTS:
        raise UsageError(f"--print-config {client!r} is not one of {', '.join(CLIENTS)}")
    found = registration(client, os.environ)
    payload: dict[str, Any] = {"client": client, "line": found.line or None, "next": []}
    payload |= {"file": found.file or None, "text": found.text or None}
    output.emit("mcp", payload, as_json=as_json, lines=found.lines)
    return 0
