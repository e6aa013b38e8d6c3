"""CPU of one Follower for an hour with 200 quiet runs, against the least that asking about each by itself would cost.

Ours: a real Follower over 200 far directories whose Runners' locks are held, its clock turned by as much as it would
nap, for ten minutes; CPU of this process, times six. Theirs: one start of /bin/true for each run every 15 s, which is
what a shell loop pays before any client has said a word. The controller of a campaign sleeps meanwhile: what it costs
is `bench_idle`'s.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.job_launcher import Handle, Job, JobState, Observation
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.follower import Follower
from autoresearch.launchers.shared import SharedFiles
from autoresearch.launchers.tmux import TmuxLauncher
from autoresearch.records import order_file, recorded_run
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.specs import run_spec

RUNS, SIMULATED_S, HOUR_S, ASKED_EVERY_S = 200, 600.0, 3600.0, 15.0


class Quiet:
    """A launcher all of whose jobs run."""

    kind = Kind.SLURM

    def __init__(self) -> None:
        self.reach = SharedFiles(None)
        self.polls = 0

    def preflight(self) -> list[Finding]:
        return []

    def submit(self, job: Job) -> Handle:
        return Handle(job.run, job.run)

    def poll(self, handles: Sequence[Handle]) -> Mapping[str, Observation]:
        self.polls += 1
        return {handle.run: Observation(JobState.RUNNING, "RUNNING", node="n1") for handle in handles}

    def stop(self, handle: Handle, *, hard: bool) -> None:
        return None

    def forget(self, handle: Handle) -> str | None:
        return None


def run(repeats: int = 5) -> list[Result]:
    """CPU seconds an hour."""
    ours, theirs = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as held:
            ours.append(_ours(Path(scratch), held))
        theirs.append(_theirs())
    what = f"CPU an hour of the Follower of {RUNS} quiet runs"
    against = "/bin/true for each run every 15 s"
    return [Result(what, against, ours, theirs, 120.0, "s", absolute=True, note="3.3 % of a core", reached=36)]


def _ours(root: Path, held: contextlib.ExitStack) -> float:
    index, place = Index(root / "state"), Target("quiet", Kind.SLURM, RUNS)
    folder = root / "place"
    folder.mkdir()
    runs = [_ordered(root, index, place, folder, number) for number in range(RUNS)]
    now = [1000.0]
    started = time.time()

    def none(_: str) -> TmuxLauncher:
        raise EnvironmentUnusable("no sessions here")

    parts = Parts(os.environ, index, none, clock=lambda: started + now[0])
    follower = Follower(folder, place, Quiet(), parts, lambda: now[0])
    while len(follower.runs) < RUNS or any(one.handle is None for one in follower.runs.values()):
        follower.turn()
        now[0] += follower.nap_s()
    for rundir in runs:
        (rundir.far / "runner.json").write_text(json.dumps({"pid": 1, "trainer_pid": 2, "started": started}))
        lock = held.enter_context((rundir.far / "lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
    until, before = now[0] + SIMULATED_S, time.process_time()
    while now[0] < until:
        follower.turn()
        now[0] += follower.nap_s()
    return (time.process_time() - before) * HOUR_S / SIMULATED_S


def _ordered(root: Path, index: Index, place: Target, folder: Path, number: int) -> RunDir:
    name = f"quiet-{number:06d}"
    rundir = RunDir(root / "runs" / name)
    result_dir = root / "results" / name
    for path in (rundir.path, result_dir):
        path.mkdir(parents=True)
    spec = run_spec(name, rundir.path, slug="quiet", command="sleep 3600", created=time.time(), launcher="slurm")
    recorded_run.write(rundir, spec, {"journal": str(result_dir / "experiment_log.md"), "collector": []})
    index.add(IndexEntry(name, "quiet", spec.session, str(rundir.path), str(result_dir), created=spec.created))
    rundir.environment.write_bytes(b"")
    order_file.write(rundir, Order(name, place, time.time(), str(folder)))
    return rundir


def _theirs() -> float:
    def children() -> float:
        used = os.times()
        return used.children_user + used.children_system

    before = children()
    for _ in range(RUNS):
        subprocess.run(["/bin/true"], check=True)
    return (children() - before) * HOUR_S / ASKED_EVERY_S
