"""`metrics LOG --trainer NAME`, without a name where formats are mixed: CPU and peak memory of whole processes.

Framework by framework, against `grep -c` on the same file. Each log is made from the framework's own sample:
its lines over and over, with what workers and engines print between two steps of a healthy run (16 KB of it: reports,
bars that are drawn again, sampled answers); `mixed` is of four frameworks in turn. Both read from memory.

BENCH_PARSE_MB: the size of each such log (default 100). The logs lie in /dev/shm where there is room.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name
from tests.bench.result import Result
from tests.bench.yard import COMMAND, spent

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
FILES = {
    "verl": ("verl_np1.log", "verl_ok_np2_ray.log"),
    "nemo_rl": ("nemo_grpo.log",),
    "slime": ("slime.log",),
    "trl": ("trl_v4.log", "trl_v5_grpo.log"),
    "openrlhf": ("openrlhf.log",),
    "tinygrpo": ("tinygrpo.log",),
    "mixed": ("verl_np1.log", "slime.log", "trl_v4.log", "openrlhf.log"),
}
BETWEEN = 16_000  # bytes that a healthy run prints between two steps
STEPS = 200  # of them in the piece that is repeated
GOAL, UNNAMED_GOAL = 20.0, 10.0  # MB/s
REACHED = {
    "verl": 50.0,
    "nemo_rl": 41.0,
    "trl": 21.0,
    "slime": 26.0,
    "openrlhf": 54.0,
    "tinygrpo": 50.0,
    "mixed": 13.0,
}
WORKER = "\x1b[36m(WorkerDict pid=13077)\x1b[0m "
WORDS = "the answer is so we compute then add both sides and check that step two"


def run(repeats: int = 3) -> Iterator[Result]:
    """Speed in MB for each second of CPU, which is what the goal is about."""
    size = int(float(os.environ.get("BENCH_PARSE_MB", "100")) * 1e6)
    place = "/dev/shm" if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").free > 2 * size else None
    with tempfile.TemporaryDirectory(prefix="ar-parse-", dir=place) as scratch:
        log = Path(scratch) / "run.log"
        for name in FILES:
            yield _measured(name, log, size, repeats)


def _ours(log: Path, name: str) -> tuple[float, float]:
    return spent([str(COMMAND), "metrics", str(log), *([] if name == "mixed" else ["--trainer", name])])


def _measured(name: str, log: Path, size: int, repeats: int) -> Result:
    _write(log, size, piece(name))
    megabytes = log.stat().st_size / 1e6
    grep = ["env", "LC_ALL=C", "grep", "-c", "step", str(log)]  # into /dev/null it would end with the first hit
    spent(grep)  # into the page cache, for both
    turns = [(_ours(log, name), spent(grep)[0]) for _ in range(repeats)]
    ours = [1000 * megabytes / took for (took, _), _ in turns]
    theirs = [1000 * megabytes / max(took, 1.0) for _, took in turns]
    ratios = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    note = f"{ratios[len(ratios) // 2]:.3g} of grep's; peak {max(peak for (_, peak), _ in turns):.0f} MB"
    what = f"reading {megabytes / 1000:.2g} GB of {name}'s output"
    goal = UNNAMED_GOAL if name == "mixed" else GOAL
    return Result(
        what, "`grep -c step`, LC_ALL=C", ours, theirs, goal, "MB/s", at_least=True, absolute=True, note=note,
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
    trainer = by_name("generic" if name == "mixed" else name)
    readings = read_source(Source(SourceFormat.CONSOLE, str(sample)), Path("/"), 0, trainer).readings
    return max(1, sum(reading.kind is SignalKind.STEP for reading in readings))


def _workers(dice: random.Random) -> str:
    """What Ray's workers and vLLM's engines print."""
    parts: list[str] = []
    while sum(map(len, parts)) < BETWEEN:
        parts += [f"{WORKER}\r{_bar('Processed prompts', n * 12, 256)}" for n in range(1, 21)]
        parts += ["\n", *(_engine(dice) for _ in range(6))]
        parts += [f"{WORKER}[response] {_talk(dice, 220)}\n", f"{WORKER}[score] 0.0\n"]
    return "".join(parts)


def _tables(dice: random.Random) -> str:
    """TRL runs in one process and prints tables of samples."""
    parts: list[str] = []
    while sum(map(len, parts)) < BETWEEN:
        parts += [f"\r{_bar('', dice.randrange(300), 300)}" for _ in range(2)]
        parts += ["\n", *(f"│ {_talk(dice, 12):<80.80} │ {_talk(dice, 25):<120.120} │\n" for _ in range(6))]
    return "".join(parts)


def _write(path: Path, size: int, piece: bytes) -> None:
    """A log of about this many bytes; it ends where a line ends."""
    with path.open("wb") as file:
        for _ in range(max(1, round(size / len(piece)))):
            file.write(piece)


def _engine(dice: random.Random) -> str:
    return (
        f"{WORKER}INFO 11-21 07:{dice.randrange(60):02d}:{dice.randrange(60):02d} [loggers.py:118] Engine 000: "
        f"Avg prompt throughput: {dice.uniform(100, 9000):.1f} tokens/s, Avg generation throughput: "
        f"{dice.uniform(100, 9000):.1f} tokens/s, Running: {dice.randrange(256)} reqs, Waiting: "
        f"{dice.randrange(64)} reqs, GPU KV cache usage: {dice.uniform(0, 99):.1f}%\n"
    )


def _bar(name: str, done: int, total: int) -> str:
    full = min(10, 10 * done // total)
    head = f"{name}: " if name else ""
    bar = "█" * full + " " * (10 - full)
    return f"{head}{100 * done // total:3d}%|{bar}| {done}/{total} [00:41<{done % 60:02d}:12,  1.07s/it]"


def _talk(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS.split(), k=words))
