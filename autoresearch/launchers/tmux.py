"""tmux: named sessions that people can attach to; never the source of truth about a run.

The Runner is the pane's own process, passed as argv: nothing is typed into a shell, nothing is parsed from a pane. What
happened is in the run directory; tmux only says where to look.

Written against tmux 3.2 and newer: `new-session -e` and `-N` (never start a server) came with 3.2.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import host_sandbox_check, program
from autoresearch.runner.terminal_mirror import KEPT, RELEASE

if TYPE_CHECKING:
    from libtmux.common import tmux_cmd

MARKER = "AUTORESEARCH_RUN_ID"
READABLE_S = 86400  # seconds: a day after its command is over, a pane closes by itself
COLUMNS, LINES = "220", "50"  # a detached pane is 80x24 by default; one verl line is 3,000 characters
OLDEST = (3, 2)
ANSWER_S = 10.0  # a tmux server that takes longer is unreachable; usual answers take 2 ms
KEEPER_S = 20  # the session that holds a new server open ends by itself after so many seconds

_NO_SERVER = later(r"no server running on|error connecting to .*\((No such file or directory|Connection refused)\)")
_EXITING = later("server exited|lost server")  # it exited during the call, which was not done
_NO_PANE = later("no current target|no sessions|can't find session")  # of a server without any, or without that one
# libtmux's own list has the path of each pane, and fails where somebody's holds a line break.
_PANE = "#{session_id} #{pane_id} #{pid} #{pane_dead} #{?pane_pid,#{pane_pid},0} #{session_name}"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as tmux named it when it was started; written to `session.json`.

    The ids are valid for one server only, which `server_pid` identifies. `socket` is the launcher's: "" for the user's
    default server, a path, or a name.
    """

    launcher: str
    session: str
    socket: str
    session_id: str  # "$3"
    pane_id: str  # "%5"
    server_pid: int
    attach: str  # the line to type

    @classmethod
    def read(cls, record: Mapping[str, object]) -> SessionInfo:
        """Read what `dataclasses.asdict` wrote; missing or mistyped fields become "" or 0."""
        kinds = {one.name: int if one.name.endswith("_pid") else str for one in fields(cls)}
        known = {name: record.get(name) for name in kinds}
        whole: dict[str, Any] = {n: value if isinstance(value, kinds[n]) else kinds[n]() for n, value in known.items()}
        return cls(**whole)


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
        _check(session, cwd)
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
        panes = TmuxLauncher(info.socket)._panes()
        # ids restart with every server, so the server's pid counts too
        return any((one.session_id, one.server_pid) == (info.session_id, info.server_pid) for one in panes)

    def close(self, info: SessionInfo) -> bool:
        """End this one session; its processes get SIGHUP. False if it is gone already.

        Raises EnvironmentUnusable if the server cannot be queried.
        """
        answer = TmuxLauncher(info.socket)._query(*close_session(info))
        return answer.returncode == 0 and answer.stdout[:1] == [str(info.server_pid)]

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

    def _query(self, *arguments: str) -> tmux_cmd:
        """The answer of a server, or that it has no such session, or that there is none.

        Raises EnvironmentUnusable if the server cannot be queried.
        """
        answer = self._ask(*arguments)
        if answer.returncode != 0 and not _is_absent(answer) and not _NO_PANE.search(str(answer.stderr)):
            _require_tmux()
            raise _unreachable(" ".join(answer.stderr))
        return answer

    def _panes(self) -> list[Pane]:
        """All panes of the server; [] without a server. See `_query`."""
        answer = self._query("list-panes", "-a", "-F", _PANE)
        if _is_absent(answer):
            return []
        panes = []
        for line in answer.stdout:
            session_id, pane_id, server, dead, pid, session = line.split(" ", 5)
            panes.append(Pane(session_id, pane_id, int(server), dead == "1", int(pid), session))
        if not any(naming.SESSION.match(pane.session) for pane in panes):
            self._ask(*RELEASE)  # a person killed the last of our sessions
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
        from concurrent.futures import Future  # takes milliseconds to import

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


def _check(session: str, cwd: Path) -> None:
    """Refuse input that tmux would accept and misinterpret."""
    if not naming.SESSION.match(session):
        raise UsageError(f"{session!r} is no session name", hint="ajet_ and 1 to 60 of A-Z a-z 0-9 _ -")
    if not cwd.is_dir():  # tmux would silently use another directory
        raise EnvironmentUnusable(f"the working directory {cwd} is not there", code="no_directory")


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


# -- in tmux's terms: nothing here runs a command -----------------------------------------------------------------


def socket_flags(socket: str) -> list[str]:
    """`-L default` rather than nothing: without a flag $TMUX decides, which may be another server."""
    return ["-S", socket] if "/" in socket else ["-L", socket or "default"]


def attach_line(socket: str, session: str) -> str:
    """The command to attach; the target is exact, and quoted because zsh expands a bare =word."""
    flags = socket_flags(socket) if socket else []
    return shlex.join(["tmux", *flags, "attach", "-t"]) + f" '={session}'"


def new_session(session: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """One command sequence, so that nothing (an early exit, the user's tmux.conf) can interfere."""
    target = f"={session}:"
    words = argv if len(argv) > 1 else ("env", *argv)  # one word alone would go through default-shell
    command = [
        *("new-session", "-d", "-s", session, "-x", COLUMNS, "-y", LINES),
        *("-c", str(cwd).replace("#", "##")),  # -c is a format: #{pid} in a path would be expanded
        *(word for name, value in environment.items() for word in ("-e", f"{name}={value}")),
        *("--", *words),
    ]
    options = [
        ("set-option", "-w", "-t", target, "remain-on-exit", "on"),
        ("set-hook", "-t", target, "pane-died", _closes_later()),
        ("set-option", "-t", target, "destroy-unattached", "off"),
        ("set-option", "-s", "exit-unattached", "off"),
        # see RELEASE
        ("if-shell", "-F", f"#{{?#{{{KEPT}}},,1}}", f"set-option -sF {KEPT} 'was #{{exit-empty}}'"),
        ("set-option", "-s", "exit-empty", "off"),
        # a window that a person opens in this session is not part of the run, and not swept with it
        ("set-environment", "-t", target, "-r", MARKER),
    ]
    return [_literal(word) for word in command] + [word for option in options for word in (";", *option)]


def keeper_session(socket: str, keeper: str, seconds: int) -> list[str]:
    """The command that starts a server without words that betray its purpose."""
    target = f"={keeper}:"
    start = ["tmux", *socket_flags(socket), "new-session", "-d", "-s", keeper, "--", "sleep", str(seconds)]
    return [
        *start,
        *(";", "set-option", "-s", "exit-unattached", "off"),
        *(";", "set-option", "-t", target, "destroy-unattached", "off"),
        *(";", "set-option", "-w", "-t", target, "remain-on-exit", "off"),
    ]


def close_session(info: SessionInfo) -> list[str]:
    """End a session of the server that is named first in the answer: of another one, its id is another session's."""
    ours, kill = f"#{{==:#{{pid}},{info.server_pid}}}", f"kill-session -t '{info.session_id}'"
    return ["display-message", "-p", "#{pid}", ";", "if-shell", "-F", ours, kill, ";", *RELEASE]


def _closes_later() -> str:
    """A command of tmux for when a pane has died: READABLE_S later, close it if it is still dead. No process waits."""
    close = ("if-shell", "-F", "-t", "#{hook_pane}", "##{pane_dead}", "kill-pane -t #{hook_pane}")
    line = shlex.join(["tmux", *close, ";", *(word.replace("#", "##") for word in RELEASE)])
    escaped = "".join(f"\\{one}" if one in '"\\$' else one for one in line)
    return f'run-shell -b -d {READABLE_S} "{escaped}"'


def _literal(word: str) -> str:
    """Escape a trailing `;`, which would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word
