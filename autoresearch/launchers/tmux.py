"""tmux: named sessions that people can attach to; never the source of truth about a run.

The Runner is the pane's own process, passed as argv: nothing is typed into a shell, nothing is parsed from a pane. What
happened is in the run directory; tmux only says where to look.

Written against tmux 3.2 and newer: `new-session -e` and `-N` (never start a server) came with 3.2.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import host_sandbox_check, program
from autoresearch.launchers.tmux_session import (
    MARKER,
    SessionInfo,
    attach_line,
    close_session,
    keeper_session,
    new_session,
    release_server,
    socket_flags,
)

if TYPE_CHECKING:
    from libtmux.common import tmux_cmd

__all__ = ["SessionInfo", "TmuxLauncher"]

OLDEST = (3, 2)
ANSWER_S = 10.0  # a tmux server that takes longer is unreachable; usual answers take 2 ms
KEEPER_S = 20  # the session that holds a new server open ends by itself after so many seconds

_NO_SERVER = later(r"no server running on|error connecting to .*\((No such file or directory|Connection refused)\)")
_EXITING = later("server exited|lost server")  # it exited during the call, which was not done
_NO_PANE = later("no current target|no sessions|can't find session")  # of a server without any, or without that one
# libtmux's own list has the path of each pane, and fails where somebody's holds a line break.
_PANE = "#{session_id} #{pane_id} #{pid} #{pane_dead} #{?pane_pid,#{pane_pid},0} #{session_name}"
_VARIABLE = later(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Pane(NamedTuple):
    """One pane of a server."""

    session_id: str
    pane_id: str
    server_pid: int
    dead: bool
    pid: int  # 0 where tmux names none of a dead pane, as 3.8 does
    session: str


class TmuxLauncher:
    """Starts and finds `ajet_*` sessions on one tmux server.

    `socket`: "" is the user's default server, a path is `tmux -S`, a name is `tmux -L`. Never ends a server, or a
    session other than the requested one.
    """

    name = "tmux"

    def __init__(self, socket: str = "") -> None:
        self.socket = socket

    def preflight(self) -> list[Finding]:
        """Problems that would prevent a session from living here; empty without any."""
        found = host_sandbox_check.findings(host_sandbox_check.look(os.environ))
        try:
            self._query("list-sessions", "-F", "#{session_id}")
        except EnvironmentUnusable as problem:
            hint = f"{problem.hint}: {problem.fix}" if problem.fix else problem.hint
            return [*found, Finding(Severity.ERROR, problem.code, problem.message, hint)]
        return found

    def start(self, session: str, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> SessionInfo:
        """Start `argv` (without a shell) in a new detached session and return where it is.

        `environment` is added to the server's, which is not the caller's: pass what argv needs to start, below 16 KiB
        in all. Raises ConflictError if the name is taken, EnvironmentUnusable if tmux, the directory or the sandbox do
        not allow it, UsageError for arguments that tmux would misread. The session exists on return; whether argv
        started properly shows in the run directory.
        """
        _check(session, argv, cwd, environment)
        command = new_session(session, argv, cwd, environment)
        answer = self._ask(*command)
        if not _is_absent(answer):
            return self._created(session, answer)
        with self._server():
            answer = self._ask(*command)
        return self._created(session, answer)

    def exists(self, info: SessionInfo) -> bool:
        """Whether the session can be viewed: a pane stays readable after its run.

        Raises EnvironmentUnusable if the server cannot be queried.
        """
        panes = TmuxLauncher(info.socket)._panes(info.server_pid)
        # ids restart with every server, so the server's pid counts too
        return any((one.session_id, one.server_pid) == (info.session_id, info.server_pid) for one in panes)

    def close(self, info: SessionInfo) -> bool:
        """End this one session; its processes get SIGHUP. False if it is gone already.

        Raises EnvironmentUnusable if the server cannot be queried.
        """
        answer = TmuxLauncher(info.socket)._query(*close_session(info), server_pid=info.server_pid)
        return answer.returncode == 0 and answer.stdout[:1] == [str(info.server_pid)]

    def attach_line(self, info: SessionInfo) -> str:
        """The command that shows the session; valid in any shell."""
        return attach_line(info.socket, info.session)

    def attach_argv(self, info: SessionInfo, environ: Mapping[str, str]) -> list[str]:
        """The argv to exec for attaching; inside the same tmux server that is switch-client."""
        inside = environ.get("TMUX", "").split(",")  # socket,server pid,session
        here = len(inside) > 1 and inside[1] == str(info.server_pid)
        verb = "switch-client" if here else "attach-session"
        return ["tmux", *socket_flags(info.socket), verb, "-t", f"={info.session}"]

    def list_ours(self) -> list[SessionInfo]:
        """Every `ajet_*` session of this server, running or over; empty without a server.

        Raises EnvironmentUnusable if tmux is unusable or the server does not answer.
        """
        return self._ours(self._panes())

    def list_ended(self) -> list[SessionInfo]:
        """Those of `list_ours` in which nothing runs any more, not even a shell that a person opened beside the run."""
        panes = self._panes()
        alive = {pane.session_id for pane in panes if not pane.dead}
        return [info for info in self._ours(panes) if info.session_id not in alive]

    def living_pids(self, session: str) -> list[int] | None:
        """The processes of the living panes of exactly this session, whoever made it; None without one."""
        panes = [pane for pane in self._panes() if pane.session == session]
        return [pane.pid for pane in panes if not pane.dead] if panes else None

    def _ours(self, panes: Iterable[Pane]) -> list[SessionInfo]:
        first: dict[str, Pane] = {}
        for pane in sorted(panes, key=lambda one: int(one.pane_id[1:])):
            if naming.SESSION.match(pane.session):
                first.setdefault(pane.session, pane)  # the Runner's was the session's first
        return [self._info(pane) for pane in first.values()]

    def _info(self, pane: Pane) -> SessionInfo:
        return SessionInfo(
            launcher=self.name,
            session=pane.session,
            socket=self.socket,
            session_id=pane.session_id,
            pane_id=pane.pane_id,
            server_pid=pane.server_pid,
            pane_pid=pane.pid,
            attach=attach_line(self.socket, pane.session),
        )

    def _created(self, session: str, reply: tmux_cmd) -> SessionInfo:
        """The session that `new-session` made."""
        error = " ".join(reply.stderr)
        if "duplicate session" in error:
            message = f"there is a tmux session {session} already"
            hint = f"look at it: {attach_line(self.socket, session)}"
            raise ConflictError(message, code="session_exists", hint=hint)
        if reply.returncode != 0:
            _require_tmux()
            message = f"tmux could not start session {session}: {error or 'it gave no reason'}"
            raise EnvironmentUnusable(message, code="tmux_failed", hint="see `autoresearch doctor`")
        if not (made := [one for one in self.list_ours() if one.session == session]):
            message = f"tmux said that session {session} was started, but it is gone"  # as a sandbox ends its server
            raise EnvironmentUnusable(message, code="session_lost", hint=host_sandbox_check.REMEDY)
        return made[0]

    def _query(self, *arguments: str, server_pid: int = 0) -> tmux_cmd:
        """The answer of a server, or that it has no such session, or that there is none.

        `server_pid`: a server that existed before; if it lives without its socket, that is repaired. Raises
        EnvironmentUnusable if the server cannot be queried.
        """
        answer = self._ask(*arguments)
        for _ in range(3):  # one that is about to end lives on for a moment without its socket
            if not (lives := _is_absent(answer) and _mend_socket(server_pid)):
                break
            answer = self._ask(*arguments)
        if answer.returncode != 0 and (lives or not _is_absent(answer)) and not _NO_PANE.search(str(answer.stderr)):
            _require_tmux()
            raise _unreachable(" ".join(answer.stderr))
        return answer

    def _panes(self, server_pid: int = 0) -> list[Pane]:
        """All panes of the server; [] without a server. See `_query`."""
        answer = self._query("list-panes", "-a", "-F", _PANE, server_pid=server_pid)
        if _is_absent(answer):
            return []
        panes = []
        for line in answer.stdout:
            session_id, pane_id, server, dead, pid, session = line.split(" ", 5)
            panes.append(Pane(session_id, pane_id, int(server), dead == "1", int(pid), session))
        if not any(naming.SESSION.match(pane.session) for pane in panes):
            self._ask(*release_server())  # a person killed the last of our sessions
        return panes

    @contextlib.contextmanager
    def _server(self) -> Iterator[None]:
        """Keep a server running at least until the block is left.

        A server keeps the command line of the client that started it, and AgentJet's `--autokill` ends every process
        whose command line holds `ray`, `vllm`, `sglang` or `python`. So a neutral command starts it, with a keeper
        session (a server without one exits) that ends as soon as the real one exists. The server's environment is
        inherited by every later pane, so the markers of the run, the pane or the agent that starts it are removed.
        """
        import secrets  # takes milliseconds to import

        keeper = f"keeper-{secrets.token_hex(3)}"
        unwanted = {MARKER, "TMUX", "TMUX_PANE", *host_sandbox_check.AGENT_MARKERS}
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # the caller's next call reports why
            subprocess.run(
                keeper_session(self.socket, keeper, KEEPER_S),  # "tmux": its path may hold such a word
                env={name: value for name, value in os.environ.items() if name not in unwanted},
                cwd="/",  # a daemon should not keep a directory busy
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ANSWER_S,
                check=False,
            )
        try:
            yield
        finally:
            with contextlib.suppress(EnvironmentUnusable):
                self._ask("kill-session", "-t", f"={keeper}")

    def _ask(self, *arguments: str) -> tmux_cmd:
        """One tmux call that never starts a server. See `_call`."""
        answer = self._call(*arguments)
        return self._call(*arguments) if _EXITING.search(str(answer.stderr)) else answer

    def _call(self, *arguments: str) -> tmux_cmd:
        """What libtmux answers. EnvironmentUnusable if tmux is missing, or does not answer in time.

        libtmux waits without a limit, so it waits in a thread; a call that was given up ends with its server.
        """
        from libtmux import Server  # 118 ms
        from libtmux.exc import LibTmuxException

        by_path = "/" in self.socket  # a name rather than nothing: else $TMUX decides, which may be another server
        server = Server(socket_path=self.socket) if by_path else Server(socket_name=self.socket or "default")
        answer: Future[tmux_cmd] = Future()

        def ask() -> None:
            try:
                answer.set_result(server.cmd("-N", *arguments))
            except (LibTmuxException, OSError) as error:  # raised again where it is awaited
                answer.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            return answer.result(ANSWER_S)
        except TimeoutError:
            raise _unreachable(f"no answer within {ANSWER_S:.0f} s") from None
        except (LibTmuxException, OSError) as error:
            _require_tmux()
            raise _unreachable(str(error)) from None


def _is_absent(reply: tmux_cmd) -> bool:
    """Whether there is no server: that is a valid answer, any other error is not."""
    return reply.returncode != 0 and _NO_SERVER.search(" ".join(reply.stderr)) is not None


def _unreachable(why: str) -> EnvironmentUnusable:
    message = f"the tmux server cannot be reached: {why}"
    return EnvironmentUnusable(message, code="tmux_unreachable", hint=host_sandbox_check.REMEDY)


def _mend_socket(server_pid: int) -> bool:
    """Have a living server whose socket was removed (/tmp cleaners do that) create a new one."""
    try:
        # the pid may have been reused, or be a zombie's; tmux sets this name itself
        if not re.match(r"\d+ \(tmux: server\) [^ZX]", Path(f"/proc/{server_pid}/stat").read_text()):
            return False
        os.kill(server_pid, signal.SIGUSR1)
    except OSError:
        return False
    time.sleep(0.1)  # there is no event to wait for; measured: below 5 ms
    return True


def _check(session: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Refuse input that tmux would accept and misinterpret."""
    if not naming.SESSION.match(session):
        raise UsageError(f"{session!r} is no session name", hint="ajet_ and 1 to 60 of A-Z a-z 0-9 _ -")
    if not cwd.is_dir():  # tmux would silently use another directory
        raise EnvironmentUnusable(f"the working directory {cwd} is not there", code="no_directory")
    if not argv or any("\0" in word for word in [*argv, *environment.values()]):
        raise UsageError(f"session {session} has no command, or one with a NUL byte")
    bad = [name for name in environment if not _VARIABLE.match(name)]
    if bad:
        raise UsageError(f"{bad[0]!r} is no name of an environment variable")


def _require_tmux() -> None:
    """Raise EnvironmentUnusable (`no_tmux`, `old_tmux`) with the install command, if that explains a failed call."""
    found = program.version("tmux", "-V")
    if not found:
        message, code = "tmux is not installed, or does not run", "no_tmux"
    elif program.is_older(found, OLDEST):
        message, code = f"tmux {found} is too old; 3.2 is the oldest that will do", "old_tmux"
    else:
        return
    raise EnvironmentUnusable(message, code=code, hint="install it", fix=program.install_line("tmux"))
