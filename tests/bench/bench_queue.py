"""What watching 200 runs costs: the looks of `status --watch`.

Half of the runs are of this machine, with a Runner's lock held and a log that grows by a step between looks; half
are at a place that is followed. CPU time.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.job_launcher import Handle
from autoresearch.core.run.targets import Kind, Target
from autoresearch.lab.overview.look import Looker
from autoresearch.records import order_file, recorded_run
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import Observed, Order
from autoresearch.records.rundir import RunDir, write_json
from tests.bench.result import Result
from tests.specs import run_spec

RUNS = 200
LOOKS = 30  # in a minute, at the screen's pace
EVERY_S = 2.0  # the screen's pace
STEP = "step:{n} - actor/kl_loss:0.001 - actor/pg_loss:0.1 - critic/rewards/mean:0.5" + " - perf/some_key:1.25" * 60
VALIDATION = "step:0 - global_steps:0 - pass_n:2 - task_pass_rate@1:0.5 - mean_reward:0.5\n"


def run(repeats: int = 5) -> list[Result]:
    """The share of a core."""
    ours: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        rundirs, held = _runs(Path(scratch))
        for _ in range(repeats):
            ours.append(_looks(rundirs))
        for fd in held:
            os.close(fd)
    share = [milliseconds / (EVERY_S * 1000) * 100 for milliseconds in ours]
    what = f"the screen of {RUNS} runs, 2 s between looks: its share of a core"
    return [Result(what, "", share, (), 10.0, unit="%", reached=2.3)]


def _looks(rundirs: list[RunDir]) -> float:
    looker = Looker(real_parts())
    for _ in range(10):  # a look reads so much at most: what is there already takes some
        looker.look()
    spent = 0.0
    for n in range(1, LOOKS + 1):
        for rundir in rundirs[: RUNS // 2]:
            with rundir.log.open("a") as log:
                log.write(STEP.format(n=n) + "\n")
        began = time.process_time()
        found = looker.look()
        spent += time.process_time() - began
        assert len(found.runs) == RUNS, len(found.runs)
        assert sum(line.step == n for line in found.runs) == RUNS // 2
    return spent * 1000 / LOOKS


def _runs(root: Path) -> tuple[list[RunDir], list[int]]:
    """The run directories, and the locks that say that their Runners and their Follower live."""
    rundirs = [RunDir(root / "runs" / f"run-{n:03}") for n in range(RUNS)]
    held = [_hold(root / "place/lock")]
    for n, rundir in enumerate(rundirs):
        spec = run_spec(rundir.path.name, rundir.path, created=time.time(), objective=Objective("task_pass_rate@1"))
        rundir.path.mkdir(parents=True)
        recorded_run.write(rundir, spec, {})
        index = real_parts().index
        index.add(IndexEntry(spec.run, spec.slug, spec.session, spec.run_dir, spec.result_dir, created=spec.created))
        if n < RUNS // 2:
            held.append(_hold(rundir.lock))
            rundir.log.write_text(VALIDATION + (STEP.format(n=1) + "\n") * 100)
        else:
            place, handle = Target("slurm", Kind.SLURM, 256), Handle(spec.run, str(n))
            order = Order(spec.run, place, spec.created, str(root / "place"), str(rundir.far), handle=handle)
            order_file.write(rundir, order)
            order_file.observe(rundir, Observed("running", spec.created, spec.created))
        write_json(rundir.runner, {"pid": os.getpid(), "started": spec.created, "started_boot": 1.0, "boot_id": "b"})
    return rundirs, held


def _hold(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
