"""ssh: a Runner on another host, detached, so that the connection may be lost at any time.

A trainer started through a connection would die with it. Here the connection only starts the Runner, which has its own
session and files, and reads those files. A cut link, a killed ssh or a closed lid cost a run nothing; what was started
is found again by its remote directory.

Each call is one `ssh HOST python`, by the user's own configuration, which defines hosts, jumps, keys, agents, second
factors and shared connections. Where it shares none, the calls share one of ours (ControlMaster), which ends a minute
after the last of them. ssh never prompts (BatchMode), and gives up in bounded time. The program that answers
(`runner/remote_agent.py`) is sent along, so the host needs nothing but Python 3.9.
"""

from __future__ import annotations

import base64
import errno
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
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.keys import truth
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation, Unreachable, Want
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.launchers.shared import ANSWER_S, AgentReach, program, said_by
from autoresearch.runner import remote_agent
from autoresearch.runner.gpu_lease import QUESTION, parse

CONNECTION = {
    "host": "the host, as ssh knows it (an alias of ~/.ssh/config will do); default: the target's name",
    "config": "an ssh configuration file instead of the user's (ssh -F)",
    "ssh_options": "more options, each as ssh -o takes it, such as [Port=2222, ProxyJump=gate, ConnectTimeout=30]",
    "setup": "shell words that are run first there, such as `. /etc/profile`",
}
OPTIONS = {
    **CONNECTION,
    "shared": "true: the host sees this machine's files under the same paths; nothing is copied",
    "gpus": "GPUs of the host that runs may be leased: all, none, N, 0,1 or UUIDs; default none",
}
SPAWN_S = 30.0  # a loaded host takes long to import
PROGRAMS = ("bash", "git", "tmux", "nvidia-smi")


class SshLauncher:
    """`core.run.job_launcher.JobLauncher` for one host."""

    kind = Kind.SSH
    OPTIONS = OPTIONS

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self.target = target
        self.reach = SshReach(target, environ)

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`. A second submit finds the Runner of the first."""
        try:
            found = self.reach.call(
                "spawn",
                directory=job.directory,
                argv=list(job.argv),
                environment=dict(job.environment),
                wait_s=SPAWN_S,
                within_s=2 * SPAWN_S + 30.0,
            )
        except OSError as error:
            raise _declined(error, job) from error
        if "failed" in found:
            last = (found["said"].strip().splitlines() or [f"exit code {found['failed']}"])[-1]
            raise Declined(f"{self.reach.host}: the Runner did not start: {last}", code="runner_failed")
        return _handle(job, found)

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: whether the Runner lives, without another question where it was just looked at."""
        if new := [one for one in handles if one.run not in self.reach.seen]:
            self.reach.look([Want(one.run, one.more["directory"]) for one in new])
        return {one.run: self._observation(one.run, self.reach.seen.pop(one.run)) for one in handles}

    def _observation(self, run: str, seen: Mapping[str, Any]) -> Observation:
        runner, here = seen.get("runner") or {}, self.reach.identity
        node = str(runner.get("host") or "")
        if runner.get("run", run) != run or not (seen.get("claimed") or seen.get("alive")):
            return Observation(JobState.UNKNOWN)
        if seen["alive"]:
            return Observation(JobState.RUNNING, "running", node=node)
        cause, reason = "runner_died", "its Runner died without an exit record"
        if runner and runner.get("boot_id") != here["boot_id"]:
            if node != here["host"]:  # one name may stand for several hosts, and a free lock proves nothing there
                reason = f"{self.reach.host} is {here['host']} now, and runs were started on {node}"
                raise Unreachable(reason, code="other_host", hint="name one host, not a name that stands for several")
            cause, reason = "rebooted", f"{node} was started again since"
        return Observation(JobState.OVER, "gone", reason, Ending.LOST, cause, node=node)

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`."""
        self.reach.call("end", run=handle.run, directory=handle.more["directory"], hard=hard)

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`: nothing is kept."""

    def describe(self) -> list[tuple[str, str]]:
        """Rows about the host, for `doctor`."""
        said = self.reach.call("probe", programs=PROGRAMS)
        there = parse(self.reach.run(QUESTION).text)
        names = ", ".join(sorted({one.name for one in there}))
        return [
            ("host", f"{said['host']}, as {said['user'] or said['uid']}"),
            ("python", f"{'.'.join(map(str, said['python']))} ({said['executable']})"),
            ("programs", ", ".join(f"{name}{'' if path else ' missing'}" for name, path in said["programs"].items())),
            ("GPUs", f"{len(there)}: {names}" if there else "none"),
        ]

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`. Connects, which takes a while if the host does not answer."""
        error = Severity.ERROR
        try:
            found = self.reach.call("probe", programs=PROGRAMS)
        except Unreachable as silent:
            return [Finding(error, silent.code, silent.reason, silent.hint)]
        except EnvironmentUnusable as unusable:
            return [Finding(error, unusable.code, unusable.message, unusable.hint)]
        return self._host_findings(found)

    def _host_findings(self, answer: Mapping[str, Any]) -> list[Finding]:
        host, findings = self.reach.host, []
        if not answer["programs"]["bash"]:
            findings.append(Finding(Severity.ERROR, "no_bash", f"{host}: bash, which runs commands, is not on PATH"))
        if not (self.reach.shared or answer["programs"]["git"]):
            fix = "install git there, which takes the code of runs"
            findings.append(Finding(Severity.ERROR, "no_git", f"{host}: git is not on PATH", fix))
        if answer["ends_at_logout"]:
            what = f"{host}: systemd ends what a login leaves running (KillUserProcesses=yes)"
            fix = f"loginctl enable-linger {answer['user']}"
            findings.append(Finding(Severity.ERROR, "ends_at_logout", what, f"on that host: {fix}"))
        return findings


def _handle(job: Job, answer: Mapping[str, Any]) -> Handle:
    return Handle(job.run, str(answer["pid"] or "unknown"), {"directory": job.directory})


def _declined(error: OSError, job: Job) -> Declined:
    """The Declined for an error that every start of this Runner on the host would meet."""
    if error.errno == errno.ENOENT:
        return Declined(f"{job.argv[0]} is not there: {error.filename}: {error.strerror}", code="no_interpreter")
    code = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full"}.get(error.errno or 0, "unwritable")
    return Declined(f"{error.filename}: {error.strerror}", code=code)


# -- the connection -----------------------------------------------------------------------------------------------

_CUT = r"Broken pipe|not responding|closed by remote host|Connection reset|Connection closed|Connection to \S+ closed"
CONNECT_S = 10.0  # a host that does not answer within this is unreachable
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


def _options(target: Target) -> tuple[str, ...]:
    """What a target says, as options of ssh, of which the first one counts; then ours."""
    more = target.options.get("ssh_options") or []
    options = [f"-o{option}" for option in ([more] if isinstance(more, str) else more)]
    if config := target.text("config"):
        options += ["-F", str(Path(config).expanduser())]
    options += [f"-oConnectTimeout={CONNECT_S:.0f}", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"]
    options += ["-oLogLevel=INFO", "-oPermitLocalCommand=no", "-oRemoteCommand=none"]
    return ("-oBatchMode=yes", *options)


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
    """The reach of a host; `launchers.registry` has checked the options of its target."""

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self.target = target
        self.environ = environ
        self.host = target.text("host", target.name)
        self.where = f"{self.host}: "
        self.shared = bool(truth(target.text("shared")))
        self.options = _options(target)
        self.seen: dict[str, Mapping[str, Any]] = {}  # the last look at each run, until it is polled
        self.identity: Mapping[str, Any] = {}  # of the host that answered last, see `remote_agent.identity`

    @cached_property
    def _sharing(self) -> tuple[str, ...]:
        """The options that share one connection among calls; none where the user's configuration does, or cannot."""
        try:
            path = f"{_socket_folder(self.environ)}/%C"
        except OSError:  # XDG_RUNTIME_DIR of a login that is over, or of somebody else
            return ()
        if len(path) + 40 - len("%C") > LONGEST_SOCKET:
            return ()
        words = ["ssh", "-G", *self.options, "--", self.host]
        asked = subprocess.run(words, env=dict(self.environ), capture_output=True, text=True)
        if asked.returncode or re.search(r"(?m)^controlpath (?!none)", asked.stdout):
            return ()
        return ("-oControlMaster=auto", f"-oControlPersist={PERSIST_S}", f"-oControlPath={path}")

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
        """Run a remote shell command. Forwards of the user's configuration are not for each of our connections.

        Without a shared connection once the folder of its socket is gone, as at the end of a login.
        """
        lives = bool(self._sharing) and Path(self._sharing[-1].partition("=")[2]).parent.is_dir()
        options = (*(self._sharing if lives else ()), *self.options, "-oClearAllForwardings=yes", "-oForwardX11=no")
        return ["ssh", *options, "-T", "--", self.host, remote]

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """See `AgentReach`. A call that meets a connection which just died is repeated once, unless it is a `run`."""
        try:
            return self._ask(op, arguments, within_s)
        except Unreachable as silent:
            if op == "run" or not re.search(_CUT, silent.reason):
                raise
        return self._ask(op, arguments, within_s)

    def _ask(self, op: str, arguments: Mapping[str, Any], within_s: float) -> Any:
        begun = time.time()
        answer = self._exchange({"op": op, "with": arguments}, within_s + CONNECT_S)
        self.identity = answer["identity"]
        said = said_by(answer, self.host)
        if op == "look":
            half_s = (time.time() - begun) / 2  # as far as the question took, nothing is known of the other clock
            ahead_s = float(answer["wall"]) - begun - half_s
            ahead_s = ahead_s if abs(ahead_s) > half_s else 0.0
            self.seen |= (said := {run: {**seen, "ahead_s": ahead_s} for run, seen in said.items()})
        return said

    def _exchange(self, request: Mapping[str, Any], within_s: float) -> dict[str, Any]:
        """One request and its answer, which begins with a token: what else the login prints is not taken for it."""
        token = secrets.token_hex(8)
        line = json.dumps({**remote_agent.pack(dict(request)), "token": token}).encode()
        host = self.host
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
            raise meaning(host, None, (late.stderr or b"").decode("utf-8", "replace"), "") from late
        except FileNotFoundError as error:
            message = f"ssh is not on PATH; {self.target.name} is reached by it"
            hint = "install OpenSSH's client (Debian: openssh-client)"
            raise EnvironmentUnusable(message, code="no_ssh", hint=hint) from error
        answer = done.stdout.rpartition(token.encode())[2]
        if token.encode() not in done.stdout or not answer.endswith(b"\n"):
            said, printed = (text.decode("utf-8", "replace") for text in (done.stderr, done.stdout))
            raise meaning(host, done.returncode, said, printed)
        try:
            return dict(remote_agent.unpack(json.loads(answer)))
        except ValueError as error:
            raise Unreachable(f"{host}: a broken answer: {error}", code="noise") from error


# What the shell there says -> a stable code, a sentence without the host, a hint. What ssh says, is shown as it is.
_MEANINGS: tuple[tuple[str, str, str, str], ...] = (
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


def meaning(host: str, returncode: int | None, complaints: str, noise: str) -> Unreachable:
    """Why a host does not answer, from the output of ssh and the remote shell."""
    for pattern, code, sentence, hint in _MEANINGS:
        if re.search(pattern, complaints):
            return Unreachable(f"{host}: {sentence}", code=code, hint=hint)
    last, by_hand = _last_line(complaints), f"`ssh {host} true` has to work without a question: see what it says"
    if noise.strip():
        what = f"its shell answers, but not our program: {_last_line(noise) or last}"
        return Unreachable(f"{host}: {what}", code="noise", hint=by_hand)
    ended = "" if returncode is None else f"ssh ended with {returncode}"
    return Unreachable(f"{host}: {last or ended or 'no answer in time'}", hint=by_hand)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
