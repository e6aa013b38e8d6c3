"""Mirror a remote run directory into the local one, piece by piece."""

from __future__ import annotations

import calendar
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.run.job_launcher import DirectoryState
from autoresearch.core.text.regex import later
from autoresearch.records import journal
from autoresearch.records.appending import append_line
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import read_json, write_all, write_json
from autoresearch.runner.basics import whole as whole_number
from autoresearch.runner.remote_requests import PIECE

TOLD_S = 2.0  # clocks that differ by less count as equal
OFFSETS = "mirror.json"  # how many bytes of each remote file are here
EVENTS, JOURNAL = "events.jsonl", "journal.md"
_STAMP = later(rb"- (\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ) ")  # start of a journal line
_CALENDAR = "%Y-%m-%d %H:%M:%SZ"
_TIMES = ("t", "started", "ended")  # wall times of a record


class RemoteMirror:
    """The local copy of one remote run directory. A kill or a full disk loses no byte and doubles no line."""

    def __init__(self, recorded: RecordedRun, watched: Mapping[str, str] | None = None) -> None:
        self.rundir = recorded.rundir
        self._watched = {far: Path(here) for far, here in (watched or {}).items()}  # metrics outside the run directory
        self.journal = Path(recorded.spec.result_dir) / journal.NAME
        self.had: dict[str, int] = {}  # file name -> bytes of the remote file that are here
        self._begin()

    def _begin(self) -> None:
        """Restart the counts: a log's local size is its count, but other files get local lines, so theirs is
        recorded.
        """
        noted = read_json(self.rundir.path / OFFSETS) or {}
        self.had = {name: whole_number(noted.get(name)) or 0 for name in (EVENTS, JOURNAL)}
        for name, path in self._pieces().items():
            self.had[name] = path.stat().st_size if path.exists() else 0

    def _pieces(self) -> dict[str, Path]:
        return {path.name: path for path in (self.rundir.log, self.rundir.evaluation)} | self._watched

    def take(self, directory_state: DirectoryState, offset_s: float) -> bool:
        """Write what was seen; returns whether lines came. offset_s: remote clock minus local clock.

        Raises OSError or EnvironmentUnusable if it cannot be written: the next look fetches it again.
        """
        try:
            return self._take(directory_state, offset_s)
        except BaseException:
            self._begin()
            raise

    def _take(self, directory_state: DirectoryState, offset_s: float) -> bool:
        for name, path in self._pieces().items() if directory_state.grown else ():
            if piece := directory_state.grown.get(name):
                self._make_room(path)
                _append(path, piece)
                self.had[name] += len(piece)
        came = False
        for name, path in ((EVENTS, self.rundir.events), (JOURNAL, self.journal)):
            piece = directory_state.grown.get(name, b"")
            if whole := piece[: piece.rfind(b"\n") + 1] or piece[: len(piece) // PIECE * PIECE]:  # a line without end
                self._add_lines(path, whole, offset_s)
                self.had[name] += len(whole)
                came = True
        if came:
            noted = {name: self.had[name] for name in (EVENTS, JOURNAL)}
            write_json(self.rundir.path / OFFSETS, noted, durable=False)
        if directory_state.runner and not _is_same(directory_state.runner, read_json(self.rundir.runner) or {}):
            write_json(self.rundir.runner, in_our_time(directory_state.runner, offset_s), durable=False)
        return came

    def _make_room(self, path: Path) -> None:
        """Create a file's directory; a removed run directory is not created again."""
        if path.parent != self.rundir.path:
            path.parent.mkdir(parents=True, exist_ok=True)

    def _add_lines(self, path: Path, lines: bytes, offset_s: float) -> None:
        self._make_room(path)
        known = _marks(path)  # a look that was killed may have written lines that it did not count
        for line in lines.splitlines(keepends=True):
            if line.strip() and _mark(line) not in known:
                append_line(path, _line_in_our_time(line, offset_s), durable=False)


def _marks(path: Path) -> frozenset[bytes]:
    """The marks that identify the lines of a file."""
    try:
        return frozenset(_mark(line) for line in path.read_bytes().splitlines())
    except OSError:
        return frozenset()


def _mark(line: bytes) -> bytes:
    """A line without its wall time, which another clock changes; the Runner's own `s` identifies it."""
    try:
        record = json.loads(line)
        record.pop("t", None)
        return json.dumps(record, sort_keys=True).encode()
    except (ValueError, AttributeError):
        return _STAMP.sub(b"", line.strip(), count=1)


def in_our_time(record: Mapping[str, Any], offset_s: float) -> dict[str, Any]:
    """A record with its wall times converted to the local clock; offsets that may be noise are ignored."""
    if abs(offset_s) < TOLD_S:
        return dict(record)
    times = {name: record[name] - offset_s for name in _TIMES if _is_time(record.get(name))}
    return {**record, **times}


def _is_same(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records differ in their wall times at most."""
    return {**record, **dict.fromkeys(_TIMES)} == {**other, **dict.fromkeys(_TIMES)}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _line_in_our_time(line: bytes, offset_s: float) -> bytes:
    if abs(offset_s) < TOLD_S:
        return line
    if stamp := _STAMP.match(line):
        there = calendar.timegm(time.strptime(stamp[1].decode(), _CALENDAR))
        return f"- {time.strftime(_CALENDAR, time.gmtime(there - offset_s))} ".encode() + line[stamp.end() :]
    try:
        return json.dumps(in_our_time(json.loads(line), offset_s)).encode() + b"\n"
    except (ValueError, AttributeError):
        return line


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
