"""The sessions of runs: which they are, whether anything runs there, their end; what is said to a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run.spec import RunSpec
from autoresearch.lab.parts import Parts
from autoresearch.records import events, recorded_run
from autoresearch.records.files import read_json
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.launchers.tmux import SessionInfo


def session_info(rundir: RunDir) -> SessionInfo | None:
    """The session in which a run was started; None if it never was."""
    from autoresearch.launchers.tmux import SessionInfo

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


def note(rundir: RunDir, text: str) -> tuple[RunSpec, Path]:
    """Add a note of somebody to the experiment log and the events of a run; its spec, and the path of that log."""
    from autoresearch.records import journal

    spec = recorded_run.read(rundir)
    journal.append(Path(spec.result_dir), f"note: {text}")
    events.append(rundir.events, "note", text=text[:1000])
    return spec, Path(spec.result_dir) / journal.NAME


def ask_to_stop(rundir: RunDir, reason: str) -> None:
    """Request the end of a run. NotFoundError if its directory is gone."""
    from autoresearch.records import journal
    from autoresearch.records.order_file import request_stop

    spec = recorded_run.read(rundir)
    events.append(rundir.events, "stop_requested", reason=reason)
    journal.append(Path(spec.result_dir), f"stop requested: {reason}")
    request_stop(rundir, reason)
