"""From a command that is typed to the trainer's first instruction: `run --detach`, and what else starts a job.

Ours resolves the blueprint, keeps the code on a branch, and has a Runner that enforces limits and records the end;
the others start the same bash script and know nothing of it. All have their server running. Beside it: `nohup` in the
background; `tmux new-session -d`; the published way, which types into a session; task-spooler; and submitit's local
executor, as a program of four lines. `make bench-tools` installs the last two; what is missing is said and left out.
pueue is in neither Debian nor Python's registry, and is not compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autoresearch.records.rundir import RunDir
from tests.bench import published
from tests.bench.result import Result
from tests.bench.yard import COMMAND, OTHERS, World, private_tmux, start_ms, until

SUBMITIT = """
import subprocess, sys
import submitit
executor = submitit.LocalExecutor(folder=sys.argv[1])
executor.submit(subprocess.run, sys.argv[2:])
"""
OURS = "run --detach"
PYTHON = "a start of Python with argparse and json"
GOALS = {PYTHON: 40.0, "submitit's local executor": 1.0}


def run(repeats: int = 5) -> Iterator[Result]:
    """Milliseconds from the moment before the command is started to the trainer's stamp."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world, stamps = World.make(place), iter(place / f"stamp{n}" for n in range(1_000_000))
        (place / "trainer.sh").write_text('echo $EPOCHREALTIME >"$1.new"; mv "$1.new" "$1"\n')
        with private_tmux(place) as tmux:
            world.run("server", "true")  # so that our tmux server runs as well
            ways = {OURS: _ours(world), **_ways(place, tmux.socket)}
            found: dict[str, list[float]] = {name: [] for name in (*ways, PYTHON)}
            for turn in range(-1, repeats):  # the first turn compiles
                for name, start in ways.items():
                    stamp = next(stamps)
                    began = time.time()
                    start(["bash", str(place / "trainer.sh"), str(stamp)])
                    until(stamp.exists)
                    if turn >= 0:
                        found[name].append(1000 * (float(stamp.read_text()) - began))
                if turn >= 0:
                    found[PYTHON].append(start_ms())
                until(lambda: all(each.collected.exists() for each in _runs(world)))
        what = f"`{OURS}`: from the command to the trainer's first instruction"
        ours = found.pop(OURS)
        for name, theirs in found.items():
            yield Result(what, name, ours, theirs, GOALS.get(name))


def _ours(world: World) -> Callable[[list[str]], object]:
    def by_run(words: list[str]) -> None:
        blueprint = world.blueprint(Path(words[-1]).name, " ".join(words))
        argv = [str(COMMAND), "run", str(blueprint), "--detach", "--json"]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    return by_run


def _runs(world: World) -> list[RunDir]:
    return [RunDir(path.parent) for path in world.place.rglob("spec.json")]


def _ways(place: Path, socket: str) -> dict[str, Callable[[list[str]], object]]:
    """How each of the others starts a command line."""

    def by_nohup(words: list[str]) -> None:
        subprocess.Popen(["nohup", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).wait()

    def by_tmux(words: list[str]) -> None:
        subprocess.run(["tmux", "-S", socket, "new-session", "-d", *words], check=True)

    def typed(words: list[str]) -> None:
        published.start(socket, Path(words[-1]).name, " ".join(words))

    def by_spooler(words: list[str]) -> None:
        subprocess.run(["tsp", *words], check=True, stdout=subprocess.DEVNULL)

    def by_submitit(words: list[str]) -> None:
        subprocess.run([str(OTHERS), "-c", SUBMITIT, str(place / "submitit"), *words], check=True)

    ways = {"`tmux new-session -d`": by_tmux, "the published way": typed, "`nohup`": by_nohup}
    if shutil.which("tsp"):
        os.environ["TS_SOCKET"] = str(place / "tsp")
        subprocess.run(["tsp"], check=True, stdout=subprocess.DEVNULL)
        ways["task-spooler"] = by_spooler
    else:
        print("   task-spooler is missing: make bench-tools", flush=True)
    if OTHERS.exists():
        ways["submitit's local executor"] = by_submitit
    else:
        print(f"   submitit is missing ({OTHERS}): make bench-tools", flush=True)
    return ways
