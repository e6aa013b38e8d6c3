"""Commands that are typed hundreds of times a night, against the smallest typer program: whole processes.

`status` and `wait` answer about a living run, beside 10,000 rows in its ledger and 10,000 runs in the index.
The typer program has one command with two options and no extras; both are started as an installed console
script is. Each pair is taken three times as often as asked for: they are quick.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.records import tsv
from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.bench.yard import World, ask_to_stop, until

ROWS = 10_000
OFTEN = 3
TYPER = """
from typing import Annotated
import typer
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
@app.command()
def main(name: Annotated[str, typer.Option()] = "x", count: Annotated[int, typer.Option()] = 1) -> None:
    print(name * count)
app()
"""
OURS = "import sys\nfrom autoresearch.cli import main\nsys.exit(main())\n"


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds of whole processes."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        spec = world.begin(world.blueprint("living", "sleep 600"))
        _crowd(spec)
        theirs, ours = place / "typer_program.py", place / "autoresearch"
        theirs.write_text(TYPER)
        ours.write_text(OURS)
        run_it = [sys.executable, str(theirs), "--name", "a", "--count", "2"]
        help_it = [sys.executable, str(theirs), "--help"]
        command = [sys.executable, str(ours)]
        wait = ["wait", spec.run, "--for", "0s", "--json"]
        results = [
            _compare("`status --json`", [*command, "status", "--json"], run_it, repeats),
            _compare("`status RUN --json`", [*command, "status", spec.run, "--json"], run_it, repeats),
            _compare("`wait RUN --for 0s --json`", [*command, *wait], run_it, repeats),
            _compare("`--help`", [*command, "--help"], help_it, repeats),
        ]
        _end(spec)
    return results


def _compare(what: str, ours: list[str], theirs: list[str], repeats: int) -> Result:
    a: list[float] = []
    b: list[float] = []
    for turn in range(-1, OFTEN * repeats):  # the first turn warms the caches and compiles
        sides = [(a, ours), (b, theirs)]
        for samples, argv in sides if turn % 2 else sides[::-1]:
            took = _time(argv)
            if turn >= 0:
                samples.append(took)
    return Result(
        f"{what}, {ROWS} ledger rows, {ROWS} runs in the index" if "help" not in what else what,
        "typer program, one command, two options" + (": its `--help`" if "help" in what else ""),
        a,
        b,
        1.3,
        reached=1.1,
    )


def _time(argv: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL)
    took = 1000 * (time.perf_counter() - began)
    assert done.returncode == 0, done.stderr.decode()
    return took


def _crowd(spec: RunSpec) -> None:
    """Ten thousand earlier runs, in the ledger and in the index."""
    index = real_parts().index
    entry = json.loads(index.runs.read_bytes().splitlines()[-1])
    row = LedgerRow(
        index=1,
        branch=spec.branch,
        commit=spec.commit,
        metric_name="task_pass_rate@1",
        metric_value=0.5,
        command=spec.command,
        log_path=spec.run_dir + "/run.log",
        status="keep",
        description=spec.purpose,
        ending="finished",
        returncode=0,
        run_dir=spec.run_dir,
    )
    rows, entries = ["\t".join(COLUMNS)], []
    for number in range(ROWS):
        run = f"earlier-{number:06d}"
        cells = replace(row, index=number + 1, run_id=run).cells()
        rows.append("\t".join(tsv.escape(cell) for cell in cells.values()))
        own = {"run": run, "slug": "earlier", "session": f"ajet_{run}", "created": entry["created"] - number}
        entries.append(json.dumps({**entry, **own}))
    Path(spec.ledger).write_text("\n".join(rows) + "\n")
    index.runs.write_text("\n".join([*entries, json.dumps(entry)]) + "\n")


def _end(spec: RunSpec) -> None:
    rundir = RunDir(Path(spec.run_dir))
    ask_to_stop(rundir)
    until(rundir.collected.exists)
