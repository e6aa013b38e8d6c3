"""What asking Slurm costs in process, against its own commands: submit, poll and stop; one squeue per poll."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from autoresearch.core.run.job_launcher import Handle, Job
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.slurm import SlurmLauncher
from autoresearch.launchers.slurm_job import FIELDS
from tests.bench.result import Result
from tests.engines.slurm.cluster import Cluster, missing

GOAL = 1.2


def run(repeats: int) -> list[Result]:
    """Real calls where there can be a Slurm; recorded states everywhere."""
    results = [_recorded(count, repeats) for count in (1, 100, 1000)]
    if why := missing():
        print(f"submit, poll and stop are not compared: {why}")
        return results
    cluster = Cluster(nodes=2).up()
    try:
        return [*_real(cluster, 4 * repeats), *results]
    finally:
        for native, _, _ in cluster.jobs("PENDING", "RUNNING"):
            cluster.say("scancel", native)
        cluster.down()


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _real(cluster: Cluster, pairs: int) -> list[Result]:
    """Held jobs: nothing is started, so that only the calls are compared."""
    env = {**os.environ, **cluster.env}
    launcher = SlurmLauncher(Target("slurm", Kind.SLURM, 0, {"extra": ["--hold"]}), env)
    ours: dict[str, list[float]] = {"submit": [], "poll": [], "stop": []}
    theirs: dict[str, list[float]] = {"submit": [], "poll": [], "stop": []}

    def bare(*words: str, stdin: str = "") -> str:
        return subprocess.run(words, env=env, input=stdin, capture_output=True, text=True, check=True).stdout.strip()

    for number in range(pairs):
        job = _job(cluster.home, number)
        made: list[Handle] = []
        natives: list[str] = []
        ours["submit"].append(_ms(lambda job=job, made=made: made.append(launcher.submit(job))))
        words = ["sbatch", "--parsable", "--hold", "--no-requeue", "--output=/dev/null"]
        text = "#!/bin/bash\ntrue\n"
        theirs["submit"].append(_ms(lambda words=words, text=text, to=natives: to.append(bare(*words, stdin=text))))
        ours["poll"].append(_ms(lambda made=made: launcher.poll(made)))
        theirs["poll"].append(_ms(lambda: bare("squeue", "--me", "-h", "-t", "all", f"--Format={FIELDS}")))
        ours["stop"].append(_ms(lambda made=made: launcher.stop(made[0], hard=True)))
        theirs["stop"].append(_ms(lambda to=natives: bare("scancel", to[0])))
    programs = {"submit": ("sbatch", 0.97), "poll": ("squeue", 0.89), "stop": ("scancel", 0.89)}
    return [
        Result(f"slurm: {k}", f"launcher / {program}", ours[k], theirs[k], GOAL, reached=reached)
        for k, (program, reached) in programs.items()
    ]


def _job(home: Path, number: int) -> Job:
    return Job(
        run=f"bench-{number}",
        name=f"ajet_bench_{number}",
        campaign="bench",
        directory=str(home),
        argv=("true",),
        cwd=str(home),
        max_s=60.0,
        grace_s=1.0,
    )


def _recorded(count: int, repeats: int) -> Result:
    """A squeue that prints what a real one printed: our part of a poll is what is added to it."""
    with tempfile.TemporaryDirectory(prefix="ar-") as folder:
        home = Path(folder)
        lines = [f"{n}|RUNNING|0|n{n % 8}|ajet_r{n}|None|autoresearch:c:r{n}" for n in range(1, count + 1)]
        (home / "rows").write_text("\n".join(lines) + "\n")
        (home / "squeue").write_text(f'#!/bin/sh\necho >> "{home}/calls"\nexec cat "{home}/rows"\n')
        (home / "squeue").chmod(0o755)
        env = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
        launcher = SlurmLauncher(Target("slurm", Kind.SLURM), env)
        handles = [Handle(f"r{n}", str(n)) for n in range(1, count + 1)]
        calls = []
        for _ in range(repeats):
            (home / "calls").unlink(missing_ok=True)
            assert len(launcher.poll(handles)) == count
            calls.append(float(len((home / "calls").read_text().splitlines())))
        took = sorted(_ms(lambda: launcher.poll(handles)) for _ in range(repeats))[repeats // 2]
        note = f"a poll takes {took:.1f} ms, the stand-in's own start in it"
    return Result(
        f"slurm: calls of a poll of {count} runs", "goal: one", calls, (), 1.0, unit="calls", note=note, reached=1
    )
