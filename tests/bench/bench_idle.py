"""Watching idle runs: CPU of the watching process and of the Runners, and the memory of both.

Both sides are measured in the same window, side by side: `repeats` processes with a Watcher over 200 runs each,
the 200 Runners themselves (real ones, on `sleep`, started with the command line that the product uses), and
published wait scripts, each polling a session with a sleeper in it. 200 scripts are not started: four for each
repeat are, and scaled. Before that, the same for one run.
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
from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import (
    Tmux,
    World,
    ask_to_stop,
    cpu_ms,
    end_run,
    is_dead,
    line_of,
    memory_mb,
    private_tmux,
    python,
    runner_pid,
    until,
)

RUNS = 200
SCRIPTS = 4  # for each repeat
SETTLE_S = 30.0  # the Runner looks more often at first
WINDOW_S = 30.0
WATCH = """
import sys
from pathlib import Path
import autoresearch.cli, autoresearch.commands.run_view, autoresearch.commands.run
from autoresearch.lab.runs.watch import Watcher
from autoresearch.records.rundir import RunDir
watcher = Watcher([RunDir(Path(line)) for line in Path(sys.argv[1]).read_text().splitlines()])
print("blocked", flush=True)
watcher.wait(3600)
"""


def run(repeats: int = 5) -> list[Result]:
    """CPU in milliseconds per second of idling; memory in megabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        return _measure(Path(scratch), repeats)


def _measure(place: Path, repeats: int) -> list[Result]:
    world = World.make(place / "world")
    alone = [_alone(world, turn) for turn in range(repeats)]
    model = world.run("idle", "sleep 900")
    with private_tmux(place) as tmux:
        published.start(tmux.socket, "theirs", "sleep 900")
        until(lambda: not published.pane_is_idle(tmux.socket, "theirs"))
        with ExitStack() as stack:
            one = [_watcher(stack, place / "one", [model]) for _ in range(repeats)]
            cpu = _rates(one, scripts := _scripts(stack, tmux, repeats))
            single = [cpu[pid] for pid in one], [cpu[pid] for pid in scripts]
        with _runners(place / "runs", model) as runs, ExitStack() as stack:
            many = [_watcher(stack, place / "many", runs) for _ in range(repeats)]
            scripts = _scripts(stack, tmux, SCRIPTS * repeats)
            runners = [runner_pid(rundir) for rundir in runs]
            time.sleep(SETTLE_S)
            cpu = _rates([*many, *runners], scripts)
            sampled = [statistics.fmean(cpu[pid] for pid in scripts[n::repeats]) for n in range(repeats)]
            memory = [memory_mb(pid, "Rss") for pid in many]
            shared = statistics.median(memory_mb(pid) for pid in many)
            crowd = statistics.median(memory_mb(pid) for pid in runners)
    end_run(model)
    own = [cpu[pid] for pid in many]
    busy = [cpu[pid] / 10 for pid in runners]
    return [
        Result("watching 1 idle run: CPU of the CLI", "1 published script", *single, 0.05, "ms/s", reached=0.0028),
        Result(
            f"watching {RUNS} idle runs: CPU of the CLI",
            f"{RUNS} published scripts",
            own,
            [RUNS * value for value in sampled],
            0.002,
            "ms/s",
            note=f"theirs: {SCRIPTS} scripts a sample, scaled to {RUNS}",
            reached=0.00022,
        ),
        Result(
            "idle Runner: CPU", "", busy, [], 0.1, "% of a core", note=f"each of {RUNS} Runners at once", reached=0.0048
        ),
        Result(
            "memory of a Runner",
            "",
            alone,
            [],
            6,
            "MB PSS",
            note=f"alone; {crowd:.1f} MB as one of {RUNS}",
            reached=5.92,
        ),
        Result(
            f"memory of the CLI watching {RUNS} runs",
            "",
            memory,
            [],
            60,
            "MB RSS",
            note=f"PSS {shared:.0f} MB",
            reached=25.6,
        ),
    ]


def _scripts(stack: ExitStack, tmux: Tmux, count: int) -> list[int]:
    """Published wait scripts that poll one session."""
    argv = published.wait_argv(tmux.socket, "theirs", 900)
    pids = [_ended(stack, subprocess.Popen(argv)) for _ in range(count)]
    time.sleep(1)  # their start is no part of watching
    return pids


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


def _rates(alone: list[int], with_children: list[int]) -> dict[int, float]:
    """Milliseconds of CPU per second of each process over one window."""

    def now() -> dict[int, float]:
        return {pid: cpu_ms(pid) for pid in alone} | {pid: cpu_ms(pid, children=True) for pid in with_children}

    before, began = now(), time.monotonic()
    time.sleep(WINDOW_S)
    after, took = now(), time.monotonic() - began
    assert not any(is_dead(pid) for pid in before), "a process under measurement has ended"
    return {pid: (after[pid] - before[pid]) / took for pid in before}
