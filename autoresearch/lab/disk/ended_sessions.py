"""tmux sessions of ours in which nothing runs any more: known by what was recorded, never by their names' beginning."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from autoresearch.core.run.spec import RunState
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaigns.campaign_status import has_ended
from autoresearch.lab.disk.leftovers import Leftover, LeftoverKind
from autoresearch.lab.parts import Launcher, Parts
from autoresearch.lab.runs.detached import session_names
from autoresearch.lab.runs.sessions import server_session_info, session_info
from autoresearch.launchers.tmux_session import SessionInfo
from autoresearch.records.index import state_home
from autoresearch.records.rundir import RunDir, is_locked

MOST_SERVERS = 500  # of the newest runs, whether one had a server's session


def ended_sessions(parts: Parts, project: Path | None, sockets: Collection[str]) -> Iterator[Leftover]:
    """The ended sessions of a project, or of all (None), on these tmux servers; none where tmux does not answer."""
    programs = dict(_programs(parts, project))
    for socket in sockets:
        launcher = parts.launcher(socket)
        ended: list[SessionInfo] = []
        with contextlib.suppress(EnvironmentUnusable):
            ended = launcher.list_ended()
        for info in ended:
            if why := programs.get(info.session) or _why_over(info, parts, project):
                yield Leftover(LeftoverKind.SESSION, info.session, 0, why, partial(_close, launcher, info))


def _close(session_launcher: Launcher, session: SessionInfo) -> str:
    """Close it, unless somebody began something in it meanwhile."""
    if session not in session_launcher.list_ended():
        return "" if not session_launcher.exists(session) else "something runs in it again"
    session_launcher.close(session)
    return ""


def _programs(parts: Parts, project: Path | None) -> Iterator[tuple[str, str]]:
    """The recorded sessions of controllers and Followers that are over: name -> why."""
    for campaign in campaign_registry.registered(parts):
        own = campaign.campaign_dir
        if (project is None or campaign.is_of(project)) and (not own.spec.exists() or has_ended(own)):
            for name in session_names(own.path):
                yield name, f"the campaign {campaign.name} is over"
    home = state_home(parts.environ)
    for folder in (home / "places").glob("*") if project is None else ():
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
        own = session_info(rundir)
        return f"{name} is over" if _is_over(rundir) and own is not None and _is_same(own, info) else ""
    for entry in parts.index.recent(MOST_SERVERS, str(project) if project else ""):
        rundir = RunDir(Path(entry.run_dir))
        own = server_session_info(rundir)
        if own is not None and _is_same(own, info) and _is_over(rundir):
            return f"{entry.run}, whose server it was, is over"
    return ""


def _is_over(rundir: RunDir) -> bool:
    return rundir.state() is RunState.ENDED


def _is_same(info: SessionInfo, session: SessionInfo) -> bool:
    """Ids count for one tmux server only, and a name may come back."""
    return (info.session, info.session_id, info.server_pid) == (session.session, session.session_id, session.server_pid)
