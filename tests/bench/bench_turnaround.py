"""From the trainer's last instruction to the next trainer's first: ours through the lab, and the published way.

Between the two lie: noticing the end, reading it, a row in the ledger (ours with fsync, and results, flag and
results document), a branch whose commit holds the changed tree of 10,000 files, and a new tmux session. Ours
also ends what the trainer left behind and writes the exit record. Both sides are one process that has
everything imported, as a loop over experiments would be. Ours prepares the next run (branch, commit, session)
while the last one still trains, as a campaign does; a second row shows what it costs without that.

The trainer is a bash script under another name (the published script takes `bash` for an idle pane), so that
no interpreter's start is measured on either side. Its length spreads the phase of the polls evenly.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.results.collect import collect
from autoresearch.lab.runs.watch import Watcher
from autoresearch.records.rundir import RunDir
from tests.bench import published
from tests.bench.bench_snapshot import FILES, fill
from tests.bench.result import Result
from tests.bench.yard import Tmux, World, private_tmux, until

TRAINER = """echo "first $EPOCHREALTIME" >>"$1"
sleep "$2"
echo "step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2"
echo "step:1 - task_pass_rate@1:0.5 - pass_n:2"
echo "last $EPOCHREALTIME" >>"$1"
"""


def run(repeats: int = 5) -> list[Result]:
    """Milliseconds of each gap between two runs, ours and theirs in turn."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "train.sh").write_text(TRAINER)
        bash = shutil.which("bash")
        assert bash
        (place / "trainer").symlink_to(bash)
        ours, theirs = World.make(place / "a", fill), World.make(place / "b", fill)
        with private_tmux(place) as tmux:
            rows = [
                (_ours(place, ours, turn), _theirs(place, theirs, tmux, turn, (turn + 0.5) / repeats))
                for turn in range(repeats)
            ]
            late = [_ours(place, ours, repeats + turn, ahead=False) for turn in range(repeats)]
    what = "trainer exits: first instruction of the next trainer (branch, commit, ledger, session;"
    how = "GitPython, send-keys, 2 s poll"
    mine, published_way = [1000 * a for a, _ in rows], [1000 * b for _, b in rows]
    return [
        Result(f"{what} {FILES} files; prepared meanwhile)", how, mine, published_way, 0.08),
        Result(f"{what} {FILES} files; not prepared)", how, [1000 * a for a in late], published_way, 0.08),
    ]


def _command(place: Path, stamps: Path, seconds: float) -> str:
    return f"{place}/trainer {place}/train.sh {stamps} {seconds:.2f}"


def _edit(repo: Path, text: str) -> None:
    """The next hypothesis: one file differs."""
    (repo / "train.py").write_text(f"# {text}\n")


def _ours(place: Path, world: World, turn: int, *, ahead: bool = True) -> float:
    first, second = place / f"ours{turn}.1", place / f"ours{turn}.2"
    parts = real_parts()
    blueprint = world.blueprint(f"next{turn}", _command(place, second, 0.1))
    rundir = world.run(f"turn{turn}", _command(place, first, 1.0))
    _edit(world.repo, str(turn))
    ready = world.prepare(blueprint) if ahead else None
    with Watcher([rundir]) as watcher:
        while not rundir.exit_record.exists():
            watcher.wait(60)
    assert collect(rundir, parts.index).measured
    after = RunDir(Path((ready.go().spec if ready else world.begin(blueprint)).run_dir))
    gap = _gap(first, second)
    until(lambda: after.collected.exists())
    return gap


def _theirs(place: Path, world: World, tmux: Tmux, turn: int, phase: float) -> float:
    first, second = place / f"theirs{turn}.1", place / f"theirs{turn}.2"
    ledger = place / "results.tsv"
    length = published.POLL_S * (1 + phase)  # it ends somewhere between the second poll and the third
    published.start(tmux.socket, f"turn{turn}", _command(place, first, length))
    _edit(world.repo, str(turn))
    until(lambda: not published.pane_is_idle(tmux.socket, f"turn{turn}"))
    published.poll_until_idle(tmux.socket, f"turn{turn}")
    published.append_row(ledger, turn, "keep", 0.5)
    published.keep_code(world.repo, f"next{turn}")
    published.start(tmux.socket, f"next{turn}", _command(place, second, 0.1))
    gap = _gap(first, second)
    until(lambda: published.pane_is_idle(tmux.socket, f"next{turn}"))
    return gap


def _gap(first: Path, second: Path) -> float:
    until(lambda: second.exists() and second.read_text().endswith("\n"))
    last = next(line for line in first.read_text().splitlines() if line.startswith("last"))
    begun = next(line for line in second.read_text().splitlines() if line.startswith("first"))
    return float(begun.split()[1]) - float(last.split()[1])
