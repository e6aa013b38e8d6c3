"""Runs and their sessions: find them by any name, view them, close them.

Ask a run to stop, by a file that its Runner or Follower reads, and record the request.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import NotFoundError
from autoresearch.lab.parts import Parts
from autoresearch.records import events, recorded_run
from autoresearch.records.index import IndexEntry
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json

if TYPE_CHECKING:
    from autoresearch.launchers.tmux_session import SessionInfo

NEAR = 50  # runs whose names are compared with one that is not known
LISTED = 5  # runs of other projects to list if this one has none of that name


def find(name: str, parts: Parts) -> RunDir:
    """The run directory for a run id, a session name or a directory; a slug, or `last`, of this project.

    Raises NotFoundError that lists other projects' matches.
    """
    if entry := parts.index.by_id(name):
        return RunDir(Path(entry.run_dir))
    if Path(name).is_absolute() and (found := _at(name, parts)):
        return found
    from autoresearch.git_repo.checkout import current_project

    project = str(current_project())
    own = _named(name, project, parts)
    if own:
        return RunDir(Path(own[0].run_dir))
    if found := _at(name, parts):
        return found
    if moved := _moved(Path(project), parts):
        raise NotFoundError(
            f"{project} was moved from {moved.project}: its earlier runs are found by their directories alone",
            hint="nothing is lost: rows, logs and metrics are read where they are now",
            fix=f"autoresearch status {Path(project) / Path(moved.run_dir).relative_to(moved.project)}",
            code="project_moved",
        )
    import difflib

    names = [word for one in parts.index.recent(NEAR, project) for word in (one.run, one.slug)]
    near = difflib.get_close_matches(name[:80], names, 1)
    elsewhere = ", ".join(f"{one.run} in {one.run_dir}" for one in _named(name, "", parts)[:LISTED])
    raise NotFoundError(
        f"{project} has no run yet" if name == "last" else f"no run of {project} answers to {name[:80]!r}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"elsewhere: {elsewhere}"
        if elsewhere
        else "a run id, a session name, a slug, a directory, or `last`",
        fix=f"autoresearch status {near[0]}" if near else "autoresearch status",
    )


def _moved(project: Path, parts: Parts) -> IndexEntry | None:
    """The newest run of a project that was at another path when it ran."""
    for entry in parts.index.recent(NEAR):
        old, run_dir = Path(entry.project or "/"), Path(entry.run_dir)
        if old in run_dir.parents and not old.exists() and (project / run_dir.relative_to(old) / "spec.json").exists():
            return entry
    return None


def _named(name: str, project: str, parts: Parts) -> list[IndexEntry]:
    return parts.index.recent(LISTED, project) if name == "last" else parts.index.by_slug(name, project)


def _at(name: str, parts: Parts) -> RunDir | None:
    """The newest run of a result directory, or the run of a run directory."""
    if entries := parts.index.by_directory(name):
        return RunDir(Path(entries[0].run_dir))
    try:
        direct = RunDir(Path(name).absolute())
        return direct if direct.spec.is_file() else None
    except (OSError, ValueError):  # too long, or not a path
        return None


def recorded(name: str, parts: Parts) -> RecordedRun:
    """The run of a name, as its directory records it. Raises NotFoundError."""
    return RecordedRun.read(find(name, parts))


def session_info(rundir: RunDir) -> SessionInfo | None:
    """The session in which a run was started; None if it never was."""
    from autoresearch.launchers.tmux_session import SessionInfo

    record = read_json(rundir.session)
    return SessionInfo.read(record) if record else None


def server_session_info(rundir: RunDir) -> SessionInfo | None:
    """The session of the server of a swarm mode run; None for any other run."""
    return session_info(RunDir(rundir.path / "server"))


def close_session(rundir: RunDir, parts: Parts) -> bool:
    """Close the pane of a run, and that of its server; False if it has none (left)."""
    server = server_session_info(rundir)
    if server is not None:
        parts.launcher(server.socket).close(server)
    info = session_info(rundir)
    if info is None:
        return False
    return parts.launcher(info.socket).close(info)


def works(session: str, parts: Parts) -> bool | None:
    """Whether anything runs in a tmux session, whoever made it; None if there is none of exactly this name.

    A shell that waits for a command is nothing that runs.
    """
    from autoresearch.lab import settings
    from autoresearch.lab.runs.processes import is_idle_shell

    socket = settings.load(Path.cwd(), environ=parts.environ).text("tmux_socket")
    pids = parts.launcher(socket).living_pids(session)
    return None if pids is None else not all(map(is_idle_shell, pids))


def living(parts: Parts) -> list[IndexEntry]:
    """Every run that is not collected yet, oldest first."""
    return parts.index.live()


def note(rundir: RunDir, text: str) -> tuple[RunSpec, Path]:
    """Add a note of somebody to the experiment log and the events of a run; its spec, and the path of that log."""
    from autoresearch.records import journal

    spec = recorded_run.read(rundir)
    journal.append(Path(spec.result_dir), f"note: {text}")
    events.append(rundir.events, "note", text=text[:1000])
    return spec, Path(spec.result_dir) / journal.NAME


def ask_to_stop(rundir: RunDir, reason: str, *, drain: bool = False) -> None:
    """Request the end of a run: now, or with `drain` after its current step. NotFoundError if its directory is gone."""
    from autoresearch.records import journal
    from autoresearch.records.order_file import request_stop

    how = "drain" if drain else "now"
    spec = recorded_run.read(rundir)
    events.append(rundir.events, "stop_requested", how=how, reason=reason)
    journal.append(Path(spec.result_dir), f"stop requested ({how}): {reason}")
    request_stop(rundir, reason, how=how)
