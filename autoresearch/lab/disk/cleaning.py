"""Find and remove what is left of campaigns and runs that are over: worktrees, sessions, caches.

Branches, ledgers, results and run directories are never touched, nor what is alive, or was made by somebody else.
Everything is looked at again right before it is removed, so that two commands at once, or a campaign that begins
meanwhile, hurt nobody; after a kill the next call goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.text.counted import counted
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.disk.ended_sessions import ended_sessions
from autoresearch.lab.disk.leftovers import KeptLeftover, Leftover, LeftoverKind
from autoresearch.lab.disk.old_worktrees import old_worktrees
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.parts import Parts
from autoresearch.records import campaign_records
from autoresearch.records.index import state_home
from autoresearch.records.rundir import locked

ABANDONED_S = 3600.0  # a temporary file is renamed within milliseconds
DEBUG_LOG_S = 7 * 86400.0  # after its last line, a log of --debug
_TEMPORARY = re.compile(r"\..+\.(\d+)\.tmp\Z")  # see `records.rundir.write_atomically`
_HOMES = ("", "live", "campaigns", "plans", "evidence", "places/*")  # of the state directory


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was found; `removed` are those of `leftovers` that are gone."""

    leftovers: tuple[Leftover, ...]
    kept: tuple[KeptLeftover, ...]
    removed: frozenset[str] = frozenset()


def find_leftovers(parts: Parts, project: Path | None, socket: str) -> Cleaned:
    """Everything that could go, of a project or of all (None); changes nothing. socket: the project's tmux setting."""
    every = [*old_worktrees(parts, project), *ended_sessions(parts, project, _sockets(parts, socket))]
    every += _records(parts) if project is None else ()
    leftovers = tuple(one for one in every if isinstance(one, Leftover))
    return Cleaned(leftovers, tuple(one for one in every if isinstance(one, KeptLeftover)))


def remove_leftovers(parts: Parts, project: Path | None, socket: str) -> Cleaned:
    """Find and remove it; of two calls at once, the second waits. What could not be removed is in `kept`."""
    with locked(state_home(parts.environ) / "clean.lock"):
        every = find_leftovers(parts, project, socket)
        removed, kept = set[str](), list(every.kept)
        for one in every.leftovers:
            try:
                why = one.remove()
            except AutoresearchError as error:
                why = error.message
            except OSError as error:
                why = f"{error.filename or one.name}: {error.strerror or error}"
            if why:
                kept.append(KeptLeftover(one.kind, one.name, why))
            else:
                removed.add(one.name)
        return Cleaned(every.leftovers, tuple(kept), frozenset(removed))


def _sockets(parts: Parts, socket: str) -> list[str]:
    """The tmux servers that may have sessions of ours: that of the settings, and those of campaigns."""
    sockets = {socket: None}
    for campaign in campaign_registry.known(parts):
        with contextlib.suppress(AutoresearchError):
            sockets[campaign_records.declared_spec(campaign.campaign_dir).tmux_socket] = None
    return list(sockets)


def _records(parts: Parts) -> Iterator[Leftover]:
    """In the state directory: locks that nobody holds, files that were never renamed, old logs of --debug."""
    now, home = parts.clock(), state_home(parts.environ)
    if idle := parts.index.idle_locks(now):
        why = f"{len(idle)} locks of blueprints, unused for a day"

        def remove_idle() -> str:
            parts.index.remove_idle_locks(now)
            return ""

        yield Leftover(LeftoverKind.RECORD, str(home / "locks"), disk_usage(idle).bytes, why, remove_idle)
    if abandoned := list(_abandoned(home, now)):

        def remove_abandoned() -> str:
            _unlink(abandoned)
            return ""

        why = f"{len(abandoned)} files of commands that were killed while they wrote"
        yield Leftover(
            LeftoverKind.RECORD, str(home / ".*.tmp"), disk_usage(abandoned).bytes, why, remove_abandoned
        )
    if logs := list(_old_debug_logs(home, now)):

        def remove_logs() -> str:
            _unlink(_old_debug_logs(home, now))
            return ""

        why = f"{counted(len(logs), 'log')} of --debug, unused for a week"
        yield Leftover(LeftoverKind.RECORD, str(home / "debug"), disk_usage(logs).bytes, why, remove_logs)


def _abandoned(home: Path, now: float) -> Iterator[Path]:
    for folder in (found for name in _HOMES for found in (home.glob(name) if name else (home,))):
        for path in folder.glob(".*.tmp"):
            name = _TEMPORARY.match(path.name)
            with contextlib.suppress(OSError):
                if name and now - path.stat().st_mtime > ABANDONED_S and not Path(f"/proc/{name[1]}").exists():
                    yield path


def _old_debug_logs(home: Path, now: float) -> Iterator[Path]:
    for path in (home / "debug").glob("*.log"):
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > DEBUG_LOG_S:
                yield path


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - never a directory
