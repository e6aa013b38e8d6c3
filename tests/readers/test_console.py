"""A log read in constant memory, whatever its lines look like, and the pages of trackers that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import KnownLines, Reading, SignalKind, SignalPattern
from autoresearch.readers import console
from autoresearch.readers.console import MOST_URLS, read_whole_log, run_urls, tail_lines
from autoresearch.runner.text import plain

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


def test_a_last_line_without_its_newline_counts_once_its_writer_ended(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("step:1 0.1\n[rank0]: step:2 0.4")
    for ended, steps in ((False, [1]), (True, [1, 2])):
        assert [reading.step for reading in read_console(log, ended=ended)] == steps


def test_plain_is_bounded_and_clean() -> None:
    dirty = b"\x1b[31mboom\x1b[0m\x00\x07 \x1b]0;title\x07" + "é".encode() + b"\xff" + b"x" * 10_000
    clean = plain(dirty)
    assert clean.startswith("boom é")
    assert len(clean) == 300
    assert clean.isprintable()


HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("wandb: 🚀 View run at https://wandb.ai/team/proj/runs/1a2b3c4d", "https://wandb.ai/team/proj/runs/1a2b3c4d"),
        (
            "wandb: 🚀 View run warm-3 at: https://wandb.ai/team/p.q/runs/1a2b3c4d\r",
            "https://wandb.ai/team/p.q/runs/1a2b3c4d",
        ),
        (
            "\x1b[36m(TaskRunner pid=7)\x1b[0m wandb: View run at \x1b[34m\x1b[4mhttps://wandb.ai/a/b/runs/xyz123\x1b[0m",
            "https://wandb.ai/a/b/runs/xyz123",
        ),
        ("wandb: View run at https://wandb.corp.io:8080/a/b/runs/zz9", "https://wandb.corp.io:8080/a/b/runs/zz9"),
        (
            "swanlab: 🚀 View run n at https://swanlab.cn/@user/pro-ject/runs/abc123xyz/chart",
            "https://swanlab.cn/@user/pro-ject/runs/abc123xyz",
        ),
        ("https://swanlab.cn/@user/proj/runs/abc123", "https://swanlab.cn/@user/proj/runs/abc123"),
        ("swanlab: View run at http://10.0.0.7:8000/@me/proj/runs/q1w2", "http://10.0.0.7:8000/@me/proj/runs/q1w2"),
        (
            f"🏃 View run x at: http://mlflow:5000/#/experiments/7/runs/{HEX}",
            f"http://mlflow:5000/#/experiments/7/runs/{HEX}",
        ),
        ("wandb: View run at https://wandb.ai/a/b/runs/x1y?apiKey=0123456789", "https://wandb.ai/a/b/runs/x1y"),
        ("wandb: View run at https://me:s3cret@wandb.corp.io/a/b/runs/x1y", "https://wandb.corp.io/a/b/runs/x1y"),
    ],
)
def test_found(line: str, wanted: str) -> None:
    assert run_urls(f"before\n{line}\nafter".encode()) == (wanted,)


@pytest.mark.parametrize(
    "line",
    [
        "wandb: ⭐️ View project at https://wandb.ai/team/proj",
        "wandb: Run data is saved locally in /x/wandb/offline-run-20261121_163615-whole1",
        "response: as in https://wandb.ai/team/proj/runs/1a2b3c4d you see",
        "see https://github.com/a/b/actions/runs/123456",
        "https://github.com/a/b/actions/runs/123456",
        "swanlab: 🌟 Run `swanlab watch /x/swanlog`",
    ],
)
def test_not_found(line: str) -> None:
    assert run_urls(line.encode()) == ()


def test_each_once_and_at_most_eight() -> None:
    lines = [f"wandb: View run at https://wandb.ai/a/b/runs/run{n}" for n in range(20)]
    found = run_urls("\n".join([lines[0], *lines]).encode())
    assert found == tuple(f"https://wandb.ai/a/b/runs/run{n}" for n in range(MOST_URLS))
