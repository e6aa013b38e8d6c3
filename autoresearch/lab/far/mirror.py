"""Mirror a far directory into the run directory of this machine, piece by piece."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.far import Seen
from autoresearch.core.run import RunSpec
from autoresearch.records import journal
from autoresearch.records.rundir import RunDir, read_json, write_all, write_json

TOLD_S = 2.0  # clocks that differ by less are one clock
OFFSETS = "mirror.json"  # how much of each far file is here


def offsets(rundir: RunDir, watched: Mapping[str, str] | None = None) -> dict[str, int]:
    """Bytes of each far file that are here. The log's are counted: a kill may come between it and the note.

    watched: files of metrics elsewhere there -> here.
    """
    known = {name: int(n) for name, n in (read_json(rundir.path / OFFSETS) or {}).items()}
    found = {"events.jsonl": 0, "journal.md": 0, **known}
    for path in (rundir.log, rundir.evaluation):
        found[path.name] = path.stat().st_size if path.exists() else 0
    for far, here in (watched or {}).items():
        found[far] = Path(here).stat().st_size if Path(here).exists() else 0
    return found


def mirror(
    rundir: RunDir,
    spec: RunSpec,
    seen: Seen,
    had: dict[str, int],
    offset_s: float,
    watched: Mapping[str, str] | None = None,
) -> None:
    """Take in what was seen; `had` is updated. offset_s: the far clock minus ours. watched: see `offsets`."""
    taken = {path.name: path for path in (rundir.log, rundir.evaluation)}
    taken |= {far: Path(here) for far, here in (watched or {}).items()}
    for name, path in taken.items():
        if piece := seen.grown.get(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            _append(path, piece)
            had[name] += len(piece)
    told = _whole_lines(seen.grown.get("events.jsonl", b""))
    for line in told.splitlines(keepends=True):
        _append(rundir.events, _in_our_time(line, offset_s))
    lines = _whole_lines(seen.grown.get("journal.md", b""))
    if lines:
        _append(Path(spec.result_dir) / journal.NAME, lines)
    if told or lines:
        had["events.jsonl"] += len(told)
        had["journal.md"] += len(lines)
        write_json(rundir.path / OFFSETS, {name: had[name] for name in ("events.jsonl", "journal.md")}, durable=False)
    if (seen.runner and not rundir.runner.exists()) or _changed(rundir, seen.runner):
        write_json(rundir.runner, in_our_time(seen.runner, offset_s), durable=False)


def in_our_time(record: Mapping[str, Any], offset_s: float) -> dict[str, Any]:
    """A record whose wall times are ours; a difference that may be noise is left."""
    if abs(offset_s) < TOLD_S:
        return dict(record)
    times = {name: record[name] - offset_s for name in ("t", "started", "ended") if _is_time(record.get(name))}
    return {**record, **times}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _changed(rundir: RunDir, record: Mapping[str, Any]) -> bool:
    return bool(record) and (read_json(rundir.runner) or {}).get("trainer_pid") != record.get("trainer_pid")


def _in_our_time(line: bytes, offset_s: float) -> bytes:
    if abs(offset_s) < TOLD_S:
        return line
    try:
        return json.dumps(in_our_time(json.loads(line), offset_s)).encode() + b"\n"
    except (ValueError, AttributeError):
        return line


def _whole_lines(piece: bytes) -> bytes:
    return piece[: piece.rfind(b"\n") + 1]


def _append(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
