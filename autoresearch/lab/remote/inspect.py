"""What `doctor --launcher` reports about a target: whether it answers, how fast, what it offers, its Follower.

On request it sends a *canary*: a job of a few seconds that goes through the real launcher, reads a file written here
and prints it. It is the only check that the compute nodes see the directories that runs are in, and leaves no files.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.run.job_launcher import (
    Declined,
    Describes,
    DirectoryState,
    Job,
    JobLauncher,
    JobState,
    Observation,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.start_follower import directory_of
from autoresearch.lab.remote_files.remote_host import InterpreterSearch, RemoteHost
from autoresearch.lab.remote_files.upload import runner_files
from autoresearch.launchers.registry import pinned
from autoresearch.records import order_file
from autoresearch.records.rundir import RunDir, is_locked, read_json

WITHIN_S = 120.0  # of a canary; a queue may be longer, which is then reported
LATE_S = 15.0  # files may arrive this long after the launcher reports the job as over
LOOK_S = 0.5
MAX_S = 60.0  # limit of a canary's job itself
_FILES = {True: "seen there under the same paths", False: "copied there and back"}
_MAKE = 'root=${1:-$HOME/.cache/autoresearch}; mkdir -p "$root" && mktemp -d "$root/canary.XXXXXX"'
_START = """; {} -c 'import sys; print("started by python", *sys.version_info[:2])'"""
_STARTED = later(rb"^started by python (\d+) (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Followed:
    """State of a target's Follower."""

    alive: bool
    session: str  # "" if there never was one
    runs: int  # unfinished ones

    @property
    def sentence(self) -> str:
        """One clause, for people."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        if self.alive:
            return f"lives, follows {runs}" + (f", in {self.session}" if self.session else "")
        return f"gone, and {runs} want one: any command that looks at them starts it" if self.runs else "not needed now"


@dataclass(frozen=True, slots=True)
class Inspected:
    """State of a target as probed now."""

    target: Target
    answers: bool
    latency_s: float | None  # one round trip over an open connection; with shared files, the time of all probes
    clock_offset_s: float | None  # remote minus local
    rows: tuple[tuple[str, str], ...]
    followed: Followed
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether a run could be sent to it."""
        return not errors(self.findings)


def inspect(
    target: Target,
    parts: Parts,
    *,
    canary: Path | None = None,
    search: InterpreterSearch | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Inspected:
    """Probe a target that is not local. Raises nothing: whatever prevents a run is a finding.

    canary: send a canary; the directory is one above the project's run directories.
    search: finds the interpreter that the canary shall start.
    """
    follower = _followed(target, parts)
    try:
        launcher = parts.launcher_for(target, parts.environ)
    except AutoresearchError as error:
        wrong = Finding(Severity.ERROR, error.code, error.message, error.hint)
        return Inspected(target, False, None, None, (), follower, (wrong,))
    found: list[Finding] = []
    latency, offset, rows = None, None, [("files", _FILES[launcher.reach.shared])]
    try:
        begun = clock()
        found += launcher.preflight()
        if not errors(found):
            rows += launcher.describe() if isinstance(launcher, Describes) else ()
            if not launcher.reach.shared:
                begun = clock()
                launcher.reach.run(["true"])
            latency, offset = clock() - begun, launcher.reach.clock_offset()
        if canary and not errors(found):
            sent = send_canary(target, launcher, canary, search)
            rows.append(("canary", sent.row))
            found += sent.findings
    except (Unreachable, Declined) as no:
        found = [one for one in found if one.code != "unreachable"]  # the preflight's weaker finding of the same
        found.append(Finding(Severity.ERROR, no.code, no.reason, no.hint))
    except AutoresearchError as error:
        found.append(Finding(Severity.ERROR, error.code, error.message, error.hint))
    finally:
        launcher.reach.close()
    return Inspected(target, latency is not None, latency, offset, tuple(rows), follower, tuple(found))


def _followed(target: Target, parts: Parts) -> Followed:
    folder = directory_of(pinned(target, parts.environ), parts)
    orders = [order_file.read(RunDir(Path(entry.run_dir))) for entry in parts.index.live()]
    runs = sum(order is not None and Path(order.follower) == folder for order in orders)
    sessions = (read_json(folder / "controller.sessions.json") or {}).get("sessions") or [""]
    return Followed(is_locked(folder / "lock"), str(sessions[-1]), runs)


# -- a canary -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Canary:
    """Outcome of a canary."""

    row: str  # one clause, for people
    findings: tuple[Finding, ...] = ()


def send_canary(
    target: Target,
    launcher: JobLauncher,
    home: Path,
    search: InterpreterSearch | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Canary:
    """Send a canary and wait for it, two minutes at most. Raises Unreachable, Declined.

    home: a directory above the run directories, used where files are shared with the target.
    search: finds an interpreter that the canary shall start on the target.
    """
    reach = launcher.reach
    if target.kind is Kind.KUBERNETES and not reach.shared:
        return Canary("not for a target whose pods do not see our paths: try a short experiment there")
    token, theirs = uuid.uuid4().hex[:8], ""
    if search:
        theirs = search.interpreter if reach.shared else search.run(reach)
    if reach.shared:
        root, python = str(home / f".canary-{token}"), target.text("python") or sys.executable
    else:
        python = RemoteHost(reach, target).python
        made = reach.run(["sh", "-c", _MAKE, "sh", target.text("root")])
        if made.returncode:
            raise Declined(f"{target.name}: no directory for a canary: {made.complaint}", code="not_writable")
        root = made.text.strip()
    try:
        job, begun = _job(launcher, root, python, token, theirs), clock()
        handle = launcher.submit(job)
        try:
            until, over_at = clock() + WITHIN_S, None
            while True:  # until it has finished, its job is over without an exit record, or it took too long
                said = launcher.poll([handle]).get(job.run, Observation(JobState.UNKNOWN))
                looked = reach.look([Want(job.run, job.directory, {"run.log": 0})])
                seen = looked.get(job.run, DirectoryState(there=False))
                now = clock()
                over_at = (over_at or now) if said.state in (JobState.OVER, JobState.UNKNOWN) else None
                late = over_at is not None and now - over_at > LATE_S
                if seen.exit or late or said.hopeless or now > until:
                    break
                sleep(LOOK_S)
        finally:
            with contextlib.suppress(Unreachable, Declined):
                launcher.stop(handle, hard=True)
                launcher.forget(handle)
        read = f"canary {token}".encode() in seen.grown.get("run.log", b"")
        return _conclusion(said, seen, root, clock() - begun, theirs, read=read)
    finally:
        if reach.shared:
            shutil.rmtree(root, ignore_errors=True)
        else:
            with contextlib.suppress(Unreachable, Declined):
                reach.run(["rm", "-rf", "--", root])


def _job(launcher: JobLauncher, root: str, python: str, token: str, interpreter: str) -> Job:
    """Write the files of a Runner whose command prints the file `here`, and return the job that starts it."""
    run, directory = f"canary-{token}", f"{root}/run"
    spec = {
        "run": run,
        "command": f"cat {shlex.quote(root)}/here" + (_START.format(shlex.quote(interpreter)) if interpreter else ""),
        "cwd": root,
        "limits": {"max_s": MAX_S, "first_step_s": MAX_S, "grace_s": 1.0},
        "result_dir": directory,
        "journal": f"{directory}/journal.md",
    }
    files = runner_files()
    launcher.reach.put(root, {"here": f"canary {token}\n".encode()})
    launcher.reach.put(f"{root}/runner_canary", files)
    launcher.reach.put(directory, {"spec.json": json.dumps(spec).encode()})
    argv = (python, "-S", "-E", "-s", f"{root}/runner_canary", directory)
    marks = {"AUTORESEARCH_RUN_ID": run}
    return Job(run, f"ajet_{run}", "doctor", directory, argv, root, 2 * MAX_S, 1.0, environment=marks)


def _conclusion(
    observation: Observation, directory_state: DirectoryState, root: str, took_s: float, interpreter: str, *, read: bool
) -> Canary:
    def lost(words: str, code: str, hint: str, severity: Severity = Severity.ERROR) -> Canary:
        return Canary(words, (Finding(severity, code, words, hint),))

    node = f" from {observation.node}" if observation.node else ""
    if directory_state.exit and read:
        started = _STARTED.search(directory_state.grown["run.log"])
        if interpreter and not started:
            hint = "choose one on the shared file system, or make the environment there"
            return lost(f"the canary{node} could not start {interpreter}", "missing_interpreter", hint)
        tried = f", and started {interpreter} ({started[1].decode()}.{started[2].decode()})" if started else ""
        return Canary(f"came back in {took_s:.1f} s{node}; it read our file, and we its words{tried}")
    why = observation.reason or observation.word.lower()
    if observation.state is JobState.PENDING:
        words = f"the canary still waited after {took_s:.0f} s{f' ({why})' if why else ''}"
        severity = Severity.ERROR if observation.hopeless else Severity.WARNING
        return lost(words, "canary_waits", "runs wait in the same queue: at most `pending_limit`", severity)
    if directory_state.exit:
        return lost(f"the canary ran{node}, and could not read {root}", "canary_blind", "see what is mounted there")
    over = f"its job is over ({why})" if why else "its job is over"
    hint = f"nodes must see {root} under the same path: choose a directory on the shared file system"
    return lost(f"no word of the canary{node}; {over}", "canary_lost", hint)
