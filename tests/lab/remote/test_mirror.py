"""Nothing lost, nothing doubled: after a kill between write and note, on a full disk, on another clock."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import DirectoryState, Want
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.remote_files import mirror as mirroring
from autoresearch.lab.remote_files.mirror import RemoteMirror
from autoresearch.launchers.shared import SharedFiles
from autoresearch.records import recorded_run
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.remote_files import PIECE


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
            event = {"t": 5000.0 + n, "s": n + 0.5, "event": "step", "text": f"step {n}", "n": n}
            self.add("events.jsonl", json.dumps(event).encode() + b"\n")

    def add(self, name: str, data: bytes) -> None:
        with (self.rundir.far / name).open("ab") as file:
            file.write(data)

    def look(self) -> DirectoryState:
        return SharedFiles().look([Want("run", str(self.rundir.far), self.mirror.had)])["run"]

    def take(self, ahead_s: float = 0.0) -> bool:
        return self.mirror.take(replace(self.look(), ahead_s=ahead_s))

    def again(self) -> None:
        """Another look."""
        self.mirror = RemoteMirror(RecordedRun(self.rundir, self.spec))

    def same(self) -> None:
        assert self.rundir.log.read_bytes() == (self.rundir.far / "run.log").read_bytes()
        here, there = (
            [json.loads(line) for line in path.read_text().splitlines()]
            for path in (self.rundir.events, self.rundir.far / "events.jsonl")
        )
        assert [event.pop("far") for event in here][-1] == (self.rundir.far / "events.jsonl").stat().st_size
        assert here == there
        assert self.journal == [f"step {event['n']}" for event in there]

    @property
    def journal(self) -> list[str]:
        """The sentences of the run's journal."""
        text = (Path(self.spec.result_dir) / "experiment_log.md").read_text()
        return [line.partition("s ")[2] for line in text.splitlines()]


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
    far.add("events.jsonl", b'{"t": 1, "s": 9, "event": "step", "n": 2, "text": "ste')
    far.take()
    assert far.rundir.events.read_bytes().count(b"\n") == 1
    far.add("events.jsonl", b'p 2"}\n')
    far.take()
    far.same()


def test_what_is_no_event_is_left_out_once(far: Far) -> None:
    far.grow()
    far.add("events.jsonl", b"[1]\n" + b"x" * PIECE)
    for _ in range(3):
        far.take()
        far.again()
    far.add("events.jsonl", b"\n")
    far.grow()
    far.take()
    lines = [json.loads(line) for line in far.rundir.events.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["step", "warning", "warning", "warning", "step"]
    assert far.journal == ["step 1", "step 2"]


@pytest.mark.parametrize("offset_s", [0.0, 3600.0])
def test_killed_between_the_journal_and_the_event(far: Far, monkeypatch: pytest.MonkeyPatch, offset_s: float) -> None:
    far.grow(2)
    far.take(offset_s)
    far.grow(3)
    real, left = mirroring.append_line, [1]

    def dies(*words: Any, **more: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(*words, **more)

    with monkeypatch.context() as patched:
        patched.setattr(mirroring, "append_line", dies)
        with pytest.raises(KeyboardInterrupt):
            far.take(offset_s)
    assert far.journal == [f"step {n}" for n in range(1, 5)]
    far.grow(1)
    far.again()
    far.take(offset_s + 0.01)
    told = [json.loads(line)["n"] for line in far.rundir.events.read_text().splitlines()]
    assert told == [1, 2, 3, 4, 5, 6]
    assert far.journal == [f"step {n}" for n in range(1, 7)]
    if not offset_s:
        far.same()


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


@pytest.mark.system
def test_more_than_a_piece_comes_before_the_last_word(ground: Any) -> None:
    rundir = ground.order("head -c 5000000 /dev/zero | tr '\\0' x; exit 0")
    assert ground.ended(rundir).ending == "finished"
    assert rundir.log.stat().st_size == (rundir.far / "run.log").stat().st_size >= 5_000_000
