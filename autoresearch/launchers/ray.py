"""Ray: one job of the Jobs API per run. Ray does not queue jobs, so slots limit how many run.

A job's entrypoint is the Runner; it runs on the head node and reserves nothing by default; the trainer takes what it
needs by actors and placement groups as usual. `ray stop` is never called: it ends every Ray of a host.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation, Reach, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers import descriptions
from autoresearch.launchers.ray_api import HttpAnswer, RayApi, quoted
from autoresearch.launchers.ray_leftovers import MARK, OVER, free
from autoresearch.launchers.ray_reach import BOOT, RayReach
from autoresearch.launchers.shared import SharedFiles

OPTIONS = {
    "address": "the head's dashboard, http://HOST:8265; default: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, this host",
    "shared": "false: the head does not see our directories, and everything goes by the Jobs API; default true",
    "driver_gpus": "GPUs that the Runner's own job reserves, for a trainer that is no Ray program; default 0",
    "driver_cpus": "CPUs of the same; default 0",
    "driver_resources": "Ray's custom resources of the same, a mapping; they say where it may run",
    "keep_actors": "yes: detached actors and placement groups of a run outlive it; default no",
}
DRIVER = ("driver_gpus", "driver_cpus", "driver_resources")
AGENT_S = 60.0  # a head that has just started has no agent for jobs yet
AGENT_TRIES = 5
REFUSES = (400, 413, 422)  # the head's own refusals of the job; 404 and the like come from a proxy whose head is away
AFTER_GRACE_S = 180.0  # for the Runner's cleanup and record, after the trainer's grace
_STATES = {"PENDING": JobState.PENDING, "RUNNING": JobState.RUNNING}
_NEVER_RAN = (
    *("RUNTIME_ENV_SETUP_FAILURE", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "JOB_SUPERVISOR_ACTOR_START_FAILURE"),
    *("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "JOB_ENTRYPOINT_COMMAND_START_ERROR"),
)
_KILLED = ("JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", *_NEVER_RAN)
_NO_AGENT_HINT = (
    "its dashboard agent never came up: often another Ray on that host has its ports; "
    "start the head with --dashboard-agent-listen-port and --dashboard-agent-grpc-port of its own"
)


class RayLauncher:
    """`core.run.job_launcher.JobLauncher` for one Ray cluster."""

    kind = Kind.RAY

    def __init__(self, target: Target, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self.target = target
        self.api = RayApi(target.text("address"), environ)
        if not self.api.url.startswith(("http://", "https://")):
            raise UsageError(
                f"launchers.{target.name}.address: {self.api.url} is no dashboard", hint="write http://HOST:8265"
            )
        self.clock = clock
        self.unshared = RayReach(self.api) if _says(target, "shared", "no") else None
        self.reach: Reach = self.unshared or SharedFiles(environ)
        if self.unshared and any(target.options.get(name) for name in DRIVER):
            raise UsageError(
                f"launchers.{target.name}: what a driver reserves decides on which node it is, and with `shared: no` "
                "its files are on the head node",
                hint="take driver_gpus, driver_cpus and driver_resources out, or share a file system",
            )
        self._without_agent: dict[str, tuple[float, int]] = {}  # by run: since when, number of tries
        self._forgotten: set[str] = set()

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`."""
        version = self.api.expect(self.api.ask("GET", "/api/version"), dict)
        jobs = self.api.expect(self.api.ask("GET", "/api/jobs/"), list)
        return descriptions.of_ray(version, jobs, self.api.url)

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`."""
        try:
            self.api.expect(self.api.ask("GET", "/api/version"), dict)
            return self._impossible()
        except Unreachable as silent:
            code = silent.code if silent.code == "unauthorized" else "no_ray"
            return [Finding(Severity.ERROR, code, silent.reason, silent.hint or "set the address of the launcher")]

    def _impossible(self) -> list[Finding]:
        """Resources that no node of the cluster has: Ray would let the job wait for ever."""
        found = []
        for name, option in (("GPU", "driver_gpus"), ("CPU", "driver_cpus")):
            wanted = float(self.target.options.get(option) or 0)
            most = max(self.api.totals(name)) if wanted else 0.0
            if wanted > most:
                found.append(
                    Finding(
                        *(Severity.ERROR, "impossible_resources"),
                        f"launchers.{self.target.name}.{option}: {wanted:g}, and the largest node has {most:g} {name}s",
                        "ask for less; a trainer that takes its GPUs from Ray itself needs none here",
                    )
                )
        return found

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`."""
        native = submission_id(job)
        if job.again and self.api.job(native) is not None:
            return self._handle(job.run, native)
        said = self.api.ask("POST", "/api/jobs/", self._request(job, native))
        # A taken name gives HTTP 500, and so do other errors: ask the head whether the job exists.
        if said.ok:
            self.api.expect(said, dict)  # a proxy's login page is no job
        elif said.status == 400 or self.api.job(native) is None:
            self._refused(job.run, said)
        self._without_agent.pop(job.run, None)
        return self._handle(job.run, native)

    def _handle(self, run: str, native: str) -> Handle:
        if self.unshared:
            self.unshared.natives[run] = native
            self.unshared.sent()
        return Handle(run, native)

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`."""
        listed = self.api.expect(self.api.ask("GET", "/api/jobs/"), list)
        if self.unshared:
            self.unshared.natives |= {handle.run: handle.native for handle in handles}
        known = {job.get("submission_id"): job for job in listed if isinstance(job, dict)}
        return {h.run: observation(known[h.native]) for h in handles if h.native in known}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`. Ray sends TERM, and KILL after RAY_JOB_STOP_WAIT_TIME_S.

        A stop of a job that never started stays queued with it, so `hard` also ends its supervisor.
        """
        job = self.api.job(handle.native) if hard else {}
        if job is None:
            return
        if job.get("status") not in OVER:
            self._done(self.api.ask("POST", f"/api/jobs/{quoted(handle.native)}/stop"))
        if hard:
            self._free(handle, job, sweep=job.get("status") == "RUNNING")

    def forget(self, handle: Handle) -> str:
        """See `JobLauncher`."""
        if handle.native in self._forgotten:
            return ""
        job = self.api.job(handle.native)
        # A restarted head knows no job, and may have left a trainer whose Runner died with its supervisor.
        killed = job is None or str(job.get("error_type")) in _KILLED or (job.get("driver_exit_code") or 0) < 0
        told = "" if self._keeps_actors() and not killed else self._free(handle, job or {}, sweep=killed)
        self.api.ask("DELETE", f"/api/jobs/{quoted(handle.native)}")
        if self.unshared:
            self.unshared.natives.pop(handle.run, None)
        self._forgotten.add(handle.native)
        return told

    def _free(self, handle: Handle, job: Mapping[str, Any], *, sweep: bool) -> str:
        """Free what a job holds beside itself; returns one sentence about it, "" if there was nothing."""
        there, still = free(
            self.api, handle.native, handle.run, str(job.get("job_id") or ""), node=node_of(job), sweep=sweep
        )
        if still:
            return f"still on Ray, and could not be freed: {still}"
        return f"freed on Ray: {there}" if there else ""

    def _keeps_actors(self) -> bool:
        return _says(self.target, "keep_actors", "yes")

    def _done(self, http_answer: HttpAnswer) -> None:
        """Raises Unreachable unless it was done, or there is nothing (left) to do it to."""
        if http_answer.status >= 500:
            self.api.expect(http_answer, dict)

    def _request(self, job: Job, native: str) -> dict[str, Any]:
        """The body of a submit. `runtime_env` and `metadata` are readable for everybody in the dashboard.

        Only the Runner gets the run id: the job's supervisor has `runtime_env`'s environment, and any process with the
        run id outside the Runner's tree is swept.
        """
        own = [f"{name}={value}" for name, value in job.environment.items()]
        wait_s = math.ceil(job.grace_s + AFTER_GRACE_S)
        body: dict[str, Any] = {
            "entrypoint": "exec " + shlex.join(["env", *own, *job.argv]),
            "submission_id": native,
            "metadata": {"autoresearch_run": job.run, "autoresearch_campaign": job.campaign, "job_name": job.name},
            "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(wait_s), MARK: native}},
        }
        if self.unshared:
            body["runtime_env"]["working_dir"] = self.unshared.package(job.argv, job.cwd, job.environment)
            body["entrypoint"] = BOOT + "become"
        wanted = {"entrypoint_num_gpus": "driver_gpus", "entrypoint_num_cpus": "driver_cpus"}
        body |= {key: float(n) for key, option in wanted.items() if (n := self.target.options.get(option))}
        if resources := self.target.options.get("driver_resources"):
            body["entrypoint_resources"] = dict(resources)
        return body

    def _refused(self, run: str, http_answer: HttpAnswer) -> None:
        """Raise the error for a submit that created no job."""
        if http_answer.status in REFUSES:
            raise Declined(f"Ray refuses the job: {http_answer.last_line}", code="ray_refused")
        if "agent" not in http_answer.text:
            raise Unreachable(
                f"Ray could not take the job (HTTP {http_answer.status}): {http_answer.last_line}", code="odd_answer"
            )
        since, tries = self._without_agent.get(run, (self.clock(), 0))
        self._without_agent[run] = since, tries + 1
        if tries + 1 >= AGENT_TRIES and self.clock() - since >= AGENT_S:
            raise Declined(
                f"Ray has had no agent to take the job for {self.clock() - since:.0f} s; {_NO_AGENT_HINT}",
                code="no_agent",
                hint=_NO_AGENT_HINT,
            )
        raise Unreachable(f"Ray at {self.api.url} has no agent to take the job yet", code="no_agent")


def _says(target: Target, option: str, word: str) -> bool:
    """Whether an option means yes, or no; YAML turns these words into truth values."""
    return truth(target.text(option)) is (word == "yes")


def submission_id(job: Job) -> str:
    """The job's name, the same for every submit of one attempt, so that no second job can be created."""
    return f"ajet_{job.run}" + (f"-a{job.attempt}" if job.attempt > 1 else "")


def observation(job: Mapping[str, Any]) -> Observation:
    """The observation for one entry of GET /api/jobs/ (ray/dashboard/modules/job/pydantic_models.py, JobDetails)."""
    word, kind = str(job.get("status", "")), str(job.get("error_type") or "")
    node = node_of(job)
    message = " ".join(str(job.get("message") or "").split())[:500]
    if word in _STATES:
        reason = message if word == "PENDING" else ""
        return Observation(_STATES[word], word, reason, node=node)
    if word not in ("SUCCEEDED", "FAILED", "STOPPED"):
        return Observation(JobState.UNKNOWN, word)
    code = job.get("driver_exit_code")
    ending = Ending.STOPPED if word == "STOPPED" else Ending.LAUNCH_FAILED if kind in _NEVER_RAN else None
    return Observation(
        JobState.OVER,
        word,
        f"Ray says {word}{f' ({kind})' if kind else ''}: {message}" if message else f"Ray says {word}",
        ending=ending,
        cause="ray_stopped" if word == "STOPPED" else kind.lower(),
        returncode=code if isinstance(code, int) else None,
        node=node,
    )


def node_of(job: Mapping[str, Any]) -> str:
    """The address of the node where a job's driver runs; "" before it started."""
    return str(job.get("driver_agent_http_address") or "").removeprefix("http://").rpartition(":")[0]
