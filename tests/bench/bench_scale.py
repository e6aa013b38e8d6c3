"""Whether cost grows with size, or faster: 1,000 ideas, 100,000 rows, 100,000 files.

The campaign is started as it is typed, one run at a time, with a trainer of a tenth of a second and a queue that
changes one number of the recipe. CPU is that of its controller and of all that it waited for; Runners, which are of
the tmux server, are not in it. A row compares the last tenth of the ideas with the second (the first holds the start),
or the largest repository with the smallest, each divided by its size: 1 is linear. Commands at 100,000 rows are
compared with those at 10. SCALE_IDEAS: another number. What else grows is measured beside its own subject: what a run
costs and the gap between runs (`campaign`), living runs (`idle`), a long log (`explain`).
docs/scale.md draws the conclusions.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.git_repo.branches import claim_branch
from autoresearch.git_repo.checkout import find
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.ledger import escape
from tests.bench.result import Result
from tests.bench.yard import (
    COMMAND,
    ROOT,
    World,
    cpu_ms,
    end_run,
    fill,
    isolated,
    memory_mb,
    spent_ms,
    until,
)
from tests.processes import processes_with

PLOT = ROOT / "docs" / "scale.svg"
IDEAS = int(os.environ.get("SCALE_IDEAS", "1000"))
TENTH = IDEAS // 10
ROWS = (10, 10_000, 100_000)
FILES = (1_000, 10_000, 100_000)
MODIFIED, UNTRACKED = 20, 10  # of a dirty tree
TRAINER = """echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
sleep 0.1
echo "step:1 - task_pass_rate@1:0.$((RANDOM % 900 + 100)) - pass_n:2"
"""


Lines = dict[str, Mapping[int, float]]  # of the plot: what there is so many of, and milliseconds of CPU


@dataclass(frozen=True, slots=True)
class Moment:
    """The campaign when so many ideas have a row."""

    rows: int
    wall_s: float
    cpu_ms: float
    memory: float


def run(repeats: int = 5) -> Iterator[Result]:
    """Milliseconds for each idea; one campaign, whatever the repeats: it takes minutes."""
    lines: Lines = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        yield from _campaign(World.make(Path(scratch)), repeats, lines)
    yield from _rows_and_entries(repeats, lines)
    yield from _files(repeats, lines)
    if "--write" in sys.argv:
        draw(lines)


def draw(lines: Lines) -> None:
    """docs/scale.svg: each line with both axes logarithmic, where what is linear rises by one decade in a decade."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "scale", "font.size": 9}):
        figure = Figure(figsize=(7.5, 4), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel="so many of them", ylabel="ms of CPU")
        for name, points in lines.items():
            axes.plot([*points], [*points.values()], marker="o", markersize=3, label=name)
        axes.plot([1e3, 1e5], [10, 1000], color="#999", linestyle=":", label="linear")
        axes.grid(color="#ddd", linewidth=0.5)
        axes.minorticks_off()
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(PLOT, metadata={"Date": None})


def _campaign(world: World, repeats: int, lines: Lines) -> Iterator[Result]:
    (world.repo / "train.sh").write_text(TRAINER)
    queue, blueprint = world.place / "ideas.yaml", world.searched("scale", "bash train.sh recipe.yaml")
    queue.write_text("".join(f"- {{slug: idea-{n}, overrides: {{level: {n}}}}}\n" for n in range(1, IDEAS)))
    words = ["campaign", str(blueprint), "--queue", str(queue), "--count", str(IDEAS)]
    once = (word for key in ("confirm=false", "retests=0", "baseline=1") for word in ("--set", key))
    argv = [str(COMMAND), *words, *once, "--yes", "--detach", "--json"]
    told = subprocess.run(argv, cwd=world.place, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    directory = CampaignDir(Path(json.loads(told.stdout)["directory"]))
    moments = _followed(directory)
    for moment, after in pairwise(moments):
        wall, cpu = after.wall_s - moment.wall_s, after.cpu_ms - moment.cpu_ms
        count = after.rows - moment.rows
        print(
            f"   ideas {moment.rows + 1} to {after.rows}: {wall / count:.3f} s and {cpu / count:.0f} ms of CPU each, "
            f"controller {after.memory:.0f} MB",
            flush=True,
        )
    costs = [(b.cpu_ms - a.cpu_ms) / (b.rows - a.rows) for a, b in pairwise(moments)]
    lines["ideas: controller, one idea"] = {moment.rows: cost for moment, cost in zip(moments[1:], costs, strict=True)}
    what = f"campaign of {IDEAS} ideas"
    last = f"{what}: CPU of an idea in the last tenth"
    yield Result(last, "in the second", [costs[-1]], [costs[1]], 2.0)
    yield Result(f"{what}: memory of its controller at the end", "", [moments[-1].memory], [], 60, "MB PSS")
    for name, goal in (("report", 1500.0), ("campaign status", None)):
        argv = [str(COMMAND), *name.split(), str(directory.path), "--json"]
        yield Result(f"{what}: CPU of `{name}`", "", [spent_ms(argv) for _ in range(repeats)], [], goal)


def _followed(directory: CampaignDir) -> list[Moment]:
    """A moment at each tenth of the ideas."""
    pids: list[int] = []
    until(lambda: pids.extend(processes_with(["control\0" + str(directory.path)], "cmdline")) or pids)
    pid, began, moments = pids[0], time.monotonic(), [Moment(0, 0.0, 0.0, 0.0)]
    while moments[-1].rows < IDEAS:
        wanted = moments[-1].rows // TENTH * TENTH + TENTH
        until(lambda wanted=wanted: _rows(directory) >= min(wanted, IDEAS), 900, 0.05)  # type: ignore[misc]
        moments.append(Moment(_rows(directory), time.monotonic() - began, cpu_ms(pid, children=True), memory_mb(pid)))
    until(directory.flag.exists, 120)
    return moments


def _rows(directory: CampaignDir) -> int:
    return max(0, directory.ledger.read_bytes().count(b"\n") - 1) if directory.ledger.exists() else 0


def _rows_and_entries(repeats: int, lines: Lines) -> Iterator[Result]:
    """Commands about one living run, beside so many rows in its ledger and as many runs in the index."""
    for name, reached in (("status --json", 1.32), ("status RUN --json", 1.43), ("ledger show RUN --json", 1.63)):
        found: dict[int, list[float]] = {}
        for rows in ROWS:
            with isolated(), tempfile.TemporaryDirectory() as scratch:
                world = World.make(Path(scratch))
                rundir = world.run("living", "sleep 600")
                _crowd(world.runs[-1], rows)
                argv = [str(COMMAND), *(rundir.path.name if word == "RUN" else word for word in name.split())]
                found[rows] = [spent_ms(argv) for _ in range(repeats)]
                end_run(rundir)
            print(f"   `{name}` at {rows} rows: {statistics.median(found[rows]):.0f} ms of CPU", flush=True)
        lines[f"rows: `{name}`"] = {rows: statistics.median(costs) for rows, costs in found.items()}
        what = f"`{name}` at {ROWS[-1]} rows and runs: CPU"
        yield Result(what, f"at {ROWS[0]}", found[ROWS[-1]], found[ROWS[0]], None, reached=reached)


def _crowd(spec: RunSpec, count: int) -> None:
    """So many earlier runs, in the ledger and in the index."""
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
    for number in range(count):
        run = f"earlier-{number:06d}"
        cells = replace(row, index=number + 1, run_id=run).cells()
        rows.append("\t".join(escape(cell) for cell in cells.values()))
        own = {"run": run, "slug": "earlier", "session": f"ajet_{run}", "created": entry["created"] - number}
        entries.append(json.dumps({**entry, **own}))
    Path(spec.ledger).write_text("\n".join(rows) + "\n")
    index.runs.write_text("\n".join([*entries, json.dumps(entry)]) + "\n")


def _files(repeats: int, lines: Lines) -> Iterator[Result]:
    """A snapshot of a dirty tree: milliseconds of CPU for 1,000 files."""
    costs = {files: [took / files * 1000 for took in _snapshots(repeats, files)] for files in FILES}
    for files, cost in costs.items():
        print(f"   snapshot of {files} files: {statistics.median(cost):.1f} ms of CPU for each 1,000", flush=True)
    lines["files: snapshot"] = {files: statistics.median(cost) * files / 1000 for files, cost in costs.items()}
    what = f"snapshot of a dirty tree of {FILES[-1]} files: CPU for each file"
    yield Result(what, f"of {FILES[0]} files", costs[FILES[-1]], costs[FILES[0]], 1.1, reached=0.173)


def _snapshots(repeats: int, files: int) -> list[float]:
    """Milliseconds of CPU of a snapshot branch of a dirty tree, with the git that it waits for."""
    took = []
    with tempfile.TemporaryDirectory(prefix="bench-snapshot-") as scratch:
        world = World.make(Path(scratch), lambda root: fill(root, files))
        checkout = find(world.repo)
        assert checkout is not None
        for turn in range(-1, repeats):  # the first turn warms the caches
            _dirty(world.repo, turn, files)
            subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=world.repo, capture_output=True)
            began = _cpu_s()
            claim_branch(checkout, f"try/{turn + 1}", snapshot(checkout, message="snapshot").commit)
            if turn >= 0:
                took.append((_cpu_s() - began) * 1000)
    return took


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _dirty(root: Path, turn: int, files: int) -> None:
    """Change and add other content each time; time stamps in the past, as in a tree at rest."""
    past = time.time() - 100
    changed = [root / f"package{number}/module{number * (files // 100)}.py" for number in range(MODIFIED)]
    for path in (*changed, *(root / f"package{number}/new{number}.py" for number in range(UNTRACKED))):
        path.write_text(f"turn = {turn}\n" * 21)
        os.utime(path, (past, past))
