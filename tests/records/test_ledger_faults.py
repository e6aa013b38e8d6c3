"""Many writers, kills, full disks, files that cannot be written."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import appending
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
def test_kill_9_while_appending_is_mended_by_the_next_append(tmp_path: Path, row: MakeRow) -> None:
    ledger = Ledger(tmp_path / "results.tsv")

    def write(attempt: int) -> None:
        for n in range(100_000):
            ledger.append_once(row(f"k{attempt}-{n}", description="x" * 20_000))

    for attempt in range(12):
        before = ledger.path.stat().st_size if ledger.path.exists() else 0
        pid = started(lambda a=attempt: write(a))  # type: ignore[misc]
        while not (ledger.path.exists() and ledger.path.stat().st_size > before):
            os.sched_yield()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert ledger.append_once(row(f"after-{attempt}"))
    rows = list(ledger.rows())
    assert [r.run_id for r in rows if r.run_id.startswith("after")] == [f"after-{a}" for a in range(12)]
    assert {len(r.description) for r in rows if r.run_id.startswith("k")} == {20_000}
    header, *lines = ledger.path.read_bytes().splitlines()
    assert {line.count(b"\t") for line in lines} == {header.count(b"\t")}


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


@pytest.mark.system
def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path: Path, row: MakeRow, forked: Forked) -> None:
    ledger = Ledger(tmp_path / "results.tsv")
    ledger.append_once(row("r-1"))
    whole = ledger.path.read_bytes()

    def on_a_full_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 50, resource.RLIM_INFINITY))
        try:
            ledger.append_once(row("r-2"))
        except EnvironmentUnusable as error:
            assert error.code == "disk_full", error.code
            assert str(ledger.path) in error.message
            assert error.hint and error.fix
        else:
            raise AssertionError("a row was added")

    for _ in range(2):
        assert forked(on_a_full_disk) == 0
        assert ledger.path.read_bytes() == whole
    assert ledger.append_once(row("r-2"))
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2"]


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
    assert (caught.value.code == "disk_full") is (number in (0, *appending.FULL))
    assert ledger.path.read_bytes() == whole
    assert ledger.append_once(row("r-2"))


def test_a_ledger_that_cannot_be_written_gives_one_sentence(tmp_path: Path, row: MakeRow) -> None:
    (tmp_path / "results.tsv").mkdir()
    with pytest.raises(EnvironmentUnusable, match=r"results\.tsv cannot be written: Is a directory"):
        Ledger(tmp_path / "results.tsv").append_once(row())
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnusable, match="cannot be written"):
        Ledger(tmp_path / "file" / "results.tsv").append_once(row())


def test_a_read_only_ledger_gives_one_sentence(tmp_path: Path, row: MakeRow, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "results.tsv")
    ledger.append_once(row("r-1"))
    ledger.path.chmod(0o444)
    if os.geteuid() == 0:  # root writes to anything; say what the kernel would say to others
        real = os.open

        def refusing(path: Any, flags: int, *rest: Any) -> int:
            if flags & os.O_RDWR:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return real(path, flags, *rest)

        monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(EnvironmentUnusable, match=r"results\.tsv cannot be written: Permission denied") as caught:
        ledger.append_once(row("r-2"))
    assert caught.value.exit_code == 6
    assert list(ledger.rows()) == [row("r-1")]
