"""Mirror a remote run directory into the local one, piece by piece."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.run.job_launcher import DirectoryState
from autoresearch.records import events, journal
from autoresearch.records.files import append_line, read_json, write_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.runner.basics import write_all
from autoresearch.runner.remote_files import PIECE

TOLD_S = 2.0  # clocks that differ by less count as equal
EVENTS = "events.jsonl"
FAR = "far"  # in a mirrored event: how many bytes of the remote file are here with it
_TIMES = ("t", "started", "ended")  # wall times of a record


class RemoteMirror:
    """The local copy of one remote run directory. A kill or a full disk loses no byte and doubles no line."""

    def __init__(self, recorded: RecordedRun, watched: Mapping[str, str] | None = None) -> None:
        self.rundir = recorded.rundir
        self.result_dir = Path(recorded.spec.result_dir)
        self._watched = {far: Path(here) for far, here in (watched or {}).items()}  # metrics outside the run directory
        self.had: dict[str, int] = {}  # file name -> bytes of the remote file that are here
        self._begin()

    def _begin(self) -> None:
        """Restart the counts: a log's local size is its count; the events, between which are local ones, say theirs."""
        came = (event.get(FAR) for event in events.read(self.rundir.events)[0])
        self.had = {EVENTS: max((far for far in came if isinstance(far, int)), default=0)}
        for name, path in self._pieces().items():
            self.had[name] = path.stat().st_size if path.exists() else 0

    def _pieces(self) -> dict[str, Path]:
        return {path.name: path for path in (self.rundir.log, self.rundir.evaluation)} | self._watched

    def take(self, directory_state: DirectoryState) -> bool:
        """Write what was seen; returns whether lines came.

        Raises OSError or EnvironmentUnusable if it cannot be written: the next look fetches it again.
        """
        try:
            return self._take(directory_state)
        except BaseException:
            self._begin()
            raise

    def _take(self, directory_state: DirectoryState) -> bool:
        for name, path in self._pieces().items() if directory_state.grown else ():
            if piece := directory_state.grown.get(name):
                if path.parent != self.rundir.path:  # a removed run directory is not created again
                    path.parent.mkdir(parents=True, exist_ok=True)
                _append(path, piece)
                self.had[name] += len(piece)
        piece = directory_state.grown.get(EVENTS, b"")
        whole = piece[: piece.rfind(b"\n") + 1] or piece[: len(piece) // PIECE * PIECE]  # a line without end
        for line in whole.splitlines(keepends=True):
            self._add_event(line, directory_state.ahead_s)
        if directory_state.runner and not _is_same(directory_state.runner, read_json(self.rundir.runner) or {}):
            write_json(self.rundir.runner, in_our_time(directory_state.runner, directory_state.ahead_s), durable=False)
        return bool(whole)

    def _add_event(self, line: bytes, ahead_s: float) -> None:
        """Add an event, and before it its sentence in the journal, as a Runner here does."""
        self.had[EVENTS] += len(line)
        try:
            record = in_our_time(json.loads(line), ahead_s)
            t, s, text = float(record["t"]), float(record["s"]), str(record.get("text") or record["event"])
        except (ValueError, KeyError, TypeError):
            record = {"t": 0, "s": None, "event": "warning", "text": "a line that is no event was left out"}
        else:
            journal.append(self.result_dir, text, s=s, t=t, once=True)
        append_line(self.rundir.events, json.dumps({**record, FAR: self.had[EVENTS]}).encode() + b"\n", durable=False)


def in_our_time(record: Mapping[str, Any], ahead_s: float) -> dict[str, Any]:
    """A record with its wall times converted to the local clock; what may be noise is ignored."""
    if abs(ahead_s) < TOLD_S:
        return dict(record)
    times = {name: record[name] - ahead_s for name in _TIMES if _is_time(record.get(name))}
    return {**record, **times}


def _is_same(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records differ in their wall times at most."""
    return {**record, **dict.fromkeys(_TIMES)} == {**other, **dict.fromkeys(_TIMES)}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
