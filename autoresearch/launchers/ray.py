"""Ray: one job of the Jobs API per run. Ray does not queue jobs, so slots limit how many run.

A job's entrypoint is the Runner; it runs on the head node and reserves nothing by default; the trainer takes what it
needs by actors and placement groups as usual. The head sees our run directories under the same paths. `ray stop` is
never called: it ends every Ray of a host.
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
from autoresearch.core.run.job_launcher import (
    Declined,
    Handle,
    Job,
    JobState,
    Observation,
    Reach,
    Unreachable,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers.ray_api import MARK, OVER, HttpAnswer, RayApi, free, job_path, node_of
from autoresearch.launchers.shared import SharedFiles

OPTIONS = {
    "address": "the head's dashboard, http://HOST:8265; default: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, this host",
    "driver_gpus": "GPUs that the Runner's own job reserves, for a trainer that is no Ray program; default 0",
    "driver_cpus": "CPUs of the same; default 0",
    "driver_resources": "Ray's custom resources of the same, a mapping; they say where it may run",
    "keep_actors": "yes: detached actors and placement groups of a run outlive it; default no",
}
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
        where = f"launchers.{target.name}"
        if not self.api.url.startswith(("http://", "https://")):
            raise UsageError(f"{where}.address: {self.api.url} is no dashboard", hint="write http://HOST:8265")
        self.clock = clock
        self.reach: Reach = SharedFiles(environ)
        self._without_agent: dict[str, tuple[float, int]] = {}  # by run: since when, number of tries

    def describe(self) -> list[tuple[str, str]]:
        """See `Describes`."""
        version, jobs = self.api.get("/api/version", dict), self.api.get("/api/jobs/", list)
        living = sum(isinstance(job, dict) and job.get("status") in _STATES for job in jobs)
        named = f"{version.get('ray_version', 'unknown')} at {self.api.url}"
        return [("Ray", named), ("jobs", f"{living} live, of all users")]

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`: also resources that no node of the cluster has, which Ray would let the job wait for."""
        found = []
        try:
            self.api.get("/api/version", dict)
            for name, option in (("GPU", "driver_gpus"), ("CPU", "driver_cpus")):
                wanted = float(self.target.options.get(option) or 0)
                if wanted and wanted > (most := max(self.api.totals(name))):
                    text = (
                        f"launchers.{self.target.name}.{option}: {wanted:g}, and the largest node has {most:g} {name}s"
                    )
                    hint = "ask for less; a trainer that takes its GPUs from Ray itself needs none here"
                    found.append(Finding(Severity.ERROR, "impossible_resources", text, hint))
        except Unreachable as silent:
            code = silent.code if silent.code == "unauthorized" else "no_ray"
            return [Finding(Severity.ERROR, code, silent.reason, silent.hint or "set the address of the launcher")]
        return found

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`."""
        handle = Handle(job.run, submission_id(job))
        if not (job.again and self.api.job(handle.native) is not None):
            said = self.api.ask("POST", "/api/jobs/", self.request(job))
            # A taken name gives HTTP 500, and so do other errors: ask the head whether the job exists.
            if said.ok:
                self.api.expect(said, dict)  # a proxy's login page is no job
            elif said.status == 400 or self.api.job(handle.native) is None:
                self._refused(job.run, said)
            self._without_agent.pop(job.run, None)
        return handle

    def request(self, job: Job) -> dict[str, Any]:
        """The body of a submit. `runtime_env` and `metadata` are readable for everybody in the dashboard.

        Only the Runner gets the run id: the job's supervisor has `runtime_env`'s environment, and any process with the
        run id outside the Runner's tree is swept.
        """
        own = [f"{name}={value}" for name, value in job.environment.items()]
        wait_s = math.ceil(job.grace_s + AFTER_GRACE_S)
        native = submission_id(job)
        body: dict[str, Any] = {
            "entrypoint": "exec " + shlex.join(["env", *own, *job.argv]),
            "submission_id": native,
            "metadata": {"autoresearch_run": job.run, "autoresearch_campaign": job.campaign, "job_name": job.name},
            "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(wait_s), MARK: native}},
        }
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
            why = f"Ray could not take the job (HTTP {http_answer.status}): {http_answer.last_line}"
            raise Unreachable(why, code="odd_answer")
        since, tries = self._without_agent.get(run, (self.clock(), 0))
        self._without_agent[run] = since, tries + 1
        if tries + 1 >= AGENT_TRIES and (waited := self.clock() - since) >= AGENT_S:
            why = f"Ray has had no agent to take the job for {waited:.0f} s; {_NO_AGENT_HINT}"
            raise Declined(why, code="no_agent", hint=_NO_AGENT_HINT)
        raise Unreachable(f"Ray at {self.api.url} has no agent to take the job yet", code="no_agent")

    # -- asking and ending --------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`."""
        known = {job.get("submission_id"): job for job in self.api.get("/api/jobs/", list) if isinstance(job, dict)}
        return {h.run: observation(known[h.native]) for h in handles if h.native in known}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`. Ray sends TERM, and KILL after RAY_JOB_STOP_WAIT_TIME_S.

        A stop of a job that never started stays queued with it, so `hard` also ends its supervisor.
        """
        job = self.api.job(handle.native) if hard else {}
        if job is None:
            return
        if job.get("status") not in OVER:
            said = self.api.ask("POST", f"{job_path(handle.native)}/stop")
            if said.status >= 500:  # it was neither done, nor is there nothing to do it to
                self.api.expect(said, dict)
        if hard:
            free(self.api, handle, job, sweep=job.get("status") == "RUNNING")

    def forget(self, handle: Handle) -> str:
        """See `JobLauncher`."""
        job = self.api.job(handle.native)
        # A restarted head knows no job, and may have left a trainer whose Runner died with its supervisor.
        killed = job is None or str(job.get("error_type")) in _KILLED or (job.get("driver_exit_code") or 0) < 0
        keeps = truth(self.target.text("keep_actors")) is True
        told = "" if keeps and not killed else free(self.api, handle, job or {}, sweep=killed)
        self.api.ask("DELETE", job_path(handle.native))
        return told


def submission_id(job: Job) -> str:
    """The job's name, the same for every submit, so that no second job can be created."""
    return f"ajet_{job.run}"


def observation(job: Mapping[str, Any]) -> Observation:
    """The observation for one entry of GET /api/jobs/ (ray/dashboard/modules/job/pydantic_models.py, JobDetails)."""
    word, kind, node = str(job.get("status", "")), str(job.get("error_type") or ""), node_of(job)
    message = " ".join(str(job.get("message") or "").split())[:500]
    if word in _STATES:
        return Observation(_STATES[word], word, message if word == "PENDING" else "", node=node)
    if word not in OVER:
        return Observation(JobState.UNKNOWN, word)
    said = f"Ray says {word}{f' ({kind})' if kind else ''}: {message}" if message else f"Ray says {word}"
    ending = Ending.STOPPED if word == "STOPPED" else Ending.LAUNCH_FAILED if kind in _NEVER_RAN else None
    cause = "ray_stopped" if word == "STOPPED" else kind.lower()
    code = job.get("driver_exit_code")
    code = code if isinstance(code, int) else None
    return Observation(JobState.OVER, word, said, ending=ending, cause=cause, returncode=code, node=node)
