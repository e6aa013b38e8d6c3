"""A canary: a job of a few seconds that goes through the real launcher, reads a file written here and prints it.

It is the only check that the compute nodes see the directories that runs are in. It leaves no files behind.
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

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.job_launcher import (
    Declined,
    DirectoryState,
    Handle,
    Job,
    JobLauncher,
    JobState,
    Observation,
    Unreachable,
    Want,
)
from autoresearch.core.run.targets import Kind, Target
from autoresearch.lab.remote_files.interpreter import InterpreterSearch
from autoresearch.lab.remote_files.remote_host import RemoteHost
from autoresearch.lab.remote_files.upload import runner_files

WITHIN_S = 120.0  # seconds; a queue may be longer, which is then reported
LATE_S = 15.0  # seconds; files may arrive this long after the launcher reports the job as over
LOOK_S = 0.5
MAX_S = 60.0  # limit of the job itself
_MAKE = 'root=${1:-$HOME/.cache/autoresearch}; mkdir -p "$root" && mktemp -d "$root/canary.XXXXXX"'


_START = """; {} -c 'import sys; print("started by python", *sys.version_info[:2])'"""
_STARTED = re.compile(rb"^started by python (\d+) (\d+)", re.MULTILINE)


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
    """Send a canary and wait for it, two minutes at most.

    home: a directory above the run directories, used where files are shared with the target.
    search: finds an interpreter that the canary shall start on the target.
    Raises Unreachable, Declined.
    """
    if target.kind is Kind.KUBERNETES and not launcher.reach.shared:
        return Canary("not for a target whose pods do not see our paths: try a short experiment there")
    token = uuid.uuid4().hex[:8]
    theirs = ""
    if search:
        theirs = search.interpreter if launcher.reach.shared else search.run(launcher.reach)
    root, python = _room(target, launcher, home, token)
    try:
        job = _job(launcher, root, python, token, theirs)
        begun = clock()
        handle = launcher.submit(job)
        try:
            said, seen = _await(launcher, job, handle, clock, sleep)
        finally:
            _end(launcher, job, handle)
        return _conclusion(said, seen, root, token, clock() - begun, theirs)
    finally:
        _remove(launcher, root)


def _room(target: Target, launcher: JobLauncher, home: Path, token: str) -> tuple[str, str]:
    """Choose (and, on a remote file system, create) the canary's directory and the interpreter that runs its Runner."""
    if launcher.reach.shared:
        return str(home / f".canary-{token}"), target.text("python") or sys.executable
    there = RemoteHost(launcher.reach, target)
    made = launcher.reach.run(["sh", "-c", _MAKE, "sh", target.text("root")])
    if made.returncode:
        raise Declined(f"{target.name}: no directory for a canary: {made.complaint}", code="not_writable")
    return made.text.strip(), there.python


def _job(launcher: JobLauncher, root: str, python: str, token: str, interpreter: str) -> Job:
    """Write the files of a Runner whose command prints the file `here`, and return the job that starts it."""
    run, directory = f"canary-{token}", f"{root}/run"
    files = runner_files()
    spec = {
        "run": run,
        "command": f"cat {shlex.quote(root)}/here" + (_START.format(shlex.quote(interpreter)) if interpreter else ""),
        "cwd": root,
        "limits": {"max_s": MAX_S, "first_step_s": MAX_S, "grace_s": 1.0},
        "result_dir": directory,
        "journal": f"{directory}/journal.md",
    }
    launcher.reach.put(root, {"here": f"canary {token}\n".encode()})
    launcher.reach.put(f"{root}/runner_canary", files)
    launcher.reach.put(directory, {"spec.json": json.dumps(spec).encode()})
    argv = (python, "-S", "-E", "-s", f"{root}/runner_canary", directory)
    marks = {"AUTORESEARCH_RUN_ID": run}
    return Job(run, f"ajet_{run}", "doctor", directory, argv, root, 2 * MAX_S, 1.0, environment=marks)


def _await(
    launcher: JobLauncher, job: Job, handle: Handle, clock: Callable[[], float], sleep: Callable[[float], None]
) -> tuple[Observation, DirectoryState]:
    """The last observations: once it has finished, its job is over without an exit record, or it took too long."""
    until, over_at = clock() + WITHIN_S, None
    while True:
        said = launcher.poll([handle]).get(job.run, Observation(JobState.UNKNOWN))
        seen = launcher.reach.look([Want(job.run, job.directory, {"run.log": 0})]).get(
            job.run, DirectoryState(there=False)
        )
        now = clock()
        over_at = (over_at or now) if said.state in (JobState.OVER, JobState.UNKNOWN) else None
        late = over_at is not None and now - over_at > LATE_S
        if seen.exit or late or said.hopeless or now > until:
            return said, seen
        sleep(LOOK_S)


def _end(launcher: JobLauncher, job: Job, handle: Handle) -> None:
    with contextlib.suppress(Unreachable, Declined):
        launcher.stop(handle, hard=True)
        launcher.forget(handle)


def _remove(launcher: JobLauncher, root: str) -> None:
    if launcher.reach.shared:
        shutil.rmtree(root, ignore_errors=True)
        return
    with contextlib.suppress(Unreachable, Declined):
        launcher.reach.run(["rm", "-rf", "--", root])


def _conclusion(
    observation: Observation, directory_state: DirectoryState, root: str, token: str, took_s: float, interpreter: str
) -> Canary:
    log = directory_state.grown.get("run.log", b"")
    read = f"canary {token}".encode() in log
    node = f" from {observation.node}" if observation.node else ""
    if directory_state.exit and read:
        started = _STARTED.search(log)
        if interpreter and not started:
            hint = "choose one on the shared file system, or make the environment there"
            return _lost(f"the canary{node} could not start {interpreter}", "missing_interpreter", hint)
        tried = f", and started {interpreter} ({started[1].decode()}.{started[2].decode()})" if started else ""
        return Canary(f"came back in {took_s:.1f} s{node}; it read our file, and we its words{tried}")
    why = observation.reason or observation.word.lower()
    if observation.state is JobState.PENDING:
        hint = "runs wait in the same queue: at most `pending_limit`"
        words = f"the canary still waited after {took_s:.0f} s{f' ({why})' if why else ''}"
        return _lost(words, "canary_waits", hint, Severity.ERROR if observation.hopeless else Severity.WARNING)
    if directory_state.exit:
        return _lost(f"the canary ran{node}, and could not read {root}", "canary_blind", "see what is mounted there")
    over = f"its job is over ({why})" if why else "its job is over"
    hint = f"nodes must see {root} under the same path: choose a directory on the shared file system"
    return _lost(f"no word of the canary{node}; {over}", "canary_lost", hint)


def _lost(words: str, code: str, hint: str, severity: Severity = Severity.ERROR) -> Canary:
    return Canary(words, (Finding(severity, code, words, hint),))
