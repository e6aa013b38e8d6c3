"""The run directory: its state, its locks, and writes that are whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.spec import RunState
from autoresearch.records import exit_record
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import locked, read_json
from autoresearch.records.hostile import write_atomically
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import is_locked


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_a_run_from_spec_to_exit_record(run: RunDir) -> None:
    run.spec.write_text("{}")
    born = run.spec.stat().st_mtime
    assert run.state(now=born + 1) is RunState.STARTING
    assert run.state(now=born + 60) is RunState.DEAD
    with locked(run.launching):
        assert run.state(now=born + 60) is RunState.STARTING
    with locked(run.lock):
        assert run.state(now=born + 60) is RunState.RUNNING
        run.runner.write_text("{}")
        assert run.state(now=born + 60) is RunState.RUNNING
        run.stop.write_text("{}")
        assert run.state(now=born + 60) is RunState.STOPPING
    assert run.state(now=born + 1) is RunState.DEAD
    run.exit_record.write_text("{}")
    assert run.state(now=born + 60) is RunState.ENDED


def test_a_lock_is_seen_and_not_taken_twice(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    assert not is_locked(path)
    with locked(path) as mine:
        assert mine
        assert is_locked(path)
        with locked(path, blocking=False) as also_mine:
            assert not also_mine
    assert not is_locked(path)


def test_an_atomic_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600

    def full(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"\xff"])
def test_what_is_no_object_reads_as_none(tmp_path: Path, data: bytes) -> None:
    assert read_json(tmp_path / "file") is None
    (tmp_path / "file").write_bytes(data)
    assert read_json(tmp_path / "file") is None


def test_an_exit_record_comes_back(run: RunDir) -> None:
    assert exit_record.read(run) is None
    record = ExitRecord(
        run="sort-aaaaaa",
        ending=Ending.CRASHED,
        reason="signal 9",
        returncode=137,
        signal=9,
        kl=0.5,
        left=(4, 5),
        cleanup=({"command": "rm", "returncode": 0},),
        gpu_memory_returned=False,
    )
    exit_record.write(run, record)
    assert exit_record.read(run) == record
    assert read_json(run.exit_record) == {**read_json(run.exit_record), "schema": 1}  # type: ignore[dict-item]


def test_a_mere_look_at_a_lock_is_no_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a controller that begins in that moment goes, and nobody controls."""
    path = tmp_path / "lock"
    looking = [os.open(path, os.O_RDONLY | os.O_CREAT)]
    fcntl.flock(looking[0], fcntl.LOCK_SH)
    monkeypatch.setattr("autoresearch.runner.basics.time.sleep", lambda _: os.close(looking.pop()))
    with locked(path, blocking=False) as alone:
        assert alone and not looking


def test_a_run_that_ends_while_somebody_looks_is_not_dead(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    run.spec.write_text("{}")
    run.runner.write_text("{}")

    def ends_now(path: Path) -> bool:
        run.exit_record.write_text("{}")
        return False

    monkeypatch.setattr("autoresearch.records.rundir.is_locked", ends_now)
    assert run.state() is RunState.ENDED
