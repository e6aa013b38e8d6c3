"""Files and programs of an ssh host: each call is one `ssh HOST python`, by the user's own configuration.

That configuration defines hosts, jumps, keys, agents, second factors and shared connections. Where it shares none, the
calls share one of ours (ControlMaster), which ends a minute after the last of them. ssh never prompts (BatchMode), and
gives up in bounded time. The program that answers (`runner/remote_agent.py`) is sent along, so the host needs nothing
but Python 3.9.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shlex
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

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
    "keepalive": "seconds between signs of life; without three of them the connection is given up; default 5",
    "setup": "shell words that are run first there, such as `. /etc/profile`",
}
PERSIST_S = 60  # a shared connection of ours stays so long without a call
LONGEST_SOCKET = 80  # of the 108 bytes that a socket's path may have, without what ssh adds while it makes it
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

    def sharing(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The options that share one connection among calls; none where the user's configuration does, or cannot."""
        try:
            path = f"{_socket_folder(environ)}/%C"
        except OSError:  # XDG_RUNTIME_DIR of a login that is over, or of somebody else
            return ()
        if len(path) + 40 - len("%C") > LONGEST_SOCKET:
            return ()
        asked = subprocess.run(
            ["ssh", "-G", *self.options, "--", self.host], env=dict(environ), capture_output=True, text=True
        )
        if asked.returncode or re.search(r"(?m)^controlpath (?!none)", asked.stdout):
            return ()
        return ("-oControlMaster=auto", f"-oControlPersist={PERSIST_S}", f"-oControlPath={path}")


def _socket_folder(environ: Mapping[str, str]) -> str:
    """The folder of the sockets of shared connections, readable by their user alone."""
    folder = Path(environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"autoresearch-ssh-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise EnvironmentUnusable(f"{folder} is somebody else's", code="ssh_socket", hint="set XDG_RUNTIME_DIR")
    return str(folder)


@lru_cache(maxsize=1)
def _program() -> bytes:
    """The program that answers one request, as one line."""
    return base64.b64encode(zlib.compress(program("agent.answer(sys.stdin.buffer, sys.stdout.buffer)"))) + b"\n"


class SshReach(AgentReach):
    """The reach of a host.

    `runs_here`: Runners are started on that very host, so that a free lock proves its Runner dead; otherwise (a login
    node of a cluster) it proves nothing.
    """

    def __init__(self, target: Target, environ: Mapping[str, str], *, runs_here: bool = False) -> None:
        self.target = target
        self.environ = environ
        self.runs_here = runs_here
        self.words = SshWords.of(target)
        self.where = f"{self.words.host}: "
        self.shared = bool(truth(target.text("shared")))
        self._identity: Mapping[str, Any] = {}  # of the host that answered last
        self._offset_s = 0.0  # its clock minus the local one, by the quickest answer
        self._best_trip_s = float("inf")

    def alive(self, seen: Mapping[str, Any]) -> bool | None:
        """A free lock proves something only on the Runner's own host."""
        runner = seen.get("runner") or {}
        proves = self.runs_here and (not runner or self.is_host_of(runner))
        return seen.get("alive") if proves else super().alive(seen)

    def clock_offset(self) -> float:
        """See `Reach`."""
        return self._offset_s

    def is_host_of(self, identity: Mapping[str, Any]) -> bool:
        """Whether a process with this `host` and `boot_id` runs, or ran, on the host that answers now.

        One name may stand for several login nodes; a restarted host keeps its name.
        """
        known = self.identity
        return any(identity.get(name) == known[name] for name in ("host", "boot_id"))

    @property
    def identity(self) -> Mapping[str, Any]:
        """`host` and `boot_id` of the host, see `remote_agent.identity`; asks for them if nothing was asked before."""
        if not self._identity:
            self.call("look", wants=[])
        return self._identity

    @cached_property
    def _sharing(self) -> tuple[str, ...]:
        return self.words.sharing(self.environ)

    def _command(self) -> list[str]:
        python = self.target.text("python", "python3")
        home, rest = ("~/", python[2:]) if python.startswith("~/") else ("", python)  # every remote shell expands that
        remote = command_line(home + shlex.quote(rest), self.target.text("setup"))
        return self._ssh(remote)

    def command(self, argv: Sequence[str]) -> list[str]:
        """See `Reach`. What `setup` prints is no part of the program's output."""
        setup = self.target.text("setup")
        return self._ssh((f"{{ {setup}\n}} >&2\n" if setup else "") + f"exec {shlex.join(argv)}")

    def _ssh(self, remote: str) -> list[str]:
        """The call; without a shared connection once the folder of its socket is gone, as at the end of a login."""
        first, *others = self.words.command(remote)
        sharing = self._sharing
        lives = bool(sharing) and Path(sharing[-1].partition("=")[2]).parent.is_dir()
        return [first, *(sharing if lives else ()), *others]

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """See `AgentReach`. A call that meets a connection which just died is repeated once, unless it is a `run`."""
        try:
            return self._ask(op, arguments, within_s)
        except Unreachable as silent:
            if op == "run" or silent.code != "connection_lost":
                raise
        return self._ask(op, arguments, within_s)

    def _ask(self, op: str, arguments: Mapping[str, Any], within_s: float) -> Any:
        begun, wall = time.monotonic(), time.time()
        answer = self._exchange({"op": op, "with": arguments}, within_s + self.words.connect_s)
        if (trip_s := time.monotonic() - begun) <= self._best_trip_s:
            self._best_trip_s, self._offset_s = trip_s, float(answer["wall"]) - (wall + trip_s / 2)
        self._identity = answer["identity"]
        return said_by(answer, self.words.host)

    def _exchange(self, request: Mapping[str, Any], within_s: float) -> dict[str, Any]:
        """One request and its answer, which begins with a token: what else the login prints is not taken for it."""
        token = secrets.token_hex(8)
        line = json.dumps({**remote_agent.pack(dict(request)), "token": token}).encode()
        host = self.words.host
        try:
            done = subprocess.run(
                self._command(),
                input=_program() + line + b"\n",
                capture_output=True,
                env=dict(self.environ),
                timeout=within_s,
                start_new_session=True,  # Ctrl-C must not reach it
            )
        except subprocess.TimeoutExpired as late:
            said = (late.stderr or b"").decode("utf-8", "replace")
            silent = meaning(self.words, None, said, "")
            if silent.code != "no_answer":
                raise silent from late
            raise Unreachable(f"{host}: it does not answer in time", code="timeout") from late
        except FileNotFoundError as error:
            message = f"ssh is not on PATH; {self.target.name} is reached by it"
            hint = "install OpenSSH's client (Debian: openssh-client)"
            raise EnvironmentUnusable(message, code="no_ssh", hint=hint) from error
        answer = done.stdout.rpartition(token.encode())[2]
        if token.encode() not in done.stdout or not answer.endswith(b"\n"):
            said, printed = (text.decode("utf-8", "replace") for text in (done.stderr, done.stdout))
            raise meaning(self.words, done.returncode, said, printed)
        try:
            return dict(remote_agent.unpack(json.loads(answer)))
        except ValueError as error:
            raise Unreachable(f"{host}: a broken answer: {error}", code="noise") from error


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
