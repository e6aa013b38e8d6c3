"""Idle runs: the CPU of their Runners, the memory of these and of a process that watches 200 of them.

The Runners are real ones, on `sleep`, started with the command line that the product uses, and all live in the same
window; beside them `repeats` processes with a Watcher over all their runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.bench.yard import (
    World,
    ask_to_stop,
    cpu_ms,
    end_run,
    line_of,
    memory_mb,
    python,
    runner_pid,
    until,
)
from tests.processes import is_dead

RUNS = 200
SETTLE_S = 30.0  # the Runner looks more often at first
WINDOW_S = 30.0
WATCH = """
import sys
from pathlib import Path
import autoresearch.cli, autoresearch.commands.run_view, autoresearch.commands.run
from autoresearch.lab.runs.run_status import Watcher
from autoresearch.records.rundir import RunDir
watcher = Watcher([RunDir(Path(line)) for line in Path(sys.argv[1]).read_text().splitlines()])
print("blocked", flush=True)
watcher.wait(3600)
"""


def run(repeats: int = 5) -> list[Result]:
    """Per cent of a core; memory in megabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        return _measure(Path(scratch), repeats)


def _measure(place: Path, repeats: int) -> list[Result]:
    world = World.make(place / "world")
    alone = [_alone(world, turn) for turn in range(repeats)]
    model = world.run("idle", "sleep 900")
    with _runners(place / "runs", model) as runs, ExitStack() as stack:
        watchers = [_watcher(stack, place / "many", runs) for _ in range(repeats)]
        runners = [runner_pid(rundir) for rundir in runs]
        time.sleep(SETTLE_S)
        busy = _rates(runners)
        memory = [memory_mb(pid, "Rss") for pid in watchers]
        shared = statistics.median(memory_mb(pid) for pid in watchers)
        crowd = statistics.median(memory_mb(pid) for pid in runners)
    end_run(model)
    every, many = f"each of {RUNS} Runners at once", f"alone; {crowd:.1f} MB as one of {RUNS}"
    watching = f"memory of the CLI watching {RUNS} runs"
    return [
        Result("idle Runner: CPU", "", busy, [], 0.1, "% of a core", note=every, reached=0.0048),
        Result("memory of a Runner", "", alone, [], 6, "MB PSS", note=many, reached=5.92),
        Result(watching, "", memory, [], 60, "MB RSS", note=f"PSS {shared:.0f} MB", reached=25.6),
    ]


def _alone(world: World, turn: int) -> float:
    """PSS of a Runner that the product launched, some seconds into its run."""
    rundir = world.run(f"alone{turn}", "sleep 600")
    pid = runner_pid(rundir)
    time.sleep(2)
    memory = memory_mb(pid)
    end_run(rundir)
    return memory


@contextmanager
def _runners(place: Path, model: RunDir) -> Iterator[list[RunDir]]:
    """Real Runners, each as that of `model`: the same program, flags and spec, but no pane and no collector."""
    argv = Path(f"/proc/{runner_pid(model)}/cmdline").read_bytes().decode().split("\0")[:-1]
    spec = json.loads(model.spec.read_bytes())
    runs: list[RunDir] = []
    with ExitStack() as stack:
        for number in range(RUNS):
            rundir = RunDir(place / f"run{number}")
            rundir.path.mkdir(parents=True)
            own: dict[str, object] = {"run": f"{spec['run'][:40]}-{number}", "run_dir": str(rundir.path)}
            own |= {"collector": [], "journal": ""}
            rundir.spec.write_text(json.dumps({**spec, **own}))
            environment = {k: v for k, v in os.environ.items() if not k.startswith("AUTORESEARCH_RUN")}
            process = subprocess.Popen(
                [*argv[:-1], str(rundir.path)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(ask_to_stop, rundir)
            runs.append(rundir)
        for rundir in runs:
            until(lambda r=rundir: b'"started"' in (r.events.read_bytes() if r.events.exists() else b""))  # type: ignore[misc]
        try:
            yield runs
        finally:
            for rundir in runs:
                ask_to_stop(rundir)
            until(lambda: all(rundir.exit_record.exists() for rundir in runs), 180)


def _watcher(stack: ExitStack, names: Path, runs: list[RunDir]) -> int:
    names.write_text("".join(f"{rundir.path}\n" for rundir in runs))
    process = python(WATCH, str(names))
    assert line_of(process) == "blocked"
    return _ended(stack, process)


def _ended(stack: ExitStack, process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    """See to it that a process is ended with the block; its pid."""

    def end() -> None:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()

    stack.callback(end)
    return process.pid


def _rates(pids: list[int]) -> list[float]:
    """Per cent of a core that each process takes over one window."""
    before, began = [cpu_ms(pid) for pid in pids], time.monotonic()
    time.sleep(WINDOW_S)
    took = time.monotonic() - began
    assert not any(is_dead(pid) for pid in pids), "a process under measurement has ended"
    return [(cpu_ms(pid) - was) / took / 10 for pid, was in zip(pids, before, strict=True)]
