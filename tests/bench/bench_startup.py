"""What a command costs that people and agents type all night, as they type it: CPU of whole processes.

Beside it a program with argparse, two options and one line of JSON, started by the same Python as a console script is.
`status` and `wait` answer about a living run, beside 10,000 rows in its ledger and 10,000 runs in the index; the
dry runs resolve a blueprint, and a campaign of two. Sides take turns.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.records import tsv
from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.bench.yard import COMMAND, World, ask_to_stop, spent_ms, until

ROWS = 10_000
BARE = """
import argparse
import json
parser = argparse.ArgumentParser()
parser.add_argument("--name", default="x")
parser.add_argument("--count", type=int, default=1)
print(json.dumps(vars(parser.parse_args())))
"""
REACHED = (3.0, 3.0, 3.0, 7.0, 10.0, 3.2)  # in the order of the rows


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds of CPU."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        world = World.make(place)
        spec = world.begin(world.blueprint("living", "sleep 600"))
        _crowd(spec)
        base = world.blueprint("base", "python train.py")
        queue = place / "queue"
        queue.mkdir()
        world.blueprint("idea", "python train.py --lr 1").rename(queue / "idea.md")
        campaign = place / "bench.yaml"
        campaign.write_text(f"blueprint: {base}\ncount: 2\nqueue: {queue}/\n")
        bare = place / "bare.py"
        bare.write_text(BARE)
        living = f"{ROWS} ledger rows, {ROWS} runs in the index"
        rows = [
            (f"`status --json`, {living}", ["status", "--json"], 2.0, REACHED[0]),
            (f"`status RUN --json`, {living}", ["status", spec.run, "--json"], 2.0, REACHED[1]),
            (f"`wait RUN --for 0s --json`, {living}", ["wait", spec.run, "--for", "0s", "--json"], 2.0, REACHED[2]),
            ("`run --dry-run`", ["run", str(base), "--dry-run"], 2.5, REACHED[3]),
            ("`campaign FILE --dry-run`", ["campaign", str(campaign), "--dry-run"], 4.0, REACHED[4]),
            ("`--help`", ["--help"], None, REACHED[5]),
        ]
        theirs = [sys.executable, str(bare), "--name", "a", "--count", "2"]
        results = []
        for what, words, goal, reached in rows:
            a: list[float] = []
            b: list[float] = []
            for turn in range(-1, 2 * repeats):  # the first turn warms the caches and compiles
                sides = [(a, [str(COMMAND), *words]), (b, theirs)]
                for samples, argv in sides if turn % 2 else sides[::-1]:
                    took = spent_ms(argv)
                    if turn >= 0:
                        samples.append(took)
            results.append(Result(f"{what}: CPU", "argparse and json, bare", a, b, goal, reached=reached))
        _end(spec)
    return results


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
