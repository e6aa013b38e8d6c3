"""Nothing lost, nothing doubled: after a kill between write and note, on a full disk, on another clock."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import DirectoryState, Want
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.remote_files.mirror import RemoteMirror, in_our_time
from autoresearch.launchers.shared import SharedFiles
from autoresearch.records import recorded_run
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


class Far:
    """A far directory that grows, and its mirror."""

    def __init__(self, rundir: RunDir) -> None:
        self.rundir = rundir
        self.spec = recorded_run.read(rundir)
        self.mirror = RemoteMirror(RecordedRun(rundir, self.spec))
        self.count = 0
        rundir.far.mkdir()

    def grow(self, lines: int = 1) -> None:
        for _ in range(lines):
            self.count += 1
            n = self.count
            self.add("run.log", f"step:{n} é\n".encode())
            self.add(
                "events.jsonl", json.dumps({"t": 5000.0 + n, "s": n + 0.5, "event": "step", "n": n}).encode() + b"\n"
            )
            self.add("journal.md", f"- 2026-11-21 10:00:{n % 60:02}Z +{n}.5s step {n}\n".encode())

    def add(self, name: str, data: bytes) -> None:
        with (self.rundir.far / name).open("ab") as file:
            file.write(data)

    def look(self) -> DirectoryState:
        return SharedFiles().look([Want("run", str(self.rundir.far), self.mirror.had)])["run"]

    def take(self, offset_s: float = 0.0) -> bool:
        return self.mirror.take(self.look(), offset_s)

    def again(self) -> None:
        """Another look."""
        self.mirror = RemoteMirror(RecordedRun(self.rundir, self.spec))

    def same(self) -> None:
        journal = Path(self.spec.result_dir) / "experiment_log.md"
        assert self.rundir.log.read_bytes() == (self.rundir.far / "run.log").read_bytes()
        assert self.rundir.events.read_bytes() == (self.rundir.far / "events.jsonl").read_bytes()
        assert journal.read_bytes() == (self.rundir.far / "journal.md").read_bytes()


@pytest.fixture
def far(ground: Any) -> Far:
    return Far(ground.order())


def test_piece_by_piece(far: Far) -> None:
    for lines in (3, 0, 1, 40):
        far.grow(lines)
        assert far.take() is (lines > 0)
    far.same()


def test_half_a_line_waits_for_its_end(far: Far) -> None:
    far.grow()
    far.add("events.jsonl", b'{"t": 1, "s": 9, "event": "ha')
    far.take()
    assert far.rundir.events.read_bytes().count(b"\n") == 1
    far.add("events.jsonl", b'lf"}\n')
    far.take()
    far.same()


@pytest.mark.parametrize("offset_s", [0.0, 3600.0])
def test_killed_between_write_and_note(far: Far, monkeypatch: pytest.MonkeyPatch, offset_s: float) -> None:
    far.grow(2)
    far.take(offset_s)
    far.grow(3)
    with monkeypatch.context() as patched:
        patched.setattr("autoresearch.lab.remote_files.mirror.write_json", dies)
        with pytest.raises(KeyboardInterrupt):
            far.take(offset_s)
    far.grow(1)
    far.again()
    far.take(offset_s + 0.01)
    told = [json.loads(line)["n"] for line in far.rundir.events.read_text().splitlines()]
    assert told == [1, 2, 3, 4, 5, 6]
    journal = (Path(far.spec.result_dir) / "experiment_log.md").read_text()
    assert [line.rpartition(" ")[2] for line in journal.splitlines()] == list("123456")
    if not offset_s:
        far.same()


def dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_disk_that_is_full_for_a_while(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    far.grow(2)
    far.take()
    real, room = os.write, [30]

    def write(fd: int, data: bytes) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = real(fd, bytes(data)[: room[0]])
        room[0] -= taken
        return taken

    far.grow(5)
    for more in (0, 100, 100, 200):
        room[0] += more
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write)
            with pytest.raises((OSError, EnvironmentUnusable)):
                far.take()
    far.grow(1)
    far.take()
    assert far.rundir.log.read_bytes() == (far.rundir.far / "run.log").read_bytes()
    whole = [json.loads(line)["n"] for line in far.rundir.events.read_text().splitlines() if line.endswith("}")]
    assert whole == list(range(1, 9)), "nothing lost, nothing doubled"


def test_our_own_lines_stay_between_theirs(far: Far) -> None:
    from autoresearch.records import events

    far.grow()
    far.take()
    events.append(far.rundir.events, "stop_requested", how="now")
    far.grow()
    far.again()
    far.take()
    assert [e.event for e in events.read(far.rundir.events)[0]] == ["step", "stop_requested", "step"]


def test_an_hour_between_the_clocks(far: Far) -> None:
    far.grow()
    far.take(3600.0)
    assert json.loads(far.rundir.events.read_text())["t"] == 5001.0 - 3600.0
    assert "2026-11-21 09:00:01Z +1.5s step 1" in (Path(far.spec.result_dir) / "experiment_log.md").read_text()
    assert in_our_time({"started": 10_000.0, "duration_s": 5.0, "ended": None}, 3600.0) == {
        "started": 6400.0,
        "duration_s": 5.0,
        "ended": None,
    }
    assert in_our_time({"t": 10_000.0}, 1.5) == {"t": 10_000.0}, "noise is left"


@pytest.mark.system
def test_more_than_a_piece_comes_before_the_last_word(ground: Any) -> None:
    rundir = ground.order("head -c 5000000 /dev/zero | tr '\\0' x; exit 0")
    assert ground.ended(rundir).ending == "finished"
    assert rundir.log.stat().st_size == (rundir.far / "run.log").stat().st_size >= 5_000_000
