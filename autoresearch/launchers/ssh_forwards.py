"""Port forwards that are held while runs of a host live, each by an ssh of its own that is restarted when it ends.

They are separate from the agent's connection: a failing one must not make the host unreachable, and traffic through
them must not delay answers. Each ssh dies with this process (PR_SET_PDEATHSIG), so that the next Follower finds the
port free.
"""

from __future__ import annotations

import errno
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from autoresearch.core.run.targets import Target
from autoresearch.launchers.ssh_words import STANDS, SshWords, meaning
from autoresearch.runner.libc import process_control

_PLACE = r"\[[^\]]+\]|[^:\[\]]+"
_FORWARD = re.compile(rf"(?:({_PLACE}):)?([0-9]+):(?:{_PLACE}):[0-9]+\Z")  # ssh(1), -L and -R, without sockets
PR_SET_PDEATHSIG = 1
PATIENCE_S = 20.0  # for a forward to be established
COLLIDES_S = 3.0  # a forward that ends frees its port within this time
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward; `text` is what ssh -L or -R takes: [ADDRESS:]PORT:HOST:PORT."""

    text: str
    remote: bool = False

    @property
    def words(self) -> tuple[str, str]:
        """ssh's option. Without an address ssh would be satisfied with one of 127.0.0.1 and ::1."""
        found = _FORWARD.match(self.text)
        address = "" if found and found[1] else "127.0.0.1:"
        return ("-R" if self.remote else "-L", address + self.text)

    @property
    def port(self) -> tuple[str, int] | None:
        """Address and local port that it listens on; None for a remote forward."""
        found = _FORWARD.match(self.text)
        if self.remote or found is None:
            return None
        return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


def forwards_of(target: Target) -> tuple[Forward, ...]:
    """The forwards of a target. Raises ValueError for a malformed one."""
    found: list[Forward] = []
    for option, remote in (("forwards", False), ("remote_forwards", True)):
        given = target.options.get(option) or []
        for text in [given] if isinstance(given, str) else given:
            if not _FORWARD.match(str(text)):
                raise ValueError(f"{option}: {text!r} is no forward: 10086:localhost:10086")
            found.append(Forward(str(text), remote))
    return tuple(found)


def taken_port(forward: Forward) -> str:
    """Why the local port of a forward is unavailable, in one sentence; "" if it is free."""
    if forward.port is None:
        return ""
    address, port = forward.port
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("" if address == "*" else address, port))
        except OSError as error:
            why = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror
            return f"port {port} of this machine cannot be forwarded ({forward.text}): {why}"
    return ""


@dataclass(slots=True)
class _Held:
    """One forward and the ssh that holds it."""

    forward: Forward
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None  # output of both ends
    failures: int = 0
    next_at: float = 0.0
    wrong: str = "it is not made yet"  # why it is not established; "" if it is
    collides: bool = False  # ... because another process has the port


class Forwards:
    """The forwards of one target. `words`: returns ssh's command lines."""

    def __init__(
        self,
        forwards: Sequence[Forward],
        environ: Mapping[str, str],
        ssh_words: Callable[[], SshWords],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.forwards = tuple(forwards)
        self.environ, self.words, self.clock = environ, ssh_words, clock
        self._held = [_Held(forward) for forward in forwards]

    def stand(self) -> str:
        """Establish them all, waiting some time; returns why one's port is taken, else ""."""
        begun = self.clock()
        while self.tend():
            collides = next((held.wrong for held in self._held if held.collides), "")
            if self.clock() - begun > (COLLIDES_S if collides else PATIENCE_S):
                return collides
            time.sleep(0.05)
        return ""

    def tend(self) -> tuple[str, ...]:
        """Start missing ones that are due; returns at once, with a clause for each that is not established."""
        for held in self._held:
            if held.process is not None and held.process.poll() is not None:
                self._take_note(held)
            if held.process is None and self.clock() >= held.next_at:
                self._start(held)
            if held.process is not None and held.wrong and self._stands(held):
                held.wrong, held.collides, held.failures = "", False, 0
        return self.complaints()

    def complaints(self) -> tuple[str, ...]:
        """A clause for each that is not established now."""
        return tuple(held.wrong for held in self._held if held.wrong)

    def end(self) -> None:
        """End them; the ports are free on return."""
        for held in self._held:
            if held.process is not None:
                held.process.terminate()
                try:
                    held.process.wait(5.0)
                except subprocess.TimeoutExpired:
                    held.process.kill()
                    held.process.wait()
                self._let_go(held)
            held.wrong = "it is not held any more"

    def _let_go(self, held: _Held) -> None:
        """Close the files of its ended ssh."""
        assert held.process is not None and held.process.stdin is not None and held.output is not None
        held.process.stdin.close()
        held.output.close()
        held.process = held.output = None

    def _stands(self, held: _Held) -> bool:
        """Whether the program at the other end has started."""
        return STANDS in self._output(held)

    def _output(self, held: _Held) -> str:
        assert held.output is not None
        held.output.seek(0)
        return held.output.read().decode("utf-8", "replace")

    def _start(self, held: _Held) -> None:
        if wrong := taken_port(held.forward):
            self._fail(held, wrong, collides=True)
            return
        held.output = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as its process
        held.process = subprocess.Popen(
            self.words().forwarding(*held.forward.words),
            stdin=subprocess.PIPE,
            stdout=held.output,
            stderr=held.output,
            env=dict(self.environ),
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )

    def _take_note(self, held: _Held) -> None:
        """Record why its ssh ended, and schedule the next try."""
        assert held.process is not None
        said, code = self._output(held), held.process.returncode
        self._let_go(held)
        if "remote port forwarding failed" in said:
            self._fail(held, f"forward {held.forward.text}: the port is taken on {self.words().host}", collides=True)
        elif "Address already in use" in said:
            self._fail(held, f"forward {held.forward.text}: the port is taken here", collides=True)
        else:
            self._fail(held, f"forward {held.forward.text}: {meaning(self.words(), code, said, '').reason}")

    def _fail(self, held: _Held, wrong: str, *, collides: bool = False) -> None:
        held.wrong, held.collides = wrong, collides
        held.next_at = self.clock() + PAUSES_S[min(held.failures, len(PAUSES_S) - 1)]
        held.failures += 1


def _die_with_parent() -> None:
    process_control(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
