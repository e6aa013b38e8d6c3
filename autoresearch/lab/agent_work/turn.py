"""One turn of a coding agent: started, bounded, ended with all that it started, and understood.

Whatever happens, nothing of it lives on: the agent runs below a supervisor that ends with the turn, and with the
process that asks. Should the supervisor itself be killed, its processes are found by the id of the turn in their
environment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from autoresearch.core.agents.agent import Agent, Answer, Spoken, Turn, TurnFault
from autoresearch.core.text.durations import spoken
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.lab.agent_work import agent_supervisor
from autoresearch.lab.agent_work.sandbox import PROGRAM, Level, confined
from autoresearch.lab.agent_work.turn_dir import (
    TurnDir,
    in_words,
    read_last,
    read_start,
    surroundings,
    write_question,
    write_result,
    write_shell,
    write_start,
)
from autoresearch.lab.agent_work.turn_dir import TurnEnvironment as TurnEnvironment
from autoresearch.lab.disk.usage import disk_usage
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.runs.processes import RUN_ID, SWEEP_S, sweep
from autoresearch.records.hostile import read_plain
from autoresearch.records.rundir import is_locked, locked, write_all
from autoresearch.runner.basics import failpoint

CHUNK = 1 << 16


class OutputCapture:
    """Pipes and the files that they flow into; use it in a `with` statement."""

    def __init__(self, paths: Iterable[Path], most_bytes: int) -> None:
        self.flooded = False
        self._files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600) for path in paths]
        self._left = dict.fromkeys(self._files, most_bytes)
        self._streams: list[IO[bytes]] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> OutputCapture:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()
        for fd in self._files:
            os.close(fd)

    def connect(self, *streams: IO[bytes] | None) -> None:
        """The pipes, in the order of the files; from now on they are closed with this."""
        for fd, stream in zip(self._files, streams, strict=True):
            assert stream is not None
            self._streams.append(stream)
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, fd)

    def wake(self, line: socket.socket) -> None:
        """Let `wait` end at once when something is said there, too."""
        self._selector.register(line, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Let flow what is there, or wait so long for something; whether anything came."""
        events = self._selector.select(seconds)
        for key, _ in events:
            if key.data is None:
                continue
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            if data:
                self._keep(key.data, data)
            else:
                self._selector.unregister(key.fileobj)
        return bool(events)

    def drain(self) -> None:
        """What is left in the pipes, without waiting for somebody who still holds one of them."""
        while not self.flooded and self.wait(0):
            pass

    def _keep(self, fd: int, data: bytes) -> None:
        kept = data[: self._left[fd]]
        write_all(fd, kept)
        self._left[fd] -= len(kept)
        self.flooded = self.flooded or len(kept) < len(data)


ENTRY_BYTES = 4096  # what a name counts beside its content: empty files fill a disk, too
SLOWEST_S = 10.0  # between two walks; many are cheap, and one of a million files takes seconds
SHARE = 10  # of the time, at most 1/SHARE is spent walking
LOOK_S = 0.1  # between two looks at its processes, its clock and the disk
_NO_PROGRAM = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR})
_Early = tuple[TurnFault, str]
_End = tuple[int | None, TurnFault | None, str]
_ITS_OWN = f"{PROGRAM}: "  # begins what bubblewrap itself says, before it exits with 1
_VANISHED = os.strerror(errno.ENOENT)
_NOT_RUN = (126, 127)  # what a shell, and `env`, answer for a program that cannot be run
_INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "opencode": "npm install -g opencode-ai",
    "gemini": "npm install -g @google/gemini-cli",
    "qwen": "npm install -g @qwen-code/qwen-code",
}


def run_turn(researcher: Agent, turn: Turn, turn_environment: TurnEnvironment, stop: threading.Event) -> Answer:
    """Ask and wait for the answer; safe in any thread, several at once. `stop` ends it early.

    How a turn can fail is a Fault. Raises ConflictError for a directory whose turn is under way,
    EnvironmentUnusable where the sandbox cannot be made, OSError where our own records cannot be written.
    """
    place = write_question(turn)
    with locked(place.lock, blocking=False) as ours:
        if not ours:
            raise ConflictError(f"{place.path}: this turn is under way already", code="turn_running")
        with _scratch(place, turn_environment) as scratch:
            call = _TurnCall.of(researcher, turn, turn_environment, scratch)
            write_start(place, turn, **call.record)
            answer, returncode = call.ask(place, stop)
            if answer.message.startswith(_ITS_OWN) and answer.message.endswith(_VANISHED):
                answer, returncode = call.ask(place, stop)  # a directory was removed while it was being hidden
            write_result(place, answer, role=turn.role, returncode=returncode, **call.record)
    if answer.fault is TurnFault.ENDED and answer.message.startswith(_ITS_OWN):
        raise EnvironmentUnusable(
            f"the agent cannot be confined: {answer.message}",
            hint="`--set sandbox=off` runs it without one; its changes are still checked",
            code="sandbox_failed",
        )
    return answer


def lost_turns(turns: Path, agents: Mapping[str, Agent]) -> list[tuple[Path, Answer]]:
    """Finish the turns whose controller was killed: end what lives of them, and read what they cost.

    Turns under way are left alone. Each gets its result.json (Fault.LOST), so that a second call finds none.
    `agents`: those that may have been asked, by name.
    """
    found = []
    for path in sorted(turns.iterdir()) if turns.is_dir() else ():
        place = TurnDir(path)
        started = None if place.result.exists() or is_locked(place.lock) else read_start(place)
        if started is None:
            continue
        turn, record = started
        sweep(str(record["id"]), grace_s=1.0)
        lost = _spoken(place, turn, None, TurnFault.LOST, 0.0)
        researcher = agents.get(str(record.get("agent")), next(iter(agents.values())))
        answer = _understood(researcher, turn, lost, "its controller was killed")
        _discard(Path(str(record["scratch"])))
        kept = ("role", "id", "agent", "level", "command", "scratch")
        write_result(place, answer, **{key: record[key] for key in kept if key in record})
        found.append((path, answer))
    return found


@dataclass(frozen=True, slots=True)
class _TurnCall:
    """All that is decided before a turn is started."""

    researcher: Agent
    turn: Turn
    turn_environment: TurnEnvironment
    token: str  # what its processes carry
    argv: tuple[str, ...]
    env: Mapping[str, str]
    scratch: Path
    homes: tuple[Path, ...]

    @classmethod
    def of(cls, researcher: Agent, turn: Turn, turn_environment: TurnEnvironment, scratch: Path) -> _TurnCall:
        given = surroundings(turn_environment.environ, needs=researcher.needs(), keep=turn_environment.keep)
        if turn_environment.level is not Level.BUBBLEWRAP:
            given |= {"TMPDIR": str(scratch), "TMUX_TMPDIR": str(scratch)}
        given |= write_shell(turn, turn_environment.interpreter, given)
        token = f"turn-{new_token()}{new_token()}"
        env = {**given, **researcher.environment(turn), "PWD": str(turn.cwd), RUN_ID: token}
        homes = tuple(Path(home) for home in researcher.homes(env))
        return cls(researcher, turn, turn_environment, token, researcher.argv(turn), env, scratch, homes)

    @property
    def record(self) -> dict[str, str]:
        """What is kept of it."""
        told = {"id": self.token, "agent": self.researcher.name, "level": self.turn_environment.level}
        return {**told, "command": in_words(self.argv), "scratch": str(self.scratch)}

    def ask(self, turn_dir: TurnDir, stop: threading.Event) -> tuple[Answer, int | None]:
        """Run it; the answer and the exit code (None: it was not started, or we ended it)."""
        # two programs, where one of ours starts the agent (`acp`)
        names = dict.fromkeys((self.argv[0], self.researcher.program()))
        found = {name: shutil.which(name, path=self.env.get("PATH", os.defpath)) for name in names}
        if absent := [name for name in found if found[name] is None]:
            return Answer(fault=TurnFault.NOT_INSTALLED, message=self._missing(absent[0])), None
        programs = tuple(filter(None, found.values()))
        if stop.is_set():
            return Answer(fault=TurnFault.STOPPED), None
        failpoint("turn.begun")
        began = time.monotonic()
        try:
            returncode, fault, why = self._run(self._boxed(programs), turn_dir, stop)
        except OSError as error:
            if error.errno in _NO_PROGRAM and error.filename in (*programs, self.argv[0]):
                return Answer(fault=TurnFault.NOT_INSTALLED, message=f"{error.filename}: {error.strerror}"), None
            if error.errno == errno.E2BIG:
                return Answer(fault=TurnFault.ENDED, message="its command line is longer than the kernel takes"), None
            raise
        spoken = _spoken(turn_dir, self.turn, returncode, fault, time.monotonic() - began)
        if self.turn_environment.level is Level.BUBBLEWRAP and returncode == 1 and not spoken.out:
            said = _last_line(spoken.err)
            if said.startswith(_ITS_OWN):
                missing = said.startswith(f"{_ITS_OWN}execvp")
                return Answer(fault=TurnFault.NOT_INSTALLED if missing else TurnFault.ENDED, message=said), returncode
        return _understood(self.researcher, self.turn, spoken, why), returncode

    def _missing(self, name: str) -> str:
        words = f"{name} is not installed, not executable, or not on PATH"
        hint = _INSTALL.get(self.researcher.name)
        return f"{words}; install it: {hint}" if hint else words

    def _boxed(self, programs: tuple[str, ...]) -> tuple[str, ...]:
        if self.turn_environment.level is not Level.BUBBLEWRAP:
            return self.argv
        cell = self.turn_environment.cell(Path(self.turn.cwd), self.scratch, self.env, *programs)
        own = replace(cell, writes=self.turn.role.writes, turn=Path(self.turn.directory), homes=self.homes)
        return confined(self.argv, own)

    def _run(self, argv: tuple[str, ...], turn_dir: TurnDir, stop: threading.Event) -> _End:
        """Exit code, what ended it early, and why in words."""
        growth = Growth(
            (Path(self.turn.cwd), self.scratch, turn_dir.answer, *self.homes), self.turn_environment.written_bytes
        )
        with (
            OutputCapture((turn_dir.out, turn_dir.err), self.turn_environment.printed_bytes) as pump,
            self._started(argv, pump) as line,
        ):
            heard = self._attend(line, pump, growth, stop)
        if isinstance(heard, tuple):
            return None, *heard
        word, _, number = heard.decode().partition(" ")
        if word == "errno":
            raise OSError(int(number), os.strerror(int(number)), argv[0])
        if word != "exit":
            return None, TurnFault.ENDED, "its supervisor was killed"
        return int(number), None, ""

    @contextlib.contextmanager
    def _started(self, argv: tuple[str, ...], pump: OutputCapture) -> Iterator[socket.socket]:
        """The line to its supervisor; afterwards the process tree is gone, and what it printed is in the files."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            stack.enter_context(ours)
            with Path(self.turn.prompt_file).open("rb") as prompt:
                process = subprocess.Popen(
                    agent_supervisor.command(theirs, self.turn_environment.grace_s, argv),
                    cwd=self.turn.cwd,
                    env=self.env,
                    stdin=prompt,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            stack.callback(self._end, process, ours)
            theirs.close()
            pump.connect(process.stdout, process.stderr)
            yield ours
            self._end(process, ours)
            pump.drain()

    def _end(self, process: subprocess.Popen[bytes], line: socket.socket) -> None:
        """Hang up: the supervisor ends the tree and itself. Where it cannot, we do."""
        if line.fileno() < 0:
            return
        line.close()
        try:
            process.wait(self.turn_environment.grace_s + agent_supervisor.STUCK_S + SWEEP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode != 0:
            sweep(self.token, grace_s=0.0)

    def _attend(
        self, line: socket.socket, pump: OutputCapture, growth: Growth, stop: threading.Event
    ) -> bytes | _Early:
        """Until it exits by itself (what the supervisor says of it, b"" if that died), or must be ended."""
        until = time.monotonic() + self.turn.bounds.seconds
        pump.wake(line)
        while True:
            pump.wait(LOOK_S)
            try:
                return line.recv(64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
            if stop.is_set():
                return TurnFault.STOPPED, ""
            if time.monotonic() > until:
                return TurnFault.TIMEOUT, f"it took longer than {spoken(self.turn.bounds.seconds)}"
            if pump.flooded:
                return TurnFault.FLOOD, f"it printed more than {self.turn_environment.printed_bytes >> 20} MiB"
            if growth.exceeded():
                return TurnFault.FLOOD, f"it wrote more than it may ({growth.most >> 20} MiB) to the disk"


@contextlib.contextmanager
def _scratch(turn_dir: TurnDir, turn_environment: TurnEnvironment) -> Iterator[Path]:
    """A directory for what is temporary; a short path where it is seen as it is, as sockets may be put there."""
    if turn_environment.level is Level.BUBBLEWRAP:
        path = turn_dir.path / "tmp"
        path.mkdir(mode=0o700, exist_ok=True)
    else:
        path = Path(tempfile.mkdtemp(prefix="ar-turn-"))
    try:
        yield path
    finally:
        _discard(path)


def _discard(path: Path) -> None:
    with contextlib.suppress(EnvironmentUnusable):  # it was set aside
        wipe(path)


def _spoken(turn_dir: TurnDir, turn: Turn, returncode: int | None, fault: TurnFault | None, seconds: float) -> Spoken:
    out, err = (read_plain(path, 1 << 30) for path in (turn_dir.out, turn_dir.err))
    return Spoken(out, err, returncode, read_last(turn), fault, seconds)


def _understood(researcher: Agent, turn: Turn, spoken: Spoken, why: str = "") -> Answer:
    """What the agent's own file makes of it, with what we know better: how its process ended, and `why` by us."""
    answer = researcher.read(turn, spoken)
    fault, message = answer.fault or spoken.fault, answer.message
    if why:
        message = f"{why}; its last words: {message}" if message else why
    elif fault in (None, TurnFault.ENDED, TurnFault.SILENT) and spoken.returncode in _NOT_RUN:
        fault, message = TurnFault.NOT_INSTALLED, message or _last_line(spoken.err)
    elif fault is None and spoken.returncode is not None and spoken.returncode < 0:
        fault = TurnFault.ENDED
    if fault is TurnFault.ENDED and not message and spoken.returncode is not None:
        message = (
            f"it was killed by signal {-spoken.returncode}" if spoken.returncode < 0 else "it failed without a word"
        )
    return replace(answer, fault=fault, message=message, usage=replace(answer.usage, seconds=spoken.seconds))


def _last_line(text: bytes) -> str:
    lines = text[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else ""


class Growth:
    """What was added since it was made. Ask `exceeded` often; it walks only where that may tell something new."""

    def __init__(self, directories: Iterable[Path], most_bytes: int) -> None:
        self._roots = _outermost(directories)
        self._free = self._free_bytes()
        self.most = min([most_bytes, *(free // 2 for free in self._free.values())])
        self._walked, self._took = 0.0, 0.0
        self._before = self._walk()

    def exceeded(self) -> bool:
        """Whether more was added than may be, or than half of what was free."""
        now = time.monotonic()
        if now - self._walked < max(0.1, SHARE * self._took):
            return False
        free = self._free_bytes()
        fell = any(free.get(device, 0) < had - self.most // 8 for device, had in self._free.items())
        if not fell and now - self._walked < SLOWEST_S:
            return False
        self._free = free
        return self._walk() - self._before > self.most

    def _walk(self) -> int:
        began = time.monotonic()
        usage = disk_usage(self._roots)
        self._walked = time.monotonic()
        self._took = self._walked - began
        return usage.bytes + ENTRY_BYTES * usage.entries

    def _free_bytes(self) -> dict[int, int]:
        found = {}
        for root in self._roots:
            try:
                numbers = os.statvfs(root)
                found[root.stat().st_dev] = numbers.f_bavail * numbers.f_frsize
            except OSError:
                continue
        return found


def _outermost(directories: Iterable[Path]) -> list[Path]:
    real = {Path(os.path.realpath(path)) for path in directories}
    return sorted(path for path in real if path.is_dir() and not real & set(path.parents))
