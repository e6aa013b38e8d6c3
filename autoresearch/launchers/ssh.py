"""ssh: a Runner on another host, detached, so that the connection may be lost at any time.

A trainer started through a connection would die with it. Here the connection only starts the Runner, which has its own
session and files, and reads those files. A cut link, a killed ssh or a closed lid cost a run nothing; what was started
is found again by its remote directory.
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
from typing import IO, Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError, EnvironmentUnusable, UsageError
from autoresearch.launchers import gpus
from autoresearch.launchers.ssh_connection import CONNECTION, STANDS, SshReach, SshWords, meaning
from autoresearch.runner.libc import process_control

OPTIONS = {
    **CONNECTION,
    "shared": "true: the host sees this machine's files under the same paths; nothing is copied",
    "gpus": "GPUs of the host that runs may get: all, none, N, 0,1 or UUIDs; leased there; default none",
    "forwards": "ports of this machine that lead there while runs live, each as ssh -L takes it: 10086:localhost:10086",
    "remote_forwards": "ports of the host that lead here, each as ssh -R takes it",
}
SPAWN_S = 30.0  # a loaded host takes long to import
CLOCK_S = 5.0  # clocks that differ by more are reported: times are corrected, files keep theirs
FREE_BYTES = 1 << 30
PROGRAMS = ("bash", "git", "tmux", "nvidia-smi")


class SshLauncher:
    """`core.run.job_launcher.JobLauncher` for one host."""

    kind = Kind.SSH

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self.target = target
        self.reach = HeldReach(target, environ)

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`. A second submit finds the Runner of the first."""
        if job.again and (found := self.reach.call("started", directory=job.directory)):
            return _handle(job, found)
        if wrong := self.reach.forwards.stand():
            raise Declined(wrong, code="port_taken", hint="end what has that port, or forward another one")
        chosen = self._choose(job.gpus)
        try:
            found = self.reach.call(
                "spawn",
                directory=job.directory,
                argv=list(job.argv),
                environment=dict(job.environment),
                gpus=list(chosen.uuids),
                shown=chosen.variables if chosen.uuids else {},
                wait_s=SPAWN_S,
                within_s=2 * SPAWN_S + 30.0,
            )
        except OSError as error:
            raise _declined(error, job) from error
        if "failed" in found:
            last = (found["said"].strip().splitlines() or [f"exit code {found['failed']}"])[-1]
            raise Declined(f"{self.reach.words.host}: the Runner did not start: {last}", code="runner_failed")
        return _handle(job, found, chosen.uuids)

    def _choose(self, count: int) -> gpus.GpuChoice:
        """Choose the host's GPUs for a run; their leases on the host decide. Raises Declined.

        If no number is configured: one, or all of them if runs do not share the host.
        """
        wanted = self._wanted_gpus()
        if not count and (wanted in ("", "none", "0") or "gpus_per_run" in self.target.options):
            return gpus.GpuChoice((), ())
        said: Mapping[str, Any] = self.reach.call("gpus", within_s=60.0)
        environ = {} if said["visible"] is None else {"CUDA_VISIBLE_DEVICES": str(said["visible"])}
        listed = gpus.parse(said["smi"])
        there = gpus.visible(listed, environ)
        try:
            if wanted.isdecimal() and 0 < int(wanted) <= len(there):
                there = there[: int(wanted)]
            elif wanted not in ("", "none", "0"):
                offered = gpus.select(wanted, there)
                there = tuple(gpu for gpu in there if gpu.uuid in offered)
            held = {gpu.uuid for gpu in there if _lease_name(gpu.uuid) in said["held"] or not gpu.idle}
            some = 1 if self.target.slots > 1 else len(there)
            return gpus.GpuChoice(gpus.select(str(count or some), there, taken=held), listed)
        except AutoresearchError as error:
            code = "lease_busy" if error.code == "gpus_busy" else "no_gpu"
            reason = f"{self.reach.words.host}: {error.message.replace('this machine', 'the host')}"
            raise Declined(reason, code=code, hint=error.hint) from error

    def _wanted_gpus(self) -> str:
        """The option in the form that `launchers.gpus.select` reads."""
        given = self.target.options.get("gpus")
        if isinstance(given, list):
            return ",".join(str(one) for one in given) + ","
        text = self.target.text("gpus").strip()
        return text.lower() if text.isalpha() else text

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`: only whether the Runner's process lives; its files say the rest."""
        self.reach.forwards.tend()
        if not handles:
            return {}
        names = ("directory", "start_ticks", "boot_id")
        asked = [{"run": h.run, "pid": _pid(h), **{name: h.more.get(name) for name in names}} for h in handles]
        found: Mapping[str, str] = self.reach.call("poll", handles=asked)
        if elsewhere := sorted({str(h.more["host"]) for h in handles if not self.reach.is_host_of(h.more)}):
            reason = (
                f"{self.reach.words.host} is {self.reach.hello['host']} now, and runs were started on {elsewhere[0]}"
            )
            raise Unreachable(reason, code="other_host", hint="name one host, not a name that stands for several")
        return {h.run: self._observation(h, found[h.run]) for h in handles}

    def _observation(self, handle: Handle, state: str) -> Observation:
        node = str(handle.more["host"])
        if state == "unknown":
            return Observation(JobState.UNKNOWN)
        if state == "lives":
            word = f"running; {self.reach.forwards.wrong}" if self.reach.forwards.wrong else "running"
            return Observation(JobState.RUNNING, word, node=node)
        cause, reason = "runner_died", "its Runner died without an exit record"
        if handle.more["boot_id"] != self.reach.hello["boot_id"]:
            cause, reason = "host_restarted", f"{node} was started again since"
        return Observation(JobState.OVER, "gone", reason, cause=cause, node=node)

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`."""
        self.reach.call(
            "end",
            run=handle.run,
            directory=handle.more["directory"],
            pid=_pid(handle),
            start_ticks=handle.more.get("start_ticks"),
            hard=hard,
        )

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`: nothing is kept."""

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`."""
        said = self.reach.call("probe", paths=["~", "/tmp", "/ephemeral"], programs=PROGRAMS)
        there = gpus.parse(self.reach.call("gpus", within_s=60.0)["smi"])
        names = ", ".join(sorted({one.name for one in there}))
        disks = [
            (path, f"{one['free'] / 1e9:.0f} GB of {one['total'] / 1e9:.0f} GB free", one["writable"])
            for path, one in said["paths"].items()
            if one["there"]
        ]
        return [
            ("host", f"{said['host']}, as {said['user'] or said['uid']}"),
            ("python", f"{'.'.join(map(str, said['python']))} ({said['executable']})"),
            ("programs", ", ".join(f"{name}{'' if path else ' missing'}" for name, path in said["programs"].items())),
            ("GPUs", f"{len(there)}: {names}" if there else "none"),
            *(("disk", f"{path}: {room}{'' if writable else ', read-only'}") for path, room, writable in disks),
        ]

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`. Connects, which takes up to `connect_timeout` if the host does not answer."""
        error = Severity.ERROR
        try:
            found = self.reach.call("probe", paths=["~", "/tmp"], programs=PROGRAMS)
            findings = [*self._forward_findings(), *self._host_findings(found), *self._gpu_findings()]
        except Unreachable as silent:
            return [Finding(error, silent.code, silent.reason, silent.hint)]
        except EnvironmentUnusable as unusable:
            return [Finding(error, unusable.code, unusable.message, unusable.hint)]
        except OSError as refused:
            return [Finding(error, "probe_failed", f"{refused.filename}: {refused.strerror}")]
        return findings

    def _host_findings(self, answer: Mapping[str, Any]) -> list[Finding]:
        host, findings = self.reach.words.host, []
        if not answer["programs"]["bash"]:
            findings.append(Finding(Severity.ERROR, "no_bash", f"{host}: bash, which runs commands, is not on PATH"))
        for path, there in answer["paths"].items():
            if there["free"] < FREE_BYTES:
                free = f"{there['free'] / 2**20:.0f} MiB"
                findings.append(Finding(Severity.WARNING, "low_disk", f"{host}: {path} has {free} left"))
        if abs(self.reach.clock_offset()) > CLOCK_S:
            what = f"{host}: its clock is {self.reach.clock_offset():+.0f} s from ours"
            findings.append(Finding(Severity.WARNING, "clock_differs", what, "times are corrected; let NTP run"))
        if answer["ends_at_logout"]:
            what = f"{host}: systemd ends what a login leaves running (KillUserProcesses=yes)"
            fix = f"loginctl enable-linger {answer['user']}"
            findings.append(Finding(Severity.ERROR, "ends_at_logout", what, f"on that host: {fix}"))
        return findings

    def _forward_findings(self) -> list[Finding]:
        return [
            Finding(Severity.ERROR, "port_taken", wrong, "end what has that port, or forward another one")
            for forward in self.reach.forwards.forwards
            if (wrong := taken_port(forward))
        ]

    def _gpu_findings(self) -> list[Finding]:
        """Whether there are as many as a run needs; busy ones may be free by then, and only cause a warning."""
        try:
            count = self.target.text("gpus_per_run", "0")
            return list(self._choose(int(count) if count.isdecimal() else 0).findings)
        except Declined as no:
            severity = Severity.WARNING if no.code == "lease_busy" else Severity.ERROR
            return [Finding(severity, no.code, no.reason, no.hint)]


class HeldReach(SshReach):
    """The reach of a host where Runners are started, together with its port forwards."""

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        super().__init__(target, environ, runs_here=True)
        try:
            wanted = forwards_of(target)
        except ValueError as error:
            raise UsageError(f"launchers.{target.name}: {error}") from error
        self.forwards = Forwards(wanted, environ, self.words)

    def close(self) -> None:
        """See `Reach`."""
        self.forwards.end()
        super().close()


def _lease_name(uuid: str) -> str:
    return gpus.lease_path(uuid, {}).stem


def _pid(handle: Handle) -> int | None:
    return int(handle.native) if handle.native.isdecimal() else None


def _handle(job: Job, answer: Mapping[str, Any], uuids: Sequence[str] = ()) -> Handle:
    more = {name: answer.get(name) for name in ("start_ticks", "boot_id", "host")}
    return Handle(
        job.run, str(answer.get("pid") or "unknown"), {**more, "directory": job.directory, "gpus": list(uuids)}
    )


def _declined(error: OSError, job: Job) -> Declined:
    """The Declined for an error that every start of this Runner on the host would meet."""
    if error.errno == errno.ENOENT:
        return Declined(f"{job.argv[0]} is not there: {error.filename}: {error.strerror}", code="no_interpreter")
    code = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full"}.get(error.errno or 0, "unwritable")
    return Declined(f"{error.filename}: {error.strerror}", code=code)


# -- port forwards ------------------------------------------------------------------------------------------------

_PLACE = r"\[[^\]]+\]|[^:\[\]]+"
_FORWARD = later(rf"(?:({_PLACE}):)?([0-9]+):(?:{_PLACE}):[0-9]+\Z")  # ssh(1), -L and -R, without sockets
PR_SET_PDEATHSIG = 1
PATIENCE_S = 20.0  # for the forwards to be established
COLLIDES_S = 3.0  # an ssh that ends frees its ports within this time
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


class Forwards:
    """The forwards of one target, held while its runs live by one ssh that is started again when it ends.

    It is not the agent's connection: a failing forward must not make the host unreachable, and traffic through it must
    not delay answers. It dies with this process (PR_SET_PDEATHSIG), so that the next Follower finds the ports free.
    """

    def __init__(
        self,
        forwards: Sequence[Forward],
        environ: Mapping[str, str],
        ssh_words: SshWords,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.forwards = tuple(forwards)
        self.environ, self.words, self.clock = environ, ssh_words, clock
        self.wrong = "the forwards are not made yet" if forwards else ""  # why they do not stand; "" if they do
        self._collides = False  # ... because another process has a port
        self._failures = 0
        self._next_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None  # of both ends

    def stand(self) -> str:
        """Establish them, waiting some time; returns why a port is taken, else ""."""
        begun = self.clock()
        while self.tend():
            if self.clock() - begun > (COLLIDES_S if self._collides else PATIENCE_S):
                return self.wrong if self._collides else ""
            time.sleep(0.05)
        return ""

    def tend(self) -> str:
        """Start them if that is due; returns at once, with why they do not stand."""
        if not self.forwards:
            return ""
        if self._process is not None and self._process.poll() is not None:
            self._take_note(self._process.returncode)
        if self._process is None and self.clock() >= self._next_at:
            self._start()
        if self._process is not None and self.wrong and STANDS in self._printed():
            self.wrong, self._collides, self._failures = "", False, 0
        return self.wrong

    def end(self) -> None:
        """End them; the ports are free on return."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._let_go()
        self.wrong = "the forwards are not held any more" if self.forwards else ""

    def _start(self) -> None:
        if wrong := next(filter(None, map(taken_port, self.forwards)), ""):
            self._fail(wrong, collides=True)
            return
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as its process
        self._process = subprocess.Popen(
            self.words.forwarding(*(word for forward in self.forwards for word in forward.words)),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            env=dict(self.environ),
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )

    def _printed(self) -> str:
        assert self._output is not None
        self._output.seek(0)
        return self._output.read().decode("utf-8", "replace")

    def _take_note(self, code: int) -> None:
        """Record why the ssh ended, and schedule the next try."""
        said = self._printed()
        self._let_go()
        if taken := re.search(r"remote port forwarding failed for listen port (\d+)", said):
            self._fail(f"port {taken[1]} is taken on {self.words.host}", collides=True)
        elif "Address already in use" in said:
            self._fail("a port of the forwards is taken here", collides=True)
        else:
            self._fail(f"forwards: {meaning(self.words, code, said, '').reason}")

    def _let_go(self) -> None:
        """Close the files of the ended ssh."""
        assert self._process is not None and self._process.stdin is not None and self._output is not None
        self._process.stdin.close()
        self._output.close()
        self._process = self._output = None

    def _fail(self, wrong: str, *, collides: bool = False) -> None:
        self.wrong, self._collides = wrong, collides
        self._next_at = self.clock() + PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1


def _die_with_parent() -> None:
    process_control(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
