"""Ray: one job of the Jobs API per run, over plain HTTP. Ray does not queue jobs, so slots limit how many run.

A job's entrypoint is the Runner; it runs on the head node and reserves nothing by default; the trainer takes what it
needs by actors and placement groups as usual. The head sees our run directories under the same paths. `ray stop` is
never called: it ends every Ray of a host.

Paths and answers as in ray/dashboard/modules/job/{job_head,job_supervisor}.py of Ray 2.60 (ray-project/ray at
b7f4259e). Address and token are found as `ray job` finds them, see `runner.end_ray_job`.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
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
from autoresearch.launchers.shared import SharedFiles
from autoresearch.runner.end_ray_job import OVER, ask, url_of

OPTIONS = {
    "address": "the head's dashboard, http://HOST:8265; default: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, this host",
    "driver_gpus": "GPUs that the Runner's own job reserves, for a trainer that is no Ray program; default 0",
    "driver_cpus": "CPUs of the same; default 0",
    "driver_resources": "Ray's custom resources of the same, a mapping; they say where it may run",
}
ANSWER_S = 30.0  # a submit alone waits 10 s for an agent
AFTER_GRACE_S = 180.0  # for the Runner's cleanup and record, after the trainer's grace
SWEPT_S = 30.0  # a Ray job takes two seconds for nothing
REFUSES = (400, 413, 422)  # the head's own refusals of the job; 404 and the like come from a proxy whose head is away
_STATES = {"PENDING": JobState.PENDING, "RUNNING": JobState.RUNNING}
_NEVER_RAN = (
    *("RUNTIME_ENV_SETUP_FAILURE", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "JOB_SUPERVISOR_ACTOR_START_FAILURE"),
    *("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "JOB_ENTRYPOINT_COMMAND_START_ERROR"),
)
_KILLED = ("JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", *_NEVER_RAN)
_TOKEN_HINT = "set RAY_AUTH_TOKEN, or write the cluster's token to ~/.ray/auth_token"
_NO_AGENT_HINT = (
    "if it never comes up, another Ray on that host often has its ports: "
    "start the head with --dashboard-agent-listen-port and --dashboard-agent-grpc-port of its own"
)
# The Runner's own files end all processes of a run: their directory, its name, the run, its directory.
_SWEEP = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); "
    "agent = importlib.import_module(sys.argv[2] + '.remote_agent'); "
    "agent.end(*sys.argv[3:], hard=True)"
)


class RayLauncher:
    """`core.run.job_launcher.JobLauncher` for one Ray cluster."""

    kind = Kind.RAY
    OPTIONS = OPTIONS

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self.target = target
        self.api = RayApi(target.text("address"), environ)
        where = f"launchers.{target.name}"
        if not self.api.url.startswith(("http://", "https://")):
            raise UsageError(f"{where}.address: {self.api.url} is no dashboard", hint="write http://HOST:8265")
        self.reach: Reach = SharedFiles(environ)

    def preflight(self) -> list[Finding]:
        """See `JobLauncher`."""
        try:
            self.api.get("/api/version", dict)
        except Unreachable as silent:
            code = silent.code if silent.code == "unauthorized" else "no_ray"
            return [Finding(Severity.ERROR, code, silent.reason, silent.hint or "set the address of the launcher")]
        return []

    # -- submitting ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Handle:
        """See `JobLauncher`."""
        handle = Handle(job.run, submission_id(job), {"argv": list(job.argv)})
        if not (job.again and self.api.job(handle.native) is not None):
            said = self.api.ask("POST", "/api/jobs/", self.request(job))
            # A taken name gives HTTP 500, and so do other errors: ask the head whether the job exists.
            if said.ok:
                self.api.expect(said, dict)  # a proxy's login page is no job
            elif said.status == 400 or self.api.job(handle.native) is None:
                raise self._refusal(said)
        return handle

    def request(self, job: Job) -> dict[str, Any]:
        """The body of a submit. `runtime_env` and `metadata` are readable for everybody in the dashboard.

        Only the Runner gets the run id: the job's supervisor has `runtime_env`'s environment, and any process with the
        run id outside the Runner's tree is swept.
        """
        own = [f"{name}={value}" for name, value in job.environment.items()]
        wait_s = math.ceil(job.grace_s + AFTER_GRACE_S)
        body: dict[str, Any] = {
            "entrypoint": "exec " + shlex.join(["env", *own, *job.argv]),
            "submission_id": submission_id(job),
            "metadata": {"autoresearch_run": job.run, "autoresearch_campaign": job.campaign, "job_name": job.name},
            "runtime_env": {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(wait_s)}},
        }
        wanted = {"entrypoint_num_gpus": "driver_gpus", "entrypoint_num_cpus": "driver_cpus"}
        body |= {key: float(n) for key, option in wanted.items() if (n := self.target.options.get(option))}
        if resources := self.target.options.get("driver_resources"):
            body["entrypoint_resources"] = dict(resources)
        return body

    def _refusal(self, http_answer: HttpAnswer) -> Declined | Unreachable:
        """What a submit that created no job means."""
        if http_answer.status in REFUSES:
            return Declined(f"Ray refuses the job: {http_answer.last_line}", code="ray_refused")
        if "agent" in http_answer.text:  # a head that has just started has none for jobs yet
            why = f"Ray at {self.api.url} has no agent to take the job yet"
            return Unreachable(why, code="no_agent", hint=_NO_AGENT_HINT)
        why = f"Ray could not take the job (HTTP {http_answer.status}): {http_answer.last_line}"
        return Unreachable(why, code="odd_answer")

    # -- asking and ending --------------------------------------------------------------------------------------

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        """See `JobLauncher`."""
        known = {job.get("submission_id"): job for job in self.api.get("/api/jobs/", list) if isinstance(job, dict)}
        return {h.run: observation(known[h.native]) for h in handles if h.native in known}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        """See `JobLauncher`. Ray sends TERM, and KILL only after RAY_JOB_STOP_WAIT_TIME_S."""
        job = self.api.job(handle.native) if hard else {}
        if job is None:
            return
        if job.get("status") not in OVER:
            said = self.api.ask("POST", f"{job_path(handle.native)}/stop")
            if said.status >= 500:  # it was neither done, nor is there nothing to do it to
                self.api.expect(said, dict)
        if hard and job.get("status") == "RUNNING":
            self._sweep(handle, job)

    def forget(self, handle: Handle) -> None:
        """See `JobLauncher`."""
        job = self.api.job(handle.native)
        # A restarted head knows no job, and may have left a trainer whose Runner died with its supervisor.
        if job is None or str(job.get("error_type")) in _KILLED or (job.get("driver_exit_code") or 0) < 0:
            self._sweep(handle, job or {})
        self._delete(handle.native)

    def _sweep(self, handle: Handle, job: Mapping[str, Any]) -> None:
        """Have Ray kill the run's processes on its node, by a small job of its own."""
        if not handle.more.get("argv"):  # submitted by an earlier version
            return
        python, *flags, runner, directory = handle.more["argv"]
        words = [python, *flags, "-c", _SWEEP, *os.path.split(runner), handle.run, directory]
        body: dict[str, Any] = {"entrypoint": shlex.join(words)}
        if node := node_of(job):
            body["entrypoint_resources"] = {f"node:{node}": 0.001}
        name = str(self.api.expect(self.api.ask("POST", "/api/jobs/", body), dict).get("submission_id"))
        self._delete(name)

    def _delete(self, name: str) -> None:
        """Have Ray forget a job once it is over: before that, as just after its Runner's end, Ray refuses."""
        until = time.monotonic() + SWEPT_S
        while time.monotonic() < until and (job := self.api.job(name)) and job.get("status") not in OVER:
            time.sleep(0.2)
        self.api.ask("DELETE", job_path(name))


def submission_id(job: Job) -> str:
    """The job's name, the same for every submit, so that no second job can be created."""
    return f"ajet_{job.run}"


def job_path(native: str) -> str:
    """The path of one job."""
    return f"/api/jobs/{urllib.parse.quote(native, safe='')}"


def node_of(job: Mapping[str, Any]) -> str:
    """The address of the node where a job's driver runs; "" before it started."""
    return str(job.get("driver_agent_http_address") or "").removeprefix("http://").rpartition(":")[0]


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


# -- the Jobs API -----------------------------------------------------------------------------------------------------

_NOT_NOW = (408, 425, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The head's answer. `body` is None if it is no JSON."""

    status: int
    text: str
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 300

    @property
    def last_line(self) -> str:
        """The last line, which in a traceback names the error."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"HTTP {self.status}"


class RayApi:
    """One cluster's head. Every call raises Unreachable if there is no answer, or not one of a Jobs API."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self.url = url_of(address, environ)
        self.environ = environ

    def job(self, native: str) -> dict[str, Any] | None:
        """The head's record of one job; None for no such job."""
        said = self.ask("GET", job_path(native))
        return None if said.status == 404 else dict(self.expect(said, dict))

    def ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        """One request; `body` is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, raw = ask(method, self.url + path, self.environ, data, within_s=ANSWER_S)
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(f"Ray at {self.url} gives no answer: {why}") from error
        text = raw.decode("utf-8", "replace")
        if status in (401, 403):
            why = f"Ray at {self.url} wants another token (HTTP {status})"
            raise Unreachable(why, code="unauthorized", hint=_TOKEN_HINT)
        if status in _NOT_NOW:
            raise Unreachable(f"Ray at {self.url} cannot answer now (HTTP {status})")
        try:
            return HttpAnswer(status, text, json.loads(text))
        except ValueError:
            return HttpAnswer(status, text, None)

    def get(self, path: str, kind: type) -> Any:
        """The body of the answer to a GET that must succeed, of the given type."""
        return self.expect(self.ask("GET", path), kind)

    def expect(self, http_answer: HttpAnswer, kind: type) -> Any:
        """The body of a successful answer of the given type; raises Unreachable otherwise."""
        if http_answer.ok and isinstance(http_answer.body, kind):
            return http_answer.body
        if http_answer.ok:
            raise Unreachable(f"{self.url} is no Ray dashboard: it answers with something else than JSON")
        why = f"Ray at {self.url} answers HTTP {http_answer.status}: {http_answer.last_line}"
        raise Unreachable(why, code="odd_answer")
