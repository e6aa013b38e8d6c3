"""Logs as they are when things go wrong: torn, truncated, coloured, mixed, repeated, huge. Nothing is ever made up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers import console
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
LOGS = {
    "verl": "verl_ok_np2_ray.log",
    "nemo_rl": "nemo_grpo.log",
    "slime": "slime.log",
    "openrlhf": "openrlhf.log",
    "trl": "trl_v5_tqdm.log",
    "tinygrpo": "tinygrpo.log",
    "generic": "verl_np1.log",
}
Same = tuple[str, int, str]


def read(name: str, log: Path, offset: int = 0) -> list[Reading]:
    return list(read_source(Source(SourceFormat.CONSOLE, str(log)), Path("/"), offset, by_name(name)).readings)


def plain(readings: list[Reading]) -> list[Same]:
    """To be compared, NaN included."""
    return [(r.kind.value, r.step, repr(sorted(r.metrics.items()))) for r in readings]


def put(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "run.log"
    path.write_bytes(data)
    return path


@pytest.fixture(params=LOGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sample(name: str) -> bytes:
    return (SAMPLES / LOGS[name]).read_bytes()


@pytest.fixture
def whole(name: str) -> list[Reading]:
    readings = read(name, SAMPLES / LOGS[name])
    assert any(reading.kind is SignalKind.STEP for reading in readings)
    return readings


def test_wherever_it_is_cut_no_value_is_another(name: str, sample: bytes, whole: list[Reading], tmp_path: Path) -> None:
    known = {(r.kind, key): set() for r in whole for key in r.metrics}  # type: dict[object, set[str]]
    for reading in whole:
        for key, value in reading.metrics.items():
            known[reading.kind, key].add(repr(value))
    seen = 0
    for cut in range(0, len(sample), max(1, len(sample) // 80)):
        readings = read(name, put(tmp_path, sample[:cut]))
        for reading in readings:
            for key, value in reading.metrics.items():
                assert repr(value) in known[reading.kind, key], (cut, key, value)
        assert len(readings) >= seen - 1, cut  # a dict gets its step from the bar behind it
        seen = len(readings)


DRESSES: dict[str, Callable[[bytes], bytes]] = {
    "nested prefixes": lambda line: b"(TaskRunner pid=12, ip=10.0.0.3) (WorkerDict pid=7) " + line,
    "coloured prefixes": lambda line: b"\x1b[36m(TaskRunner pid=12)\x1b[0m \x1b[32m(W[rank=0] pid=7)\x1b[0m " + line,
    "coloured whole": lambda line: b"\x1b[0m\x1b[1;32m" + line + b"\x1b[0m",
    "windows": lambda line: line + b"\r",
    "a bar before": lambda line: b"Generating:  12%|#2        | 1/8 [00:01<00:07]\r" + line,
    "a title of the window": lambda line: b"\x1b]0;training\x07" + line,
}


@pytest.mark.parametrize("dress", DRESSES)
def test_dressed_lines_say_the_same(name: str, dress: str, sample: bytes, whole: list[Reading], tmp_path: Path) -> None:
    lines = sample.rstrip(b"\n").split(b"\n")
    dressed = b"".join(DRESSES[dress](line) + b"\n" for line in lines)
    assert plain(read(name, put(tmp_path, dressed))) == plain(whole)


def test_a_log_that_is_emptied_under_its_writer(
    name: str, sample: bytes, whole: list[Reading], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer goes on where it was: a hole, then the rest of a line."""
    path = put(tmp_path, b"")
    with path.open("r+b") as file:
        file.seek(3 * (1 << 20) + 5)
        file.write(b"actor/pg_loss:7.0 - train/loss': 7.0, 'epoch': 9}\n" + sample)
    assert plain(read(name, path)) == plain(whole)
    monkeypatch.setattr(console, "CHUNK", 4096)
    assert plain(read(name, path)) == plain(whole)


def test_what_a_crash_tore_is_no_line(tmp_path: Path) -> None:
    """Without power the file system leaves zeros behind what was written last."""
    torn = b"step:1 - actor/kl_loss:0.4 - actor/pg_loss:0.25\nstep:2 - actor/kl_loss:0.4"
    after = b"137 - actor/pg_loss:0.5\nstep:3 - actor/kl_loss:0.125 - actor/pg_loss:0.5\n"
    for zeros in (b"\0", b"\0" * 5000, b"\0" * 100 + b"\r" + b"\0" * 100):
        found = read("verl", put(tmp_path, torn + zeros + after))
        assert [(r.step, r.metrics["actor/kl_loss"]) for r in found] == [(1, 0.4), (3, 0.125)], zeros[:3]


def test_a_log_that_shrinks_or_is_replaced_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "CHUNK", 256)
    line = b"step:%d - actor/kl_loss:0.5 - actor/pg_loss:0.25 - training/global_step:%d\n"
    path = put(tmp_path, b"".join(line % (n, n) for n in range(1, 101)))
    pieces = console.chunks(path)
    first = next(pieces)
    os.truncate(path, 3 * len(line % (1, 1)) + 20)
    rest = b"".join(pieces)
    assert (first + rest).count(b"step:1 ") == 1 and len(first + rest) <= 512 + 300
    assert read("verl", path, offset=100_000) == []
    assert len(read("verl", path)) == 3
    pieces = console.chunks(put(tmp_path, b"".join(line % (n, n) for n in range(1, 101))))
    first = next(pieces)
    path.rename(tmp_path / "run.log.1")
    put(tmp_path, b"step:999 - actor/kl_loss:9\n")
    assert (first + b"".join(pieces)).count(b"\n") == 100  # the log that was begun, to its end


def test_steps_that_go_back_are_what_came_last(tmp_path: Path) -> None:
    """A run that was resumed from a checkpoint makes steps again."""
    line = b"step:%d - actor/kl_loss:%s - actor/pg_loss:0.25\n"
    data = b"".join(line % (n, b"0.5") for n in range(1, 6)) + b"".join(line % (n, b"0.75") for n in range(4, 8))
    found = {r.step: r.metrics["actor/kl_loss"] for r in read("verl", put(tmp_path, data))}
    assert found == {1: 0.5, 2: 0.5, 3: 0.5, 4: 0.75, 5: 0.75, 6: 0.75, 7: 0.75}


@pytest.mark.parametrize("name", ["verl", "slime", "openrlhf", "tinygrpo", "nemo_rl"])
def test_lines_that_are_printed_again_after_the_end(
    name: str, sample: bytes, whole: list[Reading], tmp_path: Path
) -> None:
    """Ray prints the tail of a job that failed once more."""
    again = b"".join(b"    " + line + b"\n" for line in sample.rstrip(b"\n").split(b"\n")[-12:])
    for tail in (sample, again):
        found = read(name, put(tmp_path, sample + b"\nJob 'raysubmit_x' failed\n" + tail))
        assert {(r.kind, r.step) for r in found} <= {(r.kind, r.step) for r in whole}


@pytest.mark.system
def test_a_gigabyte_in_little_memory(tmp_path: Path) -> None:
    """A gigabyte of hole and some text with an endless line, in a process that may not have 300 MB."""
    path = tmp_path / "run.log"
    line = b"step:%d - actor/kl_loss:0.5 - actor/pg_loss:0.25\n"
    with path.open("wb") as file:
        file.write(line % 1)
        file.seek(1 << 29)
        file.write(b"x" * (12 << 20) + b"\n" + line % 2)
        file.seek(1 << 30)
        file.write(b"bar\r" * (1 << 20) + b"\n" + line % 3)
    program = (
        "import resource, sys; from pathlib import Path\n"
        "resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))\n"
        "from autoresearch.core.run.trainer import Source, SourceFormat\n"
        "from autoresearch.readers.read import read_source\n"
        "from autoresearch.trainers.registry import by_name\n"
        "found = read_source(Source(SourceFormat.CONSOLE, sys.argv[1]), Path('/'), 0, by_name('verl')).readings\n"
        "print([r.step for r in found])\n"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, capture_output=True, text=True)
    assert done.stdout == "[1, 2, 3]\n", done.stderr
