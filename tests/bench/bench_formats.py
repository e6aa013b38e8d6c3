"""Logs of programs that nobody declared: the reader that finds their steps against a declared `step_line`.

For each sample of `tests/samples/formats`: the steps that are found of those that stand there, and values that are
wrong; the other side is `step_line: pairs KEY`, or `json KEY`, with the name that the log gives its step, as a user
would declare it. Then the near misses, in which each step is a false one. Then the speed: 100 MB (BENCH_FORMATS_MB) of
near misses with a training line every 16 KB, and of all samples one after the other; CPU of a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name
from tests.bench.result import Result
from tests.format_samples import NEAR_MISSES, SAMPLES, Sample

BETWEEN = 16_000  # bytes between two training lines
ROOT = Path(__file__).parents[2]
READ = """
import json, resource, sys, time
from pathlib import Path
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name
log, lines = sys.argv[1], tuple(sys.argv[2:])
began = time.process_time()
found = read_source(Source(SourceFormat.CONSOLE, log), Path("/"), 0, by_name("generic", lines), ended=True).readings
took = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"took": took, "readings": len(found), "peak": peak}))
"""


def run(repeats: int = 5) -> list[Result]:
    """What is found, and MB for each second of the processor."""
    return [*_found(), *_speeds(repeats)]


def _found() -> Iterator[Result]:
    ours, theirs, wrong, missed, asked = 0, 0, 0, 0, 0
    for sample in SAMPLES:
        readings, declared = _read(sample.path), _read(sample.path, _declaration(sample))
        faults, steps = len(sample.wrong_values(readings)), len({reading.step for reading in readings})
        right, known = sample.counted(readings) is not None, sample.counted(declared) is not None
        ours, theirs, wrong, asked = ours + right, theirs + known, wrong + faults, asked + len(sample.values)
        missed += len(sample.wrong_values(declared))
        print(
            f"  {sample.path.stem:24} steps {steps:4} of {sample.steps[0].count:4}{'' if right else ' (wrong)'}; "
            f"wrong values {faults} of {len(sample.values)}; declared `{_declaration(sample)}`: "
            f"{len({reading.step for reading in declared})}",
            flush=True,
        )
    told = "step_line with the step's name"
    count = len(SAMPLES)
    yield Result(f"formats of {count} whose steps are all found", told, [ours], [theirs], count, "", True, True)
    yield Result(f"values of {asked} that are missing or wrong", told, [wrong], [missed], 0, "", absolute=True)
    false = [len(_read(path)) for path in NEAR_MISSES]
    declared_false = [len(_read(path, "pairs step")) for path in NEAR_MISSES]
    for path, ours_false in zip(NEAR_MISSES, false, strict=True):
        if ours_false:
            print(f"  {path.stem:24} {ours_false} false steps", flush=True)
    what = f"false steps in {len(NEAR_MISSES)} logs without any"
    yield Result(what, "step_line: pairs step", [sum(false)], [sum(declared_false)], 0, "", absolute=True)


def _declaration(sample: Sample) -> str:
    """The `step_line` that a user would write for this log."""
    step = sample.steps[0].step or "epoch"
    quoted = f'"{step}"', f"'{step}'"
    text = sample.path.read_text(encoding="utf-8", errors="replace")
    return f"{'json' if any(name in text for name in quoted) else 'pairs'} {step}"


def _read(path: Path, declaration: str = "") -> tuple[Reading, ...]:
    trainer = by_name("generic", (f"step {declaration}",) if declaration else ())
    return read_source(Source(SourceFormat.CONSOLE, str(path)), Path("/"), 0, trainer, ended=True).readings


def _speeds(repeats: int) -> Iterator[Result]:
    size = int(float(os.environ.get("BENCH_FORMATS_MB", "100")) * 1e6)
    with tempfile.TemporaryDirectory(prefix="ar-formats-") as scratch:
        log = Path(scratch) / "run.log"
        for what, pieces in (
            ("a step in every 16 KB of near misses", _sparse()),
            ("all samples in turn", _dense()),
        ):
            with log.open("wb") as file:
                while file.tell() < size:
                    file.write(next(pieces))
            megabytes = log.stat().st_size / 1e6
            ours, theirs, peaks = [], [], []
            for turn in range(repeats):
                for side in (0, 1) if turn % 2 else (1, 0):
                    told = _timed(log, *(("step pairs step",) if side else ()))
                    assert told["readings"] > 0, told
                    (theirs if side else ours).append(megabytes / told["took"])
                    peaks += [] if side else [told["peak"]]
            note = f"peak {max(peaks):.0f} MB"
            title = f"reading {megabytes:.0f} MB without a declaration: {what}"
            yield Result(title, "step_line: pairs step", ours, theirs, 10.0, "MB/s", True, True, note=note)


def _sparse() -> Iterator[bytes]:
    filler = b"".join(path.read_bytes() + b"\n" for path in NEAR_MISSES)
    lines = filler.splitlines(keepends=True)
    step, at = 0, 0
    while True:
        piece = [f"step={step} loss={1 / (step + 1):.4f} reward={step % 97 / 97:.4f}\n".encode()]
        while sum(map(len, piece)) < BETWEEN:
            piece.append(lines[at % len(lines)])
            at += 1
        step += 1
        yield b"".join(piece)


def _dense() -> Iterator[bytes]:
    logs = [path.read_bytes() + b"\n" for path in (*(sample.path for sample in SAMPLES), *NEAR_MISSES)]
    while True:
        yield from logs


def _timed(log: Path, *lines: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", READ, str(log), *lines]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True)
    said: dict[str, float] = json.loads(done.stdout)
    return said
