"""Following logs with the Runner's own scan, everything that it does with a match included, against grep.

One gigabyte of verl's and TRL's output with all of verl's patterns; `LC_ALL=C grep -acE` gets the alternation of
the same patterns as extended regular expressions (see `ere.py`). Then 100 KB more at the end of a file of
5 GB, against the same at 1 MB. The 5 GB are a hole, but for the last megabyte: what lies before the offset
is never read again, whatever it holds. As in a run, what was seen may rest for a moment (that a bar moves is
news once a second); grep never rests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import autoresearch
from autoresearch.trainers.verl import Verl
from tests.bench import logs
from tests.bench.ere import translated
from tests.bench.result import Result

GB = 1_000_000_000
NEW = 100_000
PACKAGE = Path(autoresearch.__file__).parent
FOLLOW = """
import sys, os, time, json, resource
sys.path.append(sys.argv[1])
from runner import event_log, listener, spec
place, warm = sys.argv[2], sys.argv[3]
def follower(run_dir):
    given = json.loads(open(os.path.join(place, "spec.json")).read())
    os.makedirs(run_dir, exist_ok=True)
    made = listener.Listener(run_dir, spec.Spec(given), event_log.EventLog(run_dir, ""))
    made.learn()
    return made
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def scan(made):
    began = time.perf_counter()
    while not made.scan(1e9):
        pass
    return time.perf_counter() - began
for name in sys.stdin:
    run_dir = name.strip()
    made = follower(run_dir)
    before = peak()
    took = scan(made)
    print(json.dumps({"took": took, "before": before, "after": peak(), "steps": made.pace.steps}), flush=True)
    for _ in range(int(warm)):
        size = int(sys.stdin.readline())
        print(json.dumps({"took": scan(made), "at": made.follower.offset}), flush=True)
"""


def run(repeats: int = 5) -> list[Result]:
    """Speed in MB/s, memory in MB, latency in milliseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        signals = [asdict(signal) for signal in Verl().signals()]
        (place / "spec.json").write_text(json.dumps({"run": "bench", "command": "true", "signals": signals}))
        piece = logs.block()
        expression = "|".join(translated(s.pattern) for s in Verl().signals())
        big = _run_dir(place, "big")
        logs.write(big / "run.log", GB, piece)
        small = _run_dir(place, "small")
        logs.write(small / "run.log", 10 * len(piece) // 2, piece)
        return [*_whole(place, big, small, expression, repeats), _grown(place, piece, repeats)]


def _run_dir(place: Path, name: str) -> Path:
    path = place / name
    path.mkdir()
    return path


def _whole(place: Path, big: Path, small: Path, expression: str, repeats: int) -> list[Result]:
    ours: list[float] = []
    theirs: list[float] = []
    growth: list[float] = []
    log = big / "run.log"
    size = log.stat().st_size / 1e6
    _grep(log, expression)  # into the page cache, for both
    for turn in range(repeats):
        for side in (0, 1) if turn % 2 else (1, 0):
            if side:
                theirs.append(size / _grep(log, expression))
                continue
            told = _follow(place, big)
            assert told["steps"] > 1000, told
            ours.append(size / told["took"])
            less = _follow(place, small)
            growth.append((told["after"] - less["after"]) / 1e6)
    what = f"following {size / 1000:.2g} GB of verl and TRL output, all of verl's patterns"
    little = f"{what}: peak memory above that of {(small / 'run.log').stat().st_size / 1e6:.0f} MB"
    return [
        Result(
            what, "`grep -acE`, same alternation, LC_ALL=C", ours, theirs, 0.15, "MB/s", at_least=True, reached=0.11
        ),
        Result(little, "", growth, [], 1, "MB"),
    ]


def _grep(log: Path, expression: str) -> float:
    environment = {**os.environ, "LC_ALL": "C"}
    began = time.perf_counter()
    done = subprocess.run(["grep", "-acE", expression, str(log)], env=environment, capture_output=True, text=True)
    took = time.perf_counter() - began
    assert int(done.stdout) > 1000, done
    return took


def _follow(place: Path, run_dir: Path) -> dict[str, float]:
    with _follower(place, 0) as process:
        return _ask(process, str(run_dir))


def _follower(place: Path, polls: int) -> subprocess.Popen[str]:
    """A process that scans the log of each run directory it is told, then `polls` times what is new."""
    argv = [sys.executable, "-S", "-E", "-s", "-c", FOLLOW, str(PACKAGE), str(place), str(polls)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(process: subprocess.Popen[str], word: str) -> dict[str, float]:
    assert process.stdin and process.stdout
    process.stdin.write(word + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert isinstance(answer, dict)
    return answer


def _grown(place: Path, piece: bytes, repeats: int) -> Result:
    new = piece[: piece.index(b"\n", NEW) + 1]
    turns = 5 * repeats
    samples: list[list[float]] = [[], []]
    sizes = (5 * GB, 1_000_000)
    with _follower(place, turns) as big, _follower(place, turns) as small:
        paths = []
        for process, size in zip((big, small), sizes, strict=True):
            log = _run_dir(place, f"grown{size}") / "run.log"
            with log.open("wb") as file:
                file.truncate(max(0, size - 1_000_000))
                file.seek(0, os.SEEK_END)
                file.write(piece[: piece.index(b"\n", 1_000_000) + 1])
            _ask(process, str(log.parent))
            paths.append(log)
        for turn in range(turns):
            for side in (0, 1) if turn % 2 else (1, 0):
                with paths[side].open("ab") as file:
                    file.write(new)
                told = _ask((big, small)[side], str(len(new)))
                assert told["at"] == paths[side].stat().st_size, told
                samples[side].append(1000 * told["took"])
    return Result(
        "100 KB new at the end of a log of 5 GB", "the same at 1 MB", samples[0], samples[1], 2, reached=1.23
    )
