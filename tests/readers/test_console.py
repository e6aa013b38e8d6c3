"""The console sink: only the lines that matter are parsed, in order, wherever chunks end."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest

from autoresearch.core.metrics.line_reader import KnownLines
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers import console
from autoresearch.readers.console import read_whole_log, tail_lines
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name

PATTERNS = (
    SignalPattern(SignalKind.STEP, r"(?:^|\])step:(?P<step>\d+) (?P<x>[\d.]+)$", needles=("step:",), whole=True),
    SignalPattern(SignalKind.VALIDATION, r"^val:(?P<step>\d+) (?P<x>[\d.]+)$", needles=("val:",), whole=True),
)


def read_console(path: Path, offset: int = 0, *, ended: bool = False) -> list[Reading]:
    return list(read_whole_log(path, KnownLines(PATTERNS), offset, ended=ended))


def read(path: Path, offset: int = 0) -> list[tuple[str, int, float]]:
    found = read_console(path, offset)
    return [(r.kind.value[0], r.step, r.metrics["x"]) for r in found]


LOG = (
    b"noise\n\x1b[36m(T pid=1)\x1b[0m step:1 0.5\n(T pid=1) \rbar 10%\rbar 20%]step:2 0.25\n"
    b"val:2 0.75\r\nsubstep:7 text\nstep:3 0.125\nstep:4 0.06"
)
WANTED = [("s", 1, 0.5), ("s", 2, 0.25), ("v", 2, 0.75), ("s", 3, 0.125)]


def test_in_the_order_of_the_log_and_never_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(LOG)
    assert read(path) == WANTED
    path.write_bytes(LOG + b"\n")
    assert read(path) == [*WANTED, ("s", 4, 0.06)]


def test_any_size_of_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(LOG)
    for size in range(1, len(LOG) + 2):
        monkeypatch.setattr(console, "CHUNK", size)
        assert read(path) == WANTED, size


def test_from_the_start_of_any_line(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(LOG)
    starts = [m.end() for m in re.finditer(rb"\n", LOG)]
    assert [len(read(path, start)) for start in starts] == [4, 3, 2, 1, 1, 0]


def test_a_line_that_never_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "CHUNK", 64)
    monkeypatch.setattr(console, "LONGEST", 256)
    path = tmp_path / "run.log"
    path.write_bytes(b"step:1 1\n" + b"x" * 5000 + b"\nstep:2 2\n" + b"bar\r" * 500 + b"step:3 3\n")
    assert read(path) == [("s", 1, 1.0), ("s", 2, 2.0), ("s", 3, 3.0)]


def test_carriage_returns_only(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"step:1 1\rstep:2 2\rstep:3 3\r")
    assert read(path) == [("s", 1, 1.0), ("s", 2, 2.0), ("s", 3, 3.0)]


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with path.open("wb") as file:
        for n in range(24):
            file.write(b"a line of no meaning at all, as most of them are\n" * 20_000)
            file.write(b"step:%d 0.5\n" % n)
    tracemalloc.start()
    count = sum(1 for _ in read_console(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 24
    assert peak < path.stat().st_size / 3


def test_missing_and_binary(tmp_path: Path) -> None:
    assert read(tmp_path / "none.log") == []
    path = tmp_path / "run.log"
    path.write_bytes(bytes(range(256)) * 100 + b"\nstep:1 1\n")
    assert read(path) == [("s", 1, 1.0)]


def test_tail_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"first\n" + b"x" * 100 + b"\n\x1b[31mlast\x1b[0m\n")
    assert tail_lines(path) == ["first", "x" * 100, "last"]
    assert tail_lines(path, max_bytes=50) == ["last"]
    assert tail_lines(tmp_path / "none.log") == []


STEP = "step:{n} - actor/kl_loss:0.1 - critic/rewards/mean:0.{n}"


@pytest.mark.parametrize(
    ("trainer", "before"),
    [*(("verl", text) for text in ("\ufeff", "Saving checkpoint...   ", "Saving checkpoint...")), ("verl", "bar]")],
)
def test_what_is_glued_before_a_step_does_not_hide_it(tmp_path: Path, trainer: str, before: str) -> None:
    (tmp_path / "run.log").write_text(before + STEP.format(n=1) + "\n")
    found = read_source(Source(SourceFormat.CONSOLE, "run.log"), tmp_path, 0, by_name(trainer), ended=True)
    assert ([reading.step for reading in found.readings], found.warnings) == ([1], ())


@pytest.mark.parametrize("trainer", ["verl", "generic"])
@pytest.mark.parametrize("end", [STEP.format(n=3)[:30] + "\n", STEP.format(n=3)])
def test_a_last_line_that_is_cut_is_said(tmp_path: Path, trainer: str, end: str) -> None:
    (tmp_path / "run.log").write_text(f"{STEP.format(n=1)}\n{STEP.format(n=2)}\n{end}")
    found = read_source(Source(SourceFormat.CONSOLE, "run.log"), tmp_path, 0, by_name(trainer))
    assert max(found.points("critic/rewards/mean")) == 2
    assert "ends with a line that is cut" in found.warnings[0]


def test_a_last_line_without_its_newline_counts_once_its_writer_ended(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("step:1 0.1\n[rank0]: step:2 0.4")
    for ended, steps in ((False, [1]), (True, [1, 2])):
        assert [reading.step for reading in read_console(log, ended=ended)] == steps
