"""What commands that people type cost without a clock: modules, files, programs, system calls, and CPU.

Each is started as the installed console script is, in a repository with one living run, and nothing here depends on
how fast the machine is, or what else it does. CPU is that of the whole process with all that it waited for, over that
of a Python program with argparse and json, in turn. Modules are counted by `-X importtime`, the rest by `strace -f`:
files that were opened, programs that were started, and system calls, which include those of these programs. `collect`
is what the Runner calls at the end of a run; here it records runs that ended without it. One row is about a Runner
whose trainer is silent. CI runs this: `make bench-counts`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from autoresearch.lab.launch import runner_session
from autoresearch.records.rundir import RunDir
from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import COMMAND, World, end_run, runner_pid, spent_ms, until

SETTLE_S, WINDOW_S = 30.0, 30.0  # the Runner looks more often at first
OPENED = re.compile(r"(?:open(?:at2?)?|creat)(?:\(| resumed>).*= \d+")
STARTED = re.compile(r"execve(?:\(| resumed>).*= 0$")


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line, and what its CPU may be over the small program's."""

    name: str
    argv: Callable[[], list[str]]  # of one more process
    goal: float | None


def run(repeats: int = 5) -> Iterator[Result]:
    """Ratios of CPU, and counts."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        idle = world.run("idle", "sleep 900")
        began = time.monotonic()
        small = place / "small.py"
        small.write_text(published.SMALL_PROGRAM)
        with contextlib.chdir(world.repo):
            for typed in _typed(world, idle):
                yield from _counted(
                    typed, [sys.executable, str(small), "--name", "a", "--json"], place / "trace", repeats
                )
        time.sleep(max(0.0, began + SETTLE_S - time.monotonic()))
        yield from _idle(idle)
        end_run(idle)


def _typed(world: World, idle: RunDir) -> list[Typed]:
    queue, number = world.place / "ideas.yaml", iter(range(1_000_000))
    queue.write_text("".join(f"- {{slug: idea-{n}, overrides: {{level: {n}}}}}\n" for n in range(20)))
    searched = world.searched("searched", "cat recipe.yaml")
    name = idle.path.name
    campaign = ["campaign", str(searched), "--queue", str(queue), "--count", "20", "--dry-run", "--json"]

    def new(*words: str) -> list[str]:
        """One that outlives the command: `run` records a trainer that ends at once itself, if it comes first."""
        return ["run", str(world.blueprint(f"new{next(number)}", "sleep 900")), *words]

    def over() -> list[str]:
        with mock.patch.object(runner_session, "keys_of_runner", _without_collector):
            rundir = world.run(f"over{next(number)}", "true")
        until(rundir.exit_record.exists)
        return ["collect", str(rundir.path)]

    return [
        Typed("--help", lambda: ["--help"], 12),
        Typed("status --json", lambda: ["status", "--json"], 12),
        Typed("wait RUN --for 0s --json", lambda: ["wait", name, "--for", "0s", "--json"], 12),
        Typed("run FILE --dry-run", lambda: new("--dry-run"), 25),
        Typed("campaign FILE --dry-run", lambda: campaign, 25),
        Typed("run FILE --detach", lambda: new("--detach", "--json"), 40),
        Typed("collect RUN", over, None),
    ]


_keys = runner_session.keys_of_runner


def _without_collector(*given: object, **named: object) -> dict[str, object]:
    return {**_keys(*given, **named), "collector": []}  # type: ignore[arg-type]


def _counted(typed: Typed, small: list[str], trace: Path, repeats: int) -> Iterator[Result]:
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(-1, 2 * repeats):  # the first turn compiles
        argv = [str(COMMAND), *typed.argv()]
        for side in (0, 1) if turn % 2 else (1, 0):
            spent = spent_ms(small if side else argv)
            if turn >= 0:
                (theirs if side else ours).append(spent)
    name = f"`{typed.name}`"
    yield Result(f"{name}: CPU", "argparse and json", ours, theirs, typed.goal)
    listed = [sys.executable, "-X", "importtime", str(COMMAND), *typed.argv()]
    told = subprocess.run(listed, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stderr
    modules = sum(line.startswith("import time:") for line in told.splitlines()) - 1
    counts = {"modules imported": modules}
    strace = ["strace", "-f", "-qq", "-o", str(trace)]
    if shutil.which("strace") and not subprocess.run([*strace, "true"], capture_output=True).returncode:
        subprocess.run(
            [*strace, str(COMMAND), *typed.argv()], stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        lines = trace.read_text(errors="replace").splitlines()
        counts["files opened"] = sum(bool(OPENED.search(line)) for line in lines)
        counts["programs started"] = sum(bool(STARTED.search(line)) for line in lines) - 1
        counts["system calls"] = sum("(" in line and " resumed>" not in line and " --- " not in line for line in lines)
    else:
        print("   strace is missing, or may not trace: files, programs and system calls are not counted", flush=True)
    for what, count in counts.items():
        yield Result(f"{name}: {what}", "", [count], [], None, "")


def _idle(idle: RunDir) -> Iterator[Result]:
    pid = runner_pid(idle)

    def woken() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("voluntary_ctxt_switches:")[2].split()[0])

    before = woken()
    time.sleep(WINDOW_S)
    a_minute = 60 / WINDOW_S * (woken() - before)
    yield Result("a silent run: its Runner wakes up", "", [a_minute], [], None, "times a minute", reached=90)
