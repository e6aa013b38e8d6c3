"""Parse a Runner's stdout where the job's log is the only channel back; `runner.log_stream` defines the format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.run.job_launcher import DirectoryState

LOG = "run.log"
EVALUATION = "evaluation.log"
_MARK = b"\x1e{"


@dataclass(slots=True)
class JobLog:
    """The files and records of one run, decoded from its job's log; every file starts at byte 0."""

    run: str
    files: dict[str, bytes] = field(default_factory=dict)  # growing files by name
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # runner.json, exit.json

    def seen(self, offsets: Mapping[str, int], most: int) -> DirectoryState:
        """The state with the file contents after these offsets, at most `most` bytes of each file."""
        grown = {name: data[offsets[name] :][:most] for name, data in self.files.items() if name in offsets}
        runner = self.records.get("runner.json", {})
        beat = self.records.get("lock", {}).get("t")
        return DirectoryState(
            claimed=bool(runner),
            beat=float(beat) if isinstance(beat, int | float) else None,
            runner=runner,
            exit=self.records.get("exit.json", {}),
            evaluating=EVALUATION in self.files,
            grown={name: piece for name, piece in grown.items() if piece},
            more=any(len(piece) == most for piece in grown.values()),
        )


def read(stream: bytes, run: str) -> JobLog:
    """Decode a job's log. Everything outside the frames of this run's Runner is `run.log`.

    That includes the launcher's own lines before the Runner's. An incomplete frame at the end is ignored for now.
    """
    told = JobLog(run)
    log = bytearray()
    at = 0
    stream = stream.removesuffix(_MARK[:1])
    while (mark := stream.find(_MARK, at)) >= 0 and (end := stream.find(b"\n", mark)) >= 0:
        frame = _frame(stream[mark + 1 : end], run)
        if frame is None:  # not a frame: a trainer may print the same bytes
            log += stream[at : mark + len(_MARK)]
            at = mark + len(_MARK)
            continue
        log += stream[at:mark]
        at = end + 1
        _take(told, frame)
    log += stream[at : mark if mark >= 0 else None]
    told.files[LOG] = bytes(log)
    return told


def _take(job_log: JobLog, frame: Mapping[str, Any]) -> None:
    name = str(frame["file"])
    if isinstance(frame.get("record"), dict):
        job_log.records[name] = frame["record"]
    else:
        job_log.files[name] = job_log.files.get(name, b"") + str(frame.get("text", "")).encode()


def _frame(line: bytes, run: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("told") == run and "file" in value else None
