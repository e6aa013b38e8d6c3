"""From a command that is typed to the trainer's first instruction: `run --detach`.

It resolves the blueprint, keeps the code on a branch, and starts a Runner that enforces limits and records the end;
the tmux server runs already. Counted in starts of Python, as a command cannot be quicker than one.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.bench.yard import COMMAND, World, start_ms, until

OURS = "run --detach"
PYTHON = "a start of Python with argparse and json"


def run(repeats: int = 5) -> Iterator[Result]:
    """Milliseconds from the moment before the command is started to the trainer's stamp."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world, stamps = World.make(place), iter(place / f"stamp{n}" for n in range(1_000_000))
        (place / "trainer.sh").write_text('echo $EPOCHREALTIME >"$1.new"; mv "$1.new" "$1"\n')
        world.run("server", "true")  # so that our tmux server runs
        start, ours, bare = _ours(world), list[float](), list[float]()
        for turn in range(-1, repeats):  # the first turn compiles
            stamp = next(stamps)
            began = time.time()
            start(["bash", str(place / "trainer.sh"), str(stamp)])
            until(stamp.exists)
            if turn >= 0:
                ours.append(1000 * (float(stamp.read_text()) - began))
                bare.append(start_ms())
            until(lambda: all(each.collected.exists() for each in _runs(world)))
        yield Result(f"`{OURS}`: from the command to the trainer's first instruction", PYTHON, ours, bare, 40.0)


def _ours(world: World) -> Callable[[list[str]], object]:
    def by_run(words: list[str]) -> None:
        blueprint = world.blueprint(Path(words[-1]).name, " ".join(words))
        argv = [str(COMMAND), "run", str(blueprint), "--detach", "--json"]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    return by_run


def _runs(world: World) -> list[RunDir]:
    return [RunDir(path.parent) for path in world.place.rglob("spec.json")]
