"""Find and remove what is left of campaigns and runs that are over: worktrees, sessions, caches, locks.

Branches, ledgers, results and run directories are never touched, nor what is alive, or was made by somebody else.
Everything is looked at again right before it is removed, so that two commands at once, or a campaign that begins
meanwhile, hurt nobody; after a kill the next call goes on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autoresearch.core.run.spec import RunState
from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError, EnvironmentUnusable
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.disk.old_worktrees import Leftover, LeftoverKind, old_worktrees
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.detached import session_names
from autoresearch.lab.runs.sessions import server_session_info, session_info
from autoresearch.launchers.tmux_session import SessionInfo
from autoresearch.records import campaign_records
from autoresearch.records.index import state_home
from autoresearch.records.rundir import RunDir, is_locked, locked

ABANDONED_S = 3600.0  # a temporary file is renamed within milliseconds
DEBUG_LOG_S = 7 * 86400.0  # after its last line, a log of --debug
MOST_SERVERS = 500  # of the newest runs, whether one had a server's session
_TEMPORARY = later(r"\..+\.(\d+)\.tmp\Z")  # see `records.rundir.write_atomically`
_HOMES = ("", "live", "campaigns", "plans", "evidence", "places/*")  # of the state directory


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was found; `removed` are those of `leftovers` that are gone."""

    leftovers: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    removed: frozenset[str] = frozenset()


def find_leftovers(parts: Parts, project: Path | None, socket: str) -> Cleaned:
    """Everything that could go, of a project or of all (None); changes nothing. socket: the project's tmux setting."""
    every = [*old_worktrees(parts, project), *_ended_sessions(parts, project, socket)]
    every += _records(parts) if project is None else ()
    return Cleaned(tuple(one for one in every if one.remove), tuple(one for one in every if not one.remove))


def remove_leftovers(parts: Parts, project: Path | None, socket: str) -> Cleaned:
    """Find and remove it; of two calls at once, the second waits. What could not be removed is in `kept`."""
    with locked(state_home(parts.environ) / "clean.lock"):
        every = find_leftovers(parts, project, socket)
        removed, kept = set[str](), list(every.kept)
        for one in every.leftovers:
            try:
                why = one.remove() if one.remove else ""
            except AutoresearchError as error:
                why = error.message
            except OSError as error:
                why = f"{error.filename or one.name}: {error.strerror or error}"
            if why:
                kept.append(Leftover(one.kind, one.name, why))
            else:
                removed.add(one.name)
        return Cleaned(every.leftovers, tuple(kept), frozenset(removed))


def _ended_sessions(parts: Parts, project: Path | None, socket: str) -> Iterator[Leftover]:
    """tmux sessions in which nothing runs any more, known by what was recorded, never by how their names begin.

    On the tmux servers of the settings and of campaigns; none where tmux does not answer.
    """
    sockets = {socket}
    for campaign in campaign_registry.known(parts):
        with contextlib.suppress(AutoresearchError):
            sockets.add(campaign_records.declared_spec(campaign.campaign_dir).tmux_socket)
    programs = dict(_programs(parts, project))
    for one in sorted(sockets):
        ended: Collection[SessionInfo] = ()
        with contextlib.suppress(EnvironmentUnusable):
            ended = parts.launcher(one).list_ended()
        for info in ended:
            if why := programs.get(info.session) or _why_over(info, parts, project):
                yield Leftover(LeftoverKind.SESSION, info.session, why, 0, partial(_close, parts, one, info))


def _close(parts: Parts, socket: str, session: SessionInfo) -> str:
    """Close it, unless somebody began something in it meanwhile."""
    if session not in parts.launcher(socket).list_ended():
        return "" if not parts.launcher(socket).exists(session) else "something runs in it again"
    parts.launcher(socket).close(session)
    return ""


def _programs(parts: Parts, project: Path | None) -> Iterator[tuple[str, str]]:
    """The recorded sessions of controllers and Followers that are over: name -> why."""
    for campaign in campaign_registry.registered(parts):
        own = campaign.campaign_dir
        if (project is None or campaign.is_of(project)) and (not own.spec.exists() or has_ended(own)):
            for name in session_names(own.path):
                yield name, f"the campaign {campaign.name} is over"
    for folder in (state_home(parts.environ) / "places").glob("*") if project is None else ():
        if not is_locked(folder / "lock"):
            for name in session_names(folder):
                yield name, "its target is not followed now"


def _why_over(info: SessionInfo, parts: Parts, project: Path | None) -> str:
    """Why the run that was recorded with this session needs it no more; "" if there is none, or it is not over."""
    own_entry = parts.index.by_id(info.session)
    if own_entry is not None:
        rundir, name = RunDir(Path(own_entry.run_dir)), own_entry.run
        if project is not None and str(project) not in (own_entry.project, own_entry.started_in):
            return ""
        if rundir.removed:
            return f"the records of {name} were removed"
        return f"{name} is over" if _is_session_of(session_info(rundir), rundir, info) else ""
    for entry in parts.index.recent(MOST_SERVERS, str(project) if project else ""):
        rundir = RunDir(Path(entry.run_dir))
        if _is_session_of(server_session_info(rundir), rundir, info):
            return f"{entry.run}, whose server it was, is over"
    return ""


def _is_session_of(was_info: SessionInfo | None, rundir: RunDir, session: SessionInfo) -> bool:
    """Whether a run that is over had this session. Ids count for one tmux server only, and a name may come back."""
    if was_info is None:
        return False
    pairs = [(one.session, one.session_id, one.server_pid) for one in (was_info, session)]
    return pairs[0] == pairs[1] and rundir.state() is RunState.ENDED


# ---------------------------------------------------------------------------------- the state directory


def _records(parts: Parts) -> Iterator[Leftover]:
    """Files that were never renamed, old logs of --debug; each kind is one leftover."""
    now, home = parts.clock(), state_home(parts.environ)
    groups: list[tuple[str, str, Callable[[], list[Path]]]] = [
        (".*.tmp", "files of commands that were killed while they wrote", partial(_abandoned, home, now)),
        ("debug", "{} of --debug, unused for a week", partial(_old_debug_logs, home, now)),
    ]
    for name, words, find in groups:
        if paths := find():
            why = words.format(counted(len(paths), "log")) if "{}" in words else f"{len(paths)} {words}"
            yield Leftover(LeftoverKind.RECORD, str(home / name), why, disk_usage(paths).bytes, partial(_unlink, find))


def _abandoned(home: Path, now: float) -> list[Path]:
    found = []
    for folder in (folder for name in _HOMES for folder in (home.glob(name) if name else (home,))):
        for path in folder.glob(".*.tmp"):
            name = _TEMPORARY.match(path.name)
            with contextlib.suppress(OSError):
                if name and now - path.stat().st_mtime > ABANDONED_S and not Path(f"/proc/{name[1]}").exists():
                    found.append(path)
    return found


def _old_debug_logs(home: Path, now: float) -> list[Path]:
    found = []
    for path in (home / "debug").glob("*.log"):
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > DEBUG_LOG_S:
                found.append(path)
    return found


def _unlink(find: Callable[[], list[Path]]) -> str:
    for path in find():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - never a directory
    return ""
