"""Ray: one job of the Jobs API per run. Ray does not queue jobs, so slots limit how many run.

A job's entrypoint is the Runner; it runs on the head node and reserves nothing by default; the trainer takes what it
needs by actors and placement groups as usual. `ray stop` is never called: it ends every Ray of a host.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import shlex
import time
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.metrics.python_values import truth
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import (
    Declined,
    DirectoryState,
    Handle,
    Job,
    JobState,
    Observation,
    Reach,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.launchers.ray_api import MARK, OVER, HttpAnswer, RayApi, free, job_path, node_of
from autoresearch.launchers.shared import ANSWER_S, AgentReach, SharedFiles, program, said_by
from autoresearch.runner import remote_agent
from autoresearch.runner.basics import parse_object
from autoresearch.runner.remote_requests import PIECE

# Parse a Runner's stdout where the job's log is the only channel back; `runner.log_stream` defines the format.

LOG = "run.log"
EVALUATION = "evaluation.log"
_MARK = b"\x1e{"


@dataclass(slots=True)
class JobLog:
    """The files and records of one run, decoded from its job's log; every file starts at byte 0."""

    run: str
    files: dict[str, bytes] = field(default_factory=dict)  # growing files by name
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # runner.json, exit.json

    def seen(self, offsets: Mapping[str, int], most: int) -> DirectoryState:
        """The state with the file contents after these offsets, at most `most` bytes of each file."""
        grown = {name: data[offsets[name] :][:most] for name, data in self.files.items() if name in offsets}
        runner = self.records.get("runner.json", {})
        beat = self.records.get("lock", {}).get("t")
        return DirectoryState(
            claimed=bool(runner),
            beat=float(beat) if isinstance(beat, int | float) else None,
            runner=runner,
            exit=self.records.get("exit.json", {}),
            evaluating=EVALUATION in self.files,
            grown={name: piece for name, piece in grown.items() if piece},
            more=any(len(piece) == most for piece in grown.values()),
        )


def read(stream: bytes, run: str) -> JobLog:
    """Decode a job's log. Everything outside the frames of this run's Runner is `run.log`.

    That includes the launcher's own lines before the Runner's. An incomplete frame at the end is ignored for now.
    """
    told = JobLog(run)
    log = bytearray()
    at = 0
    stream = stream.removesuffix(_MARK[:1])
    while (mark := stream.find(_MARK, at)) >= 0 and (end := stream.find(b"\n", mark)) >= 0:
        frame = _frame(stream[mark + 1 : end], run)
        if frame is None:  # not a frame: a trainer may print the same bytes
            log += stream[at : mark + len(_MARK)]
            at = mark + len(_MARK)
            continue
        log += stream[at:mark]
        at = end + 1
        _take(told, frame)
    log += stream[at : mark if mark >= 0 else None]
    told.files[LOG] = bytes(log)
    return told


def _take(job_log: JobLog, frame: Mapping[str, Any]) -> None:
    name = str(frame["file"])
    if isinstance(frame.get("record"), dict):
        job_log.records[name] = frame["record"]
    else:
        job_log.files[name] = job_log.files.get(name, b"") + str(frame.get("text", "")).encode()


def _frame(line: bytes, run: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("told") == run and "file" in value else None


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
        where = f"launchers.{target.name}"
        if not self.api.url.startswith(("http://", "https://")):
            raise UsageError(f"{where}.address: {self.api.url} is no dashboard", hint="write http://HOST:8265")
        self.clock = clock
        self.unshared = RayReach(self.api) if truth(target.text("shared")) is False else None
        self.reach: Reach = self.unshared or SharedFiles(environ)
        if self.unshared and any(target.options.get(name) for name in DRIVER):
            raise UsageError(
                f"{where}: what a driver reserves decides on which node it is, and with `shared: no` "
                "its files are on the head node",
                hint="take driver_gpus, driver_cpus and driver_resources out, or share a file system",
            )
        self._without_agent: dict[str, tuple[float, int]] = {}  # by run: since when, number of tries
        self._forgotten: set[str] = set()

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
        if self.unshared:
            self.unshared.went_with(handle)
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
        if self.unshared:
            body["runtime_env"]["working_dir"] = self.unshared.package((), job.argv, job.cwd, **job.environment)
            body["entrypoint"] = BOOT
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
        if self.unshared:
            self.unshared.natives |= {handle.run: handle.native for handle in handles}
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
        if handle.native in self._forgotten:
            return ""
        job = self.api.job(handle.native)
        # A restarted head knows no job, and may have left a trainer whose Runner died with its supervisor.
        killed = job is None or str(job.get("error_type")) in _KILLED or (job.get("driver_exit_code") or 0) < 0
        keeps = truth(self.target.text("keep_actors")) is True
        told = "" if keeps and not killed else free(self.api, handle, job or {}, sweep=killed)
        self.api.ask("DELETE", job_path(handle.native))
        if self.unshared:
            self.unshared.natives.pop(handle.run, None)
        self._forgotten.add(handle.native)
        return told


def submission_id(job: Job) -> str:
    """The job's name, the same for every submit of one attempt, so that no second job can be created."""
    return f"ajet_{job.run}" + (f"-a{job.attempt}" if job.attempt > 1 else "")


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


# -- without shared directories -----------------------------------------------------------------------------------

LOGS_S = 2.0  # between two requests of a job's log ...
LOGS_SHARE = 20.0  # ... and at least so many times the duration of such a request
PACKAGE = 64 << 20  # bytes that may wait: a head takes 100 MB at once
BOOT = 'exec "$(readlink /proc/$PPID/exe)" -S -E -s boot.py'  # the parent's interpreter
# The agent does what the package asks for; then the job becomes a Runner, or prints the last answer.
_BOOT = """
what = agent.unpack(json.load(open("boot.json")))
for request in what["requests"]:
    answer = agent.perform(request)
    if "error" in answer:
        break
else:
    if what["argv"]:
        agent.os.chdir(what["cwd"] or "/")
        agent.os.execvpe(what["argv"][0], what["argv"], {**agent.os.environ, **what["env"]})
sys.stdout.write("\\x1e" + json.dumps(agent.pack(answer)) + "\\n")
sys.exit("error" in answer)
"""


class RayReach(AgentReach):
    """A reach by jobs and their logs.

    Written files wait for the next call or job, and go with it as a package of `working_dir` (PUT /api/packages in
    ray/dashboard/modules/job/job_head.py, names as in ray/_private/runtime_env/packaging.py, of Ray 2.60, b7f4259e). A
    call is a small job that prints its answer to its log: it takes seconds, so few are made. The Runner's files
    return in its own job's log, see `core.run.log_stream`; `GET .../logs` returns the whole log each time, so it is
    requested rarely.
    """

    shared = False

    def __init__(self, api: RayApi, clock: Callable[[], float] = time.monotonic) -> None:
        self.api = api
        self.clock = clock
        self.natives: dict[str, str] = {}  # run -> its job, once submitted
        self._directories: dict[str, str] = {}  # remote directory -> run
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}  # (directory, name) -> arguments of the agent's put
        self._stops: dict[str, Mapping[str, Any]] = {}  # by run: the request that was turned into a signal
        self._logs: dict[str, tuple[float, JobLog]] = {}  # by run: time of the next request, content

    def look(self, wants: Sequence[Want]) -> dict[str, DirectoryState]:
        """See `Reach`. Reports no heartbeat: the head knows whether a job runs."""
        ours = [want for want in wants if want.run in self.natives]
        self._directories |= {want.directory: want.run for want in ours}
        found = {want.run: self._directory_state(want) for want in ours}
        there = [want for want in wants if want not in ours]
        return found | (super().look(there) if there else {})

    def put(self, directory: str, files: Mapping[str, bytes], *, private: Collection[str] = ()) -> None:
        """See `Reach`: written with the next program or job. A stop request becomes a stop of the Ray job at once."""
        if set(files) == {"stop"} and directory in self._directories:
            run = self._directories[directory]
            self._stops[run] = parse_object(files["stop"])
            self.api.ask("POST", f"{job_path(self.natives[run])}/stop")
            return
        for name, data in files.items():
            if name == "spec.json":  # the Runner tells everything in its log
                data = json.dumps({**json.loads(data), "told": True}).encode()
            self._waiting[directory, name] = {"files": {name: data}, "private": [name] if name in private else []}
        if sum(len(data) for one in self._waiting.values() for data in one["files"].values()) > PACKAGE:
            self.call("look", wants=[])

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        """See `AgentReach`. The time that Ray needs to start the job does not count."""
        package = self.package([{"op": op, "with": arguments}])
        body = {"entrypoint": BOOT, "runtime_env": {"working_dir": package}, "metadata": {"autoresearch": op}}
        job = str(self.api.get("/api/jobs/", dict, body).get("submission_id"))
        try:
            self._wait(job, op, within_s)
            logs = self._log_of(job)
        finally:
            self.api.ask("DELETE", job_path(job))
        self._waiting.clear()
        for line in logs.split(b"\x1e")[1:]:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return said_by(remote_agent.unpack(json.loads(line.split(b"\n")[0])), self.api.url)
        raise Unreachable("a job of ours left no answer in Ray's log of it")

    def package(
        self, requests: Sequence[Mapping[str, Any]] = (), argv: Sequence[str] = (), cwd: str = "", **env: str
    ) -> str:
        """Upload the waiting files, which still wait, and what to do then; returns the URI for `working_dir`."""
        puts = [{"op": "put", "with": {"directory": place, **one}} for (place, _), one in self._waiting.items()]
        what = {"requests": [*puts, *requests], "argv": [*argv], "cwd": cwd, "env": env}
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("boot.py", program(_BOOT))
            archive.writestr("boot.json", json.dumps(remote_agent.pack(what)))
        data = packed.getvalue()
        # the time makes the name unique: a node does not unpack the same package twice
        name = f"_ray_pkg_{hashlib.sha256(data + repr(time.time_ns()).encode()).hexdigest()[:16]}.zip"
        said = self.api.ask("PUT", f"/api/packages/gcs/{name}", data=data)
        if not said.ok:
            raise Unreachable(f"Ray at {self.api.url} takes no package: {said.last_line}", code="no_package")
        return f"gcs://{name}"

    def went_with(self, handle: Handle) -> None:
        """The waiting files went with this job."""
        self.natives[handle.run] = handle.native
        self._waiting.clear()

    def clock_offset(self) -> float:
        """See `Reach`: the head's clock, from its answers."""
        return self.api.offset_s

    def _log_of(self, native: str) -> bytes:
        """All that a job printed; b"" for an unknown job."""
        said = self.api.ask("GET", f"{job_path(native)}/logs")
        return b"" if said.status == 404 else str(self.api.expect(said, dict).get("logs") or "").encode()

    def _directory_state(self, want: Want) -> DirectoryState:
        again_at, told = self._logs.get(want.run, (0.0, JobLog(want.run)))
        if (now := self.clock()) >= again_at:
            told = read(self._log_of(self.natives[want.run]), want.run)
            after = self.clock()
            self._logs[want.run] = after + max(LOGS_S, LOGS_SHARE * (after - now)), told
        seen = told.seen(want.offsets, PIECE)
        if want.run in self._stops and seen.exit.get("cause") == "sigterm":
            asked = {"cause": "stop_request", "reason": "a stop was requested", **self._stops[want.run]}
            return replace(seen, exit={**seen.exit, **{key: asked[key] for key in ("cause", "reason")}})
        return seen

    def _wait(self, job: str, op: str, timeout_s: float) -> None:
        started: float | None = None
        while (said := self.api.job(job) or {}).get("status") not in OVER:
            now = self.clock()
            if said.get("status") == "RUNNING":
                started = now if started is None else started
            if (started is not None and now - started > timeout_s) or (said.get("status") is None):
                self.api.ask("POST", f"{job_path(job)}/stop")
                raise Unreachable(f"Ray at {self.api.url}: `{op}` gave no answer within {timeout_s:.0f} s")
            time.sleep(0.2)
