"""ssh: a Runner on another host, detached, so that the connection may be lost at any time.

A trainer started through a connection would die with it. Here the connection only starts the Runner, which has its own
session and files, and reads those files. A cut link, a killed ssh or a closed lid cost a run nothing; what was started
is found again by its remote directory.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import AutoresearchError, EnvironmentUnusable
from autoresearch.launchers import gpus
from autoresearch.launchers.ssh_connection import CONNECTION, SshReach

OPTIONS = {
    **CONNECTION,
    "shared": "true: the host sees this machine's files under the same paths; nothing is copied",
    "gpus": "GPUs of the host that runs may get: all, none, N, 0,1 or UUIDs; leased there; default none",
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
        self.reach = SshReach(target, environ, runs_here=True)

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`. A second submit finds the Runner of the first."""
        if job.again and (found := self.reach.call("started", directory=job.directory)):
            return _handle(job, found)
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
        if not handles:
            return {}
        names = ("directory", "start_ticks", "boot_id")
        asked = [{"run": h.run, "pid": _pid(h), **{name: h.more.get(name) for name in names}} for h in handles]
        found: Mapping[str, str] = self.reach.call("poll", handles=asked)
        if elsewhere := sorted({str(h.more["host"]) for h in handles if not self.reach.is_host_of(h.more)}):
            reason = (
                f"{self.reach.words.host} is {self.reach.identity['host']} now, and runs were started on {elsewhere[0]}"
            )
            raise Unreachable(reason, code="other_host", hint="name one host, not a name that stands for several")
        return {h.run: self._observation(h, found[h.run]) for h in handles}

    def _observation(self, handle: Handle, state: str) -> Observation:
        node = str(handle.more["host"])
        if state == "unknown":
            return Observation(JobState.UNKNOWN)
        if state == "lives":
            return Observation(JobState.RUNNING, "running", node=node)
        cause, reason = "runner_died", "its Runner died without an exit record"
        if handle.more["boot_id"] != self.reach.identity["boot_id"]:
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
            findings = [*self._host_findings(found), *self._gpu_findings()]
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
        if not (self.reach.shared or answer["programs"]["git"]):
            fix = "install git there, which takes the code of runs"
            findings.append(Finding(Severity.ERROR, "no_git", f"{host}: git is not on PATH", fix))
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

    def _gpu_findings(self) -> list[Finding]:
        """Whether there are as many as a run needs; busy ones may be free by then, and only cause a warning."""
        try:
            count = self.target.text("gpus_per_run", "0")
            return list(self._choose(int(count) if count.isdecimal() else 0).findings)
        except Declined as no:
            severity = Severity.WARNING if no.code == "lease_busy" else Severity.ERROR
            return [Finding(severity, no.code, no.reason, no.hint)]


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
