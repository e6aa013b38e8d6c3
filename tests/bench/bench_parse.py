"""Reading all metrics of a finished run's log, framework by framework, against `grep -c` on the same file.

Each log is made from the framework's own sample: its lines over and over, with what workers and engines print
between two steps of a healthy run (16 KB of it: reports, bars that are drawn again, sampled answers). Ours is the
console path as `metrics` and the records use it, in a process of its own; grep counts the lines with `step`. Both
read from memory, and what counts is the time of the processor, so that other work does not matter.

BENCH_PARSE_MB: the size of each log (default 1000). The logs lie in /dev/shm where there is room.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name
from tests.bench import logs
from tests.bench.result import Result

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
FILES = {
    "verl": ("verl_np1.log", "verl_ok_np2_ray.log"),
    "nemo_rl": ("nemo_grpo.log",),
    "slime": ("slime.log",),
    "trl": ("trl_v4.log", "trl_v5_grpo.log"),
    "openrlhf": ("openrlhf.log",),
    "tinygrpo": ("tinygrpo.log",),
    "generic": ("verl_np1.log", "slime.log", "trl_v4.log", "openrlhf.log"),
}
BETWEEN = 16_000  # bytes that a healthy run prints between two steps
STEPS = 200  # of them in the piece that is repeated
GOAL = 30.0  # MB/s
REACHED = {
    "verl": 99.1,
    "nemo_rl": 73.4,
    "trl": 35.6,
    "slime": 36.2,
    "openrlhf": 120,
    "tinygrpo": 98.8,
    "generic": 8.61,
}
READ = """
import json, resource, sys, time
from pathlib import Path
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name
name, log = sys.argv[1:]
began = time.process_time()
found = list(read_source(Source(SourceFormat.CONSOLE, log), Path("/"), 0, by_name(name)).readings)
took = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"took": took, "readings": len(found), "peak": peak}))
"""


def run(repeats: int = 5) -> list[Result]:
    """Speed in MB for each second of the processor; the goal is a speed, the ratio to grep's is told beside it."""
    size = int(float(os.environ.get("BENCH_PARSE_MB", "1000")) * 1e6)
    place = "/dev/shm" if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").free > 2 * size else None
    with tempfile.TemporaryDirectory(prefix="ar-parse-", dir=place) as scratch:
        log = Path(scratch) / "run.log"
        return [_measured(name, log, size, repeats) for name in FILES]


def _measured(name: str, log: Path, size: int, repeats: int) -> Result:
    logs.write(log, size, piece(name))
    megabytes = log.stat().st_size / 1e6
    _grep(log)  # into the page cache, for both
    ours: list[float] = []
    theirs: list[float] = []
    peaks: list[float] = []
    for turn in range(repeats):
        for side in (0, 1) if turn % 2 else (1, 0):
            if side:
                theirs.append(megabytes / _grep(log))
                continue
            reader = [sys.executable, "-c", READ, name, str(log)]
            told = json.loads(subprocess.run(reader, stdout=subprocess.PIPE, check=True).stdout)
            assert told["readings"] > 0, told
            ours.append(megabytes / told["took"])
            peaks.append(told["peak"])
    ratios = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    note = f"{ratios[len(ratios) // 2]:.3g} of grep's; peak {max(peaks):.0f} MB"
    what = f"reading {megabytes / 1000:.2g} GB of {name}'s output"
    return Result(
        what, "`grep -c step`, LC_ALL=C", ours, theirs, GOAL, "MB/s", at_least=True, absolute=True, note=note,
        reached=REACHED[name],
    )  # fmt: skip


def piece(name: str) -> bytes:
    """Some megabytes of a healthy run; the steps in it are those of the samples, again and again."""
    dice = random.Random(7)
    samples = [((SAMPLES / file).read_text(), _steps(name, SAMPLES / file)) for file in FILES[name]]
    parts: list[str] = []
    done = 0
    while done < STEPS:
        for sample, steps in samples:
            parts += [sample, "" if sample.endswith("\n") else "\n"]
            parts += [_tables(dice) if name == "trl" else _workers(dice) for _ in range(steps)]
            done += steps
    return "".join(parts).encode()


def _steps(name: str, sample: Path) -> int:
    readings = read_source(Source(SourceFormat.CONSOLE, str(sample)), Path("/"), 0, by_name(name)).readings
    return max(1, sum(reading.kind is SignalKind.STEP for reading in readings))


def _workers(dice: random.Random) -> str:
    """What Ray's workers and vLLM's engines print."""
    parts: list[str] = []
    while sum(map(len, parts)) < BETWEEN:
        parts += [f"{logs._WORKER}\r{logs._bar('Processed prompts', n * 12, 256)}" for n in range(1, 21)]
        parts += ["\n", *(logs._engine(dice) for _ in range(6))]
        parts += [f"{logs._WORKER}[response] {logs._talk(dice, 220)}\n", f"{logs._WORKER}[score] 0.0\n"]
    return "".join(parts)


def _tables(dice: random.Random) -> str:
    """TRL runs in one process and prints tables of samples."""
    parts: list[str] = []
    while sum(map(len, parts)) < BETWEEN:
        parts += [f"\r{logs._bar('', dice.randrange(300), 300)}" for _ in range(2)]
        parts += ["\n", *(f"│ {logs._talk(dice, 12):<80.80} │ {logs._talk(dice, 25):<120.120} │\n" for _ in range(6))]
    return "".join(parts)


def _grep(log: Path) -> float:
    """Seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "LC_ALL": "C"}
    grep = ["grep", "-c", "step", str(log)]  # into /dev/null it would end with the first hit
    subprocess.run(grep, env=environment, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
