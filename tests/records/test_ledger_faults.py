"""Many writers, kills, full disks, files that cannot be written."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import files
from autoresearch.records.ledger import Ledger

MakeRow = Callable[..., LedgerRow]
Forked = Callable[[Callable[[], object]], int]
Dying = Callable[[Callable[[], object], int, bool], Callable[[], None]]


def started(work: Callable[[], object]) -> int:
    """A forked child that does some work; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


@pytest.mark.system
def test_ten_writers_at_once_lose_and_break_nothing(tmp_path: Path, row: MakeRow) -> None:
    ledger = Ledger(tmp_path / "results.tsv")

    def write(writer: int) -> None:
        for n in range(40):
            ledger.append_once(row(f"w{writer}-{n}", description="tab\t and\nline " * (n % 9)))
            ledger.append_once(row(f"common-{n}"))

    for pid in [started(lambda w=w: write(w)) for w in range(10)]:  # type: ignore[misc]
        os.waitpid(pid, 0)
    ids = [r.run_id for r in ledger.rows()]
    assert sorted(ids) == sorted(
        [f"w{w}-{n}" for w in range(10) for n in range(40)] + [f"common-{n}" for n in range(40)]
    )
    header, *lines = ledger.path.read_bytes().splitlines()
    assert {line.count(b"\t") for line in lines} == {header.count(b"\t")}
    assert not (tmp_path / "results.tsv.torn").exists()


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("tail", [b"", b"torn \t tai"])
def test_killed_at_every_call_and_repeated_there_is_one_row(
    tmp_path: Path, row: MakeRow, forked: Forked, dying: Dying, tail: bytes, after: bool
) -> None:
    points = 0
    for n in range(1, 100):
        ledger = Ledger(tmp_path / str(n) / "results.tsv")
        if tail:
            ledger.append_once(row("r-1"))
            with ledger.path.open("ab") as file:
                file.write(tail)
        code = forked(dying(lambda ledger=ledger: ledger.append_once(row("r-2")), n, after))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        points += 1
        ledger.append_once(row("r-2"))
        assert [r.run_id for r in ledger.rows()] == (["r-1"] if tail else []) + ["r-2"], n
        assert tail == b"" or tail in ledger.path.with_name("results.tsv.torn").read_bytes()
    assert points >= (7 if tail else 4)


@pytest.mark.parametrize(
    ("call", "number"),
    [("write", errno.ENOSPC), ("write", errno.EIO), ("fsync", errno.EDQUOT), ("fsync", errno.EIO), ("write", 0)],
)
def test_an_error_of_the_disk_or_a_short_write_leaves_the_ledger_as_it_was(
    tmp_path: Path, row: MakeRow, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    ledger = Ledger(tmp_path / "results.tsv")
    ledger.append_once(row("r-1"))
    whole, real = ledger.path.read_bytes(), os.write

    def broken(fd: int, data: bytes = b"") -> int:
        if number:
            raise OSError(number, os.strerror(number))
        return real(fd, data[:20])

    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken)
        with pytest.raises(EnvironmentUnusable) as caught:
            ledger.append_once(row("r-2"))
    assert (caught.value.code == "disk_full") is (number in (0, *files.FULL))
    assert ledger.path.read_bytes() == whole
    assert ledger.append_once(row("r-2"))


def test_a_ledger_that_cannot_be_written_gives_one_sentence(tmp_path: Path, row: MakeRow) -> None:
    (tmp_path / "results.tsv").mkdir()
    with pytest.raises(EnvironmentUnusable, match=r"results\.tsv cannot be written: Is a directory"):
        Ledger(tmp_path / "results.tsv").append_once(row())
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnusable, match="cannot be written"):
        Ledger(tmp_path / "file" / "results.tsv").append_once(row())


