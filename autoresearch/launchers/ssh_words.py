"""ssh command lines, and the meaning of ssh's error messages.

Always the system's ssh with the user's own configuration, which defines hosts, jumps, keys, agents and second factors.
It never prompts (BatchMode), and gives up in bounded time.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.targets import Target

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
STANDS = "ajet-stands"
ANSWER_S = 30.0  # for `ssh -G`


@dataclass(frozen=True, slots=True)
class SshWords:
    """Command lines for one host. `socket`: of the shared connection; "" if the user's ssh shares connections
    itself.
    """

    host: str
    options: tuple[str, ...]
    socket: str = ""
    connect_s: float = 10.0

    def master(self, command: str) -> list[str]:
        """Run a remote shell command over a connection that others may share."""
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=no", "-S", self.socket] if self.socket else []
        return ["ssh", *self.options, *shared, *_ALONE, "-T", "--", self.host, command]

    def sharing(self) -> list[str]:
        """`ssh` and its options for another program (rsync -e), over the shared connection if there is one."""
        shared = ["-o", "ControlMaster=no", "-S", self.socket] if self.socket else []
        return ["ssh", *self.options, *shared, *_ALONE]

    def forwarding(self, *forwards: str) -> list[str]:
        """Hold port forwards as long as stdin is open, over a separate connection that fails if any of them does.

        The remote command starts once the host has accepted all of them, and prints STANDS.
        """
        own = ["-o", "ControlMaster=no", "-S", "none", "-o", "ExitOnForwardFailure=yes", "-o", "RemoteCommand=none"]
        return ["ssh", *self.options, *own, "-T", *forwards, "--", self.host, f"echo {STANDS}; exec cat"]


# Options that a user's configuration may set, and that must not apply to each of our connections.
_ALONE = ("-o", "ClearAllForwardings=yes", "-o", "ForwardX11=no", "-o", "RemoteCommand=none")


def words_of(target: Target, environ: Mapping[str, str]) -> SshWords:
    """The command lines for a target. Asks the local ssh whether the user's configuration shares connections.

    Raises ValueError for invalid options, OSError without ssh, Unreachable.
    """
    connect_s, keepalive_s = _seconds(target, "connect_timeout", 10.0), _seconds(target, "keepalive", 5.0)
    more = target.options.get("ssh_options") or []
    if isinstance(more, str):
        more = [more]
    options = ["-o", "BatchMode=yes", *(word for option in more for word in ("-o", str(option)))]
    for option, flag in (("config", "-F"), ("port", "-p"), ("user", "-l"), ("identity", "-i"), ("jump", "-J")):
        if value := target.text(option):
            options += [flag, str(Path(value).expanduser()) if option in ("config", "identity") else value]
    options += ["-o", f"ConnectTimeout={max(1, round(connect_s))}"]
    options += ["-o", f"ServerAliveInterval={max(1, round(keepalive_s))}", "-o", "ServerAliveCountMax=3"]
    options += ["-o", "LogLevel=INFO", "-o", "PermitLocalCommand=no"]
    host = target.text("host", target.name)
    if host.startswith("-"):
        raise ValueError(f"{host!r} is no host")
    alone = SshWords(host, tuple(options), "", connect_s)
    socket = "" if _is_shared_by_user(alone, environ) else _socket(environ)
    return SshWords(host, tuple(options), socket, connect_s)


def _seconds(target: Target, option: str, default: float) -> float:
    try:
        value = float(target.text(option, str(default)))
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise ValueError(f"{option}: {target.text(option)!r} is no number of seconds")
    return value


def _is_shared_by_user(ssh_words: SshWords, environ: Mapping[str, str]) -> bool:
    """Whether the user's configuration has a ControlPath for this host.

    If a person has logged in already (a password, a second factor), their connection is used.
    """
    try:
        asked = subprocess.run(
            ["ssh", *ssh_words.options, "-G", "--", ssh_words.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
            env=dict(environ),
        )
    except subprocess.TimeoutExpired as error:  # the configuration may run programs (Match exec)
        raise Unreachable(
            f"{ssh_words.host}: ssh does not get through its own configuration", code="timeout"
        ) from error
    if asked.returncode != 0:
        lines = asked.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(f"ssh: {lines[0] if lines else 'its options are not understood'}")
    found = re.search(rb"^controlpath (.+)$", asked.stdout, re.MULTILINE)
    return found is not None and found[1] != b"none"


def _socket(environ: Mapping[str, str]) -> str:
    """A socket path in a short private folder (a socket's path has at most 107 bytes, and ssh adds 17)."""
    folder = Path(environ.get("XDG_RUNTIME_DIR") or "/nowhere")
    if len(str(folder)) > 50 or not os.access(folder, os.W_OK):
        folder = Path("/tmp")
    folder /= f"autoresearch-ssh-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    there = folder.lstat()
    if there.st_uid != os.getuid() or there.st_mode & 0o077 or not folder.is_dir():
        return ""  # another user made it: do not share
    return str(folder / secrets.token_hex(4))


# Messages of ssh (OpenSSH 8 to 9) and of shells -> a stable code, a sentence without the host, a hint.
_MEANINGS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "host_key_changed",
        "its host key is not the one that is known: another machine, or a new installation",
        "if that is right: {forget}",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "host_key_unknown",
        "its host key is not known here",
        "log in once by hand: ssh {host}",
    ),
    (
        r"Permission denied \([^)]*(?:password|keyboard-interactive)",
        "asks_password",
        "it takes no key of ours and would ask for a password",
        "install a key (ssh-copy-id {host}), start an agent, or hold a login open with ControlMaster in ~/.ssh/config",
    ),
    (
        r"Permission denied|Too many authentication failures|no such identity",
        "permission_denied",
        "it does not let us in",
        "see `ssh -v {host}`",
    ),
    (r"Could not resolve hostname", "host_unknown", "its name cannot be resolved", "check `host:` and ~/.ssh/config"),
    (r"Connection refused", "refused", "nobody listens there", "check `port:`, and whether its sshd runs"),
    (r"No route to host|Network is unreachable", "no_route", "there is no way to it", "check the network, or the VPN"),
    (r"not responding", "connection_lost", "the connection was lost: it gave no sign of life", ""),
    (r"[Tt]imed out", "timeout", "it does not answer", "check the network, and whether the host is up"),
    (
        r"Broken pipe|closed by remote host|Connection reset|Connection closed|Connection to \S+ closed",
        "connection_lost",
        "the connection was cut",
        "",
    ),
    (
        r"ajet: python \d",  # a shell that echoes its commands (set -x, fish) prints this text too
        "old_python",
        "its python3 is older than 3.9",
        "name a newer one: `python: /path/to/python3`",
    ),
    (
        r"python\S*: (?:[Cc]ommand )?not found|not found: \S*python|Unknown command: \S*python|"
        r"No such file or directory.*python|python\S*: No such file",
        "no_python",
        "it has no python3 on the PATH of a plain login",
        "install Python 3.9 or newer there, or name it: `python: /path/to/python3`",
    ),
)


def _forget(host: str, complaints: str) -> str:
    """The command that removes a host key: ssh's message names the file, host name and port (sshconnect.c)."""
    file = re.search(r"Offending .*key in (.+):\d+", complaints)
    name = re.search(r"Host key for (\S+) has changed", complaints)
    return shlex.join(["ssh-keygen", *(("-f", file[1]) if file else ()), "-R", name[1] if name else host])


def meaning(ssh_words: SshWords, returncode: int | None, complaints: str, noise: str) -> Unreachable:
    """Why a host does not answer, from the output of ssh and the remote shell. Exit code 255 alone is ambiguous."""
    for pattern, code, sentence, hint in _MEANINGS:
        if re.search(pattern, complaints):
            told = hint.format(host=ssh_words.host, forget=_forget(ssh_words.host, complaints))
            return Unreachable(f"{ssh_words.host}: {sentence}", code=code, hint=told)
    last = _last_line(complaints)
    if noise.strip():
        what = f"its shell answers, but not our program: {_last_line(noise) or _last_line(complaints)}"
        return Unreachable(
            f"{ssh_words.host}: {what}", code="noise", hint=f"see what `ssh {ssh_words.host} true` prints"
        )
    ended = "" if returncode is None else f"ssh ended with {returncode}"
    return Unreachable(f"{ssh_words.host}: {last or ended or 'no answer'}", code="no_answer")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
