"""Files and programs of an ssh host: one ssh process with the remote file agent at its other end, kept and restored.

Always the system's ssh with the user's own configuration, which defines hosts, jumps, keys, agents, second factors and
shared connections. It never prompts (BatchMode), and gives up in bounded time. The agent's program
(`runner/remote_agent.py`) is sent first, so the host needs nothing but Python 3.9; then it is one line per request.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import selectors
import shlex
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.targets import Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.launchers.shared import ANSWER_S, AgentReach, program, said_by
from autoresearch.runner import remote_agent

CONNECTION = {
    "host": "the host, as ssh knows it (an alias of ~/.ssh/config will do); default: the target's name",
    "user": "the login there",
    "port": "the port of its sshd",
    "identity": "the file of the key",
    "config": "an ssh configuration file instead of the user's (ssh -F)",
    "jump": "hosts to go through (ssh -J)",
    "ssh_options": "more options, each as ssh -o takes it, such as StrictHostKeyChecking=accept-new",
    "connect_timeout": "seconds until a host that does not answer counts as unreachable; default 10",
    "keepalive": "seconds between signs of life; without three of them the connection is made again; default 5",
    "setup": "shell words that are run first there, such as `. /etc/profile`",
}
FLOWS_S = 10.0  # an answer that is on its way may take longer, as long as some of it comes this often
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # after so many failures in a row; the last one repeats
MOST_NOISE = 4096
# Every shell accepts it: no `$`, `!`, backslash or quote within the single quotes.
FIRST = (
    'import sys; sys.version_info < (3, 9) and sys.exit("ajet: python " + sys.version.split()[0]); '
    "import base64, zlib; exec(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())).decode())"
)


def command_line(python: str, setup: str) -> str:
    """The command for the remote login shell."""
    words = f"exec {python} -E -s -c '{FIRST}'"
    return f"{setup}\n{words}" if setup else words


@dataclass(frozen=True, slots=True)
class SshWords:
    """Command lines for one host."""

    host: str
    options: tuple[str, ...]
    connect_s: float = 10.0

    @classmethod
    def of(cls, target: Target) -> SshWords:
        """The command lines for a target; `launchers.registry` has checked its options."""
        connect_s, keepalive_s = float(target.text("connect_timeout", "10")), float(target.text("keepalive", "5"))
        more = target.options.get("ssh_options") or []
        options = [f"-o{option}" for option in ([more] if isinstance(more, str) else more)]
        for option, flag in (("config", "-F"), ("port", "-p"), ("user", "-l"), ("identity", "-i"), ("jump", "-J")):
            if value := target.text(option):
                options += [flag, str(Path(value).expanduser()) if option in ("config", "identity") else value]
        given = {"ConnectTimeout": round(connect_s), "ServerAliveInterval": round(keepalive_s)}
        options += [f"-o{name}={max(1, value)}" for name, value in given.items()]
        options += ["-oServerAliveCountMax=3", "-oLogLevel=INFO", "-oPermitLocalCommand=no", "-oRemoteCommand=none"]
        return cls(target.text("host", target.name), ("-oBatchMode=yes", *options), connect_s)

    def command(self, remote: str) -> list[str]:
        """Run a remote shell command. Forwards of the user's configuration are not for each of our connections."""
        return ["ssh", *self.options, "-oClearAllForwardings=yes", "-oForwardX11=no", "-T", "--", self.host, remote]


class SshReach(AgentReach):
    """The reach of a host.

    `runs_here`: Runners are started on that very host, so that a free lock proves its Runner dead; otherwise (a login
    node of a cluster) it proves nothing.
    """

    def __init__(
        self,
        target: Target,
        environ: Mapping[str, str],
        *,
        runs_here: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self.environ = environ
        self.runs_here = runs_here
        self.clock = clock
        self.words = SshWords.of(target)
        self.where = f"{self.words.host}: "
        self.shared = bool(truth(target.text("shared")))
        self._channel: Channel | None = None
        self._failures = 0
        self._not_before = 0.0  # by the clock: no connection is tried until then
        self._why = Unreachable("nobody was asked yet")
        self._offset_s = 0.0

    def alive(self, seen: Mapping[str, Any]) -> bool | None:
        """A free lock proves something only on the Runner's own host."""
        runner = seen.get("runner") or {}
        proves = self.runs_here and (not runner or self.is_host_of(runner))
        return seen.get("alive") if proves else super().alive(seen)

    def clock_offset(self) -> float:
        """See `Reach`."""
        return self._offset_s

    def close(self) -> None:
        """See `Reach`."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def is_host_of(self, identity: Mapping[str, Any]) -> bool:
        """Whether a process with this `host` and `boot_id` runs, or ran, on the host that answers now.

        One name may stand for several login nodes; a restarted host keeps its name.
        """
        known = self.hello
        return any(identity.get(name) == known[name] for name in ("host", "boot_id"))

    @property
    def hello(self) -> Mapping[str, Any]:
        """The remote host's identity, see `remote_agent.hello`. Connects if needed."""
        return self._connected().hello

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """See `AgentReach`. If the connection turns out to be dead, it is made again at once and the call is repeated.

        `run` alone may not be repeated.
        """
        fresh = self._channel is None
        try:
            return self._ask(op, arguments, within_s)
        except Unreachable as silent:
            if fresh or op == "run" or silent.code == "timeout":
                raise
        return self._ask(op, arguments, within_s)

    def _ask(self, op: str, arguments: Mapping[str, Any], within_s: float) -> Any:
        channel = self._connected()
        try:
            said = channel.ask(op, arguments, within_s)
        except OSError:
            raise
        except Unreachable as silent:
            self._lose(silent)
            raise
        except BaseException:  # a late answer would be taken for the next call's
            self.close()
            raise
        self._offset_s = channel.offset_s
        return said

    def _connected(self) -> Channel:
        if self._channel is not None:
            return self._channel
        if self.clock() < self._not_before:
            raise self._why
        python = self.target.text("python", "python3")
        home, rest = ("~/", python[2:]) if python.startswith("~/") else ("", python)  # every remote shell expands that
        command = command_line(home + shlex.quote(rest), self.target.text("setup"))
        try:
            self._channel = Channel(self.words, command, self.environ)
        except Unreachable as silent:
            self._lose(silent)
            raise
        except FileNotFoundError as error:
            message = f"ssh is not on PATH; {self.target.name} is reached by it"
            hint = "install OpenSSH's client (Debian: openssh-client)"
            raise EnvironmentUnusable(message, code="no_ssh", hint=hint) from error
        self._failures = 0
        return self._channel

    def _lose(self, silent: Unreachable) -> None:
        """Drop the connection and set the time of the next try; the first one is immediate."""
        self.close()
        self._why = silent
        self._not_before = self.clock() + PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1


class Channel:
    """One open connection. Not thread-safe; a call that misses its deadline or fails half-way makes it unusable."""

    def __init__(self, ssh_words: SshWords, command: str, environ: Mapping[str, str]) -> None:
        """Connect. Raises Unreachable, FileNotFoundError without ssh."""
        self.words = ssh_words
        self.token = secrets.token_hex(8)
        self.noise = b""  # what came that is no answer
        self.rest = b""  # the beginning of a line
        self.last_id = 0
        self.hello: Mapping[str, Any] = {}
        self.offset_s = 0.0  # the remote clock minus the local one, by the quickest answer
        self.best_trip_s = float("inf")
        self.complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the connection
        try:
            self.process = subprocess.Popen(
                ssh_words.command(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C must not reach it
                bufsize=0,
            )
        except OSError:
            self.complaints.close()
            raise
        assert self.process.stdin is not None and self.process.stdout is not None
        self.out, self.into = self.process.stdin, self.process.stdout
        for pipe in (self.out, self.into):
            os.set_blocking(pipe.fileno(), False)
        text = program("agent.serve(TOKEN, sys.stdin.buffer, sys.stdout.buffer)", TOKEN=self.token)
        try:
            first = base64.b64encode(zlib.compress(text)) + b"\n"
            self.hello = self._exchange(first, 0, ssh_words.connect_s + ANSWER_S)["said"]
        except Unreachable:
            self.close()
            raise

    def ask(self, operation: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One call. Raises Unreachable, or OSError of the remote host, as is its path."""
        self.last_id += 1
        request = {"id": self.last_id, "op": operation, "with": remote_agent.pack(dict(arguments))}
        begun, wall = time.monotonic(), time.time()
        answer = self._exchange(json.dumps(request).encode() + b"\n", self.last_id, timeout_s)
        if (trip_s := time.monotonic() - begun) <= self.best_trip_s:
            self.best_trip_s, self.offset_s = trip_s, float(answer["wall"]) - (wall + trip_s / 2)
        return said_by(answer, self.words.host)

    def _exchange(self, data: bytes, number: int, timeout_s: float) -> dict[str, Any]:
        """Send, and read until the answer of this number is complete."""
        view, deadline = memoryview(data), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.into, selectors.EVENT_READ)
            selector.register(self.out, selectors.EVENT_WRITE)
            while ready := selector.select(max(0.0, deadline - time.monotonic())):
                for key, _ in ready:
                    if key.fileobj is self.out:
                        view = view[self._send(view) :]
                        if not view:
                            selector.unregister(self.out)
                    elif answer := self._receive(number):
                        return answer
                if self.out in [key.fileobj for key, _ in ready] or self.rest.startswith(self.token.encode()):
                    deadline = max(deadline, time.monotonic() + FLOWS_S)
        silent = self._meaning(None)
        if silent.code == "no_answer":
            raise Unreachable(f"{self.words.host}: it does not answer in time", code="timeout")
        raise silent

    def _send(self, view: memoryview) -> int:
        try:
            return os.write(self.out.fileno(), view[: 1 << 16])
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # the other pipe says why it ended
            return len(view)

    def _receive(self, number: int) -> dict[str, Any] | None:
        """Read what there is; the answer of this number, if it is complete. Other lines are noise."""
        try:
            piece = os.read(self.into.fileno(), 1 << 20)
        except BlockingIOError:
            return None
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            self.noise += self.rest
            raise self._meaning(self.process.poll())
        mark, found = self.token.encode() + b" ", None
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            if not line.startswith(mark):
                self.noise = (self.noise + line + b"\n")[-MOST_NOISE:]
                continue
            try:
                answer = json.loads(line[len(mark) :])
            except ValueError as error:
                raise Unreachable(f"{self.words.host}: a broken answer: {error}", code="noise") from error
            if answer["id"] == number:
                found = remote_agent.unpack(answer)
        if len(self.rest) > MOST_NOISE and not self.rest.startswith(mark):
            self.noise, self.rest = self.rest[-MOST_NOISE:], self.rest[-len(mark) :]
        return found

    def _meaning(self, returncode: int | None) -> Unreachable:
        self.complaints.seek(0)
        said = self.complaints.read().decode("utf-8", "replace")
        return meaning(self.words, returncode, said, self.noise.decode("utf-8", "replace"))

    def close(self) -> None:
        """End the connection; processes started through it go on."""
        for pipe in (self.out, self.into):
            pipe.close()
        try:  # the agent exits when its stdin ends, and ssh with it
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


# Messages of ssh (OpenSSH 8 to 9) and of shells -> a stable code, a sentence without the host, a hint.
_MEANINGS: tuple[tuple[str, str, str, str], ...] = (
    (
        *(r"REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key_changed"),
        "its host key is not the one that is known: another machine, or a new installation",
        "if that is right: {forget}",
    ),
    (
        *(r"Host key verification failed|No \S+ host key is known", "host_key_unknown"),
        *("its host key is not known here", "log in once by hand: ssh {host}"),
    ),
    (
        *(r"Permission denied \([^)]*(?:password|keyboard-interactive)", "asks_password"),
        "it takes no key of ours and would ask for a password",
        "install a key (ssh-copy-id {host}), start an agent, or hold a login open with ControlMaster in ~/.ssh/config",
    ),
    (
        *(r"Permission denied|Too many authentication failures|no such identity", "permission_denied"),
        *("it does not let us in", "see `ssh -v {host}`"),
    ),
    (r"Could not resolve hostname", "host_unknown", "its name cannot be resolved", "check `host:` and ~/.ssh/config"),
    (r"Connection refused", "refused", "nobody listens there", "check `port:`, and whether its sshd runs"),
    (r"No route to host|Network is unreachable", "no_route", "there is no way to it", "check the network, or the VPN"),
    (r"not responding", "connection_lost", "the connection was lost: it gave no sign of life", ""),
    (r"[Tt]imed out", "timeout", "it does not answer", "check the network, and whether the host is up"),
    (
        r"Broken pipe|closed by remote host|Connection reset|Connection closed|Connection to \S+ closed",
        *("connection_lost", "the connection was cut", ""),
    ),
    (
        r"Bad configuration option|terminating, \d+ bad configuration|Can't open user config file|usage: ssh",
        *("ssh_options", "ssh does not take its options, or its configuration", "see `ssh -G {host}`"),
    ),
    (  # a shell that echoes its commands (set -x, fish) prints this text too
        *(r"ajet: python \d", "old_python"),
        *("its python3 is older than 3.9", "name a newer one: `python: /path/to/python3`"),
    ),
    (
        r"python\S*: (?:[Cc]ommand )?not found|not found: \S*python|Unknown command: \S*python"
        r"|No such file or directory.*python|python\S*: No such file",
        *("no_python", "it has no python3 on the PATH of a plain login"),
        "install Python 3.9 or newer there, or name it: `python: /path/to/python3`",
    ),
)


def meaning(ssh_words: SshWords, returncode: int | None, complaints: str, noise: str) -> Unreachable:
    """Why a host does not answer, from the output of ssh and the remote shell. Exit code 255 alone is ambiguous."""
    host = ssh_words.host
    for pattern, code, sentence, hint in _MEANINGS:
        if re.search(pattern, complaints):
            told = hint.format(host=host, forget=_forget(host, complaints))
            return Unreachable(f"{host}: {sentence}", code=code, hint=told)
    last = _last_line(complaints)
    if noise.strip():
        what = f"its shell answers, but not our program: {_last_line(noise) or last}"
        return Unreachable(f"{host}: {what}", code="noise", hint=f"see what `ssh {host} true` prints")
    ended = "" if returncode is None else f"ssh ended with {returncode}"
    return Unreachable(f"{host}: {last or ended or 'no answer'}")


def _forget(host: str, complaints: str) -> str:
    """The command that removes a host key: ssh's message names the file, host name and port (sshconnect.c)."""
    file = re.search(r"Offending .*key in (.+):\d+", complaints)
    name = re.search(r"Host key for (\S+) has changed", complaints)
    return shlex.join(["ssh-keygen", *(("-f", file[1]) if file else ()), "-R", name[1] if name else host])


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
