"""Runs an autoresearch program (a campaign's controller) in a tmux session that outlives every terminal.

controller.environment     the starter's environment, mode 0600; deleted once the program reported
controller.sessions.json   its tmux session, which the next start closes, or the program itself at a regular end
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.parts import Parts
from autoresearch.records.files import read_json, write_environment, write_json
from autoresearch.runner.basics import failpoint

if TYPE_CHECKING:
    from autoresearch.launchers.tmux import SessionInfo

REPORT_IN_S = 20.0
_ENVIRONMENT, SESSIONS = "controller.environment", "controller.sessions.json"


def start(folder: Path, words: Sequence[str], session: str, mark: str, parts: Parts, socket: str) -> str:
    """Start `autoresearch WORDS` in a session, from the directory that it controls; returns the command to attach.

    Waits until it reports; `mark` is its run id. Raises EnvironmentUnusable if it does not.
    """
    close_sessions(folder, parts, socket)  # panes of former controllers
    write_json(folder / SESSIONS, {"sessions": [session]}, durable=False)
    info, passed = begin(folder, words, session, mark, parts, socket), folder / _ENVIRONMENT
    failpoint("begin.started")
    until = time.monotonic() + REPORT_IN_S
    while time.monotonic() < until:
        if not passed.exists():
            return info.attach
        time.sleep(0.02)
    passed.unlink(missing_ok=True)
    raise EnvironmentUnusable(
        f"the controller of {folder.name} was started in {session} and never reported",
        hint=f"look at it: {info.attach}",
        code="no_controller",
    )


def begin(folder: Path, words: Sequence[str], session: str, mark: str, parts: Parts, socket: str) -> SessionInfo:
    """The same, without waiting; the session that was made."""
    write_environment(folder / _ENVIRONMENT, parts.environ)
    failpoint("begin.passed")
    argv, marks = [sys.executable, "-P", "-m", "autoresearch", *words], {"AUTORESEARCH_RUN_ID": mark}
    return parts.launcher(socket).start(session, argv, cwd=folder, environment=marks)


def close_sessions(folder: Path, parts: Parts, socket: str) -> None:
    """Close the recorded session, alive or not. The program may call this for itself: it gets a SIGHUP.

    Raises EnvironmentUnusable if tmux cannot be asked.
    """
    names = (read_json(folder / SESSIONS) or {}).get("sessions", ())
    for info in parts.launcher(socket).list_ours() if names else ():
        if info.session in names:
            parts.launcher(socket).close(info)


def starts(folder: Path) -> bool:
    """Whether a program was started for a directory a moment ago, and has not reported yet."""
    with contextlib.suppress(OSError):
        return time.time() - (folder / _ENVIRONMENT).stat().st_mtime < REPORT_IN_S
    return False


def take_environment(folder: Path) -> dict[str, str]:
    """The environment of the starter, as tmux passes the server's instead."""
    pairs = (pair.partition(b"=") for pair in (folder / _ENVIRONMENT).read_bytes().split(b"\0") if pair)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def reported(folder: Path) -> None:
    """Report that the program holds its lock, so that its starter may continue."""
    (folder / _ENVIRONMENT).unlink(missing_ok=True)
