"""Living sessions: find them by any name, look at them, close them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run import RunSpec
from autoresearch.errors import NotFoundError
from autoresearch.lab.parts import Parts
from autoresearch.records import spec_file
from autoresearch.records.index import Entry
from autoresearch.records.rundir import RunDir, read_json

if TYPE_CHECKING:
    from autoresearch.launchers.tmux_session import SessionInfo


def find(name: str, parts: Parts) -> RunDir:
    """The run directory of a run id, a session name, a slug, a result directory, or `last`."""
    entries = parts.index.find(name)
    if entries:
        return RunDir(Path(entries[0].run_dir))
    direct = RunDir(Path(name).absolute())
    try:
        if direct.spec.is_file():
            return direct
    except (OSError, ValueError):  # too long, or no path at all
        pass
    raise NotFoundError(
        f"no run answers to {name[:80]!r}",
        hint="a run id, a session name, a slug, a result directory, or `last`",
        fix="autoresearch status",
    )


def spec_of(rundir: RunDir) -> RunSpec:
    """The spec of a run; NotFoundError where its directory has been removed."""
    try:
        return spec_file.read(rundir)
    except OSError as error:
        raise NotFoundError(
            f"{rundir.path}: the run directory is gone ({error.strerror})",
            hint="its row in the ledger remains",
        ) from error


def session_info(rundir: RunDir) -> SessionInfo | None:
    """Where the session of a run was started; None if it never was."""
    from autoresearch.launchers.tmux_session import SessionInfo

    record = read_json(rundir.session)
    return SessionInfo.read(record) if record else None


def server_session_info(rundir: RunDir) -> SessionInfo | None:
    """Where the server of a run in swarm mode was started; None for any other run."""
    return session_info(RunDir(rundir.path / "server"))


def close_session(rundir: RunDir, parts: Parts) -> bool:
    """Close the pane of a run, and that of its server; False where there is none (any more)."""
    server = server_session_info(rundir)
    if server is not None:
        parts.launcher(server.socket).close(server)
    info = session_info(rundir)
    if info is None:
        return False
    return parts.launcher(info.socket).close(info)


def living(parts: Parts) -> list[Entry]:
    """Every run that is not collected yet, oldest first."""
    return parts.index.live()
