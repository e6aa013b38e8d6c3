"""Killed at every write, fsync, rename (and truncation and removal) of the finishing sequence, then run again.

A real run is brought to its end without its collector; its ledger holds an earlier row and a torn one. For
each system call and each n, a copy of all its records is collected by a process that strace kills as it
makes the n-th such call; then the records are collected once more and must be what they are without any
kill. Where strace cannot be used, the product's own failpoints stand in. The naive way writes the results,
appends a row and writes a flag; after its rerun it must have one whole row more, and the flag.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.ledger_row import COLUMNS, LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.records import recorded_run
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir
from tests.bench.result import Result
from tests.bench.yard import World, is_dead, kill, runner_pid, until

CALLS = (
    *("write", "pwrite64", "fsync", "fdatasync", "ftruncate"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat"),
)
FAILPOINTS = ("measured", "results_written", "row_written", "flag_written")
MOST = 100  # calls of one kind; the sequence makes fewer
COLLECT = """
import sys
from pathlib import Path
from autoresearch.lab.results.collect import collect
from autoresearch.records.index import Index
from autoresearch.records.rundir import RunDir
collect(RunDir(Path(sys.argv[1])), Index(Path(sys.argv[2])))
"""
NAIVE = """
import json, sys
from pathlib import Path
run, ledger, flag = json.load(open(sys.argv[1] + "/spec.json"))["run"], sys.argv[2], sys.argv[3]
Path(sys.argv[4]).write_text("# Results\\n")
with open(ledger, "a") as file:
    file.write(f"1\\tkeep\\t0.5\\t{run}\\n")
with open(flag, "w") as file:
    file.write(json.dumps({"schema": 1, "run": run, "ending": "finished"}))
"""
TRAINER = "echo 'step:1 - actor/kl_loss:0.1 - actor/pg_loss:0.2'; echo 'step:1 - task_pass_rate@1:0.5 - pass_n:2'"


@dataclass(frozen=True)
class Bed:
    """The records of one run that is over and not collected, and where copies of them are put in turn."""

    kept: Path
    place: Path  # every copy stands here while it is used: the spec holds absolute paths
    spec: RunSpec
    state: Path

    def restore(self) -> None:
        """Put a fresh copy there."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.kept, self.place, symlinks=True)

    @property
    def rundir(self) -> RunDir:
        return RunDir(Path(self.spec.run_dir))

    @property
    def flag(self) -> Path:
        return Path(self.spec.result_dir) / "finish.flag"

    @property
    def results(self) -> Path:
        return Path(self.spec.result_dir) / "results.md"


@dataclass
class Told:
    """What was found over all crash points."""

    points: int = 0
    bad: int = 0  # inconsistent after the rerun
    rubbish: int = 0  # a temporary file was left behind: no harm, but no beauty
    unsaid: int = 0  # the sentence for people is missing; the ledger and the flag have it


def run(repeats: int = 5) -> list[Result]:
    """How many of the crash points leave records that are not what they should be."""
    beds = []
    with tempfile.TemporaryDirectory() as scratch:
        for side in ("ours", "naive"):
            beds.append(_make_bed(Path(scratch) / side))
        kind = "strace" if _strace_works() else "failpoints"
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(_points, beds[0], _collect_argv(beds[0]), _ours_is_sound(beds[0]), kind)
            naive = pool.submit(_points, beds[1], _naive_argv(beds[1]), _naive_is_sound(beds[1]), "strace")
            told = ours.result()
            naive_told = naive.result() if kind == "strace" else Told()
    note = f"{told.points} points, by {kind}; naive: {naive_told.bad} of {naive_told.points}"
    if told.rubbish:
        note += f"; {told.rubbish} left a temporary file behind"
    if told.unsaid:
        note += f"; {told.unsaid} left the experiment log without its last line"
    what = "crash points of the finishing sequence that leave inconsistent records"
    theirs = [float(naive_told.bad)] if kind == "strace" else []
    return [Result(what, "naive append", [float(told.bad)], theirs, 0, "", absolute=True, worst=True, note=note)]


def _make_bed(place: Path) -> Bed:
    """Bring a run to its end with nobody to collect it: its collector is taken out of the way."""
    os.environ["XDG_STATE_HOME"] = str(place / "live" / "state")
    world = World.make(place / "live")
    held = place / "gate"
    held.parent.mkdir(parents=True, exist_ok=True)
    rundir = world.run("crash", f"while [ ! -e {held} ]; do sleep 0.05; done; {TRAINER}")
    pid = runner_pid(rundir)
    with (rundir.path / "collect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the collector waits here, and is ended while it does
        held.touch()
        until(rundir.exit_record.exists)
        until(lambda: is_dead(pid) or b"collect\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
        kill(pid)
        until(lambda: is_dead(pid))
    spec = recorded_run.read(rundir)
    assert not rundir.collected.exists()
    ledger = Ledger(Path(spec.ledger))
    ledger.append_once(LedgerRow(index=1, run_id="earlier-000000", status="keep", ending="finished"))
    with ledger.path.open("a") as file:
        file.write("2\tbranch\tcom")  # somebody was killed here
    shutil.copytree(place / "live", place / "kept", symlinks=True)
    return Bed(place / "kept", place / "live", spec, place / "live" / "state" / "autoresearch")


def _collect_argv(bed: Bed) -> list[str]:
    return [sys.executable, "-c", COLLECT, bed.spec.run_dir, str(bed.state)]


def _naive_argv(bed: Bed) -> list[str]:
    return [sys.executable, "-c", NAIVE, bed.spec.run_dir, bed.spec.ledger, str(bed.flag), str(bed.results)]


def _points(bed: Bed, argv: list[str], sound: Callable[[], bool], kind: str) -> Told:
    """Kill, rerun and look at every crash point."""
    told = Told()
    for _ in _strace(bed, argv) if kind == "strace" else _failpoints(bed, argv):
        told.points += 1
        done = subprocess.run(argv, capture_output=True, text=True)
        told.bad += done.returncode != 0 or not sound()
        told.rubbish += any(path.name.endswith(".tmp") for path in bed.place.rglob(".*"))
        told.unsaid += "verdict:" not in (bed.flag.parent / "experiment_log.md").read_text()
    assert told.points, "nothing was killed"
    return told


def _strace(bed: Bed, argv: list[str]) -> Iterator[str]:
    """Each (system call, n) at which the process was killed."""
    for call in CALLS:
        for number in range(1, MOST):
            bed.restore()
            inject = ["-e", f"trace=?{call}", "-e", f"inject=?{call}:signal=KILL:when={number}"]
            done = subprocess.run(["strace", "-qq", "-o", "/dev/null", *inject, *argv], capture_output=True)
            if done.returncode == 0:
                break
            yield f"{call} {number}"


def _failpoints(bed: Bed, argv: list[str]) -> Iterator[str]:
    for name in FAILPOINTS:
        bed.restore()
        environment = {**os.environ, "AUTORESEARCH_FAILPOINT": f"collect.{name}:kill"}
        if subprocess.run(argv, env=environment, capture_output=True).returncode:
            yield name


def _strace_works() -> bool:
    try:
        done = subprocess.run(["strace", "-qq", "-o", "/dev/null", "-e", "trace=write", "true"], capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def _ours_is_sound(bed: Bed) -> Callable[[], bool]:
    """One whole row, a flag and a results document that say the same as without a kill, nothing left to do."""
    subprocess.run(_collect_argv(bed), check=True)
    whole = _told(bed)
    return lambda: _told(bed) == whole


def _told(bed: Bed) -> object:
    rows = [row for row in Ledger(Path(bed.spec.ledger)).rows() if row.run_id == bed.spec.run]
    lines = Path(bed.spec.ledger).read_bytes()
    flag = json.loads(bed.flag.read_bytes())
    collected = json.loads(bed.rundir.collected.read_bytes())
    living = [entry.run for entry in Index(bed.state).live()]
    return rows, lines, flag, collected, bed.results.read_bytes(), living


def _naive_is_sound(bed: Bed) -> Callable[[], bool]:
    def sound() -> bool:
        lines = Path(bed.spec.ledger).read_text().splitlines()
        widths = [line.count("\t") for line in lines]
        return widths == [len(COLUMNS) - 1] * 2 + [3] and json.loads(bed.flag.read_text())["run"] == bed.spec.run

    return sound
