"""events.jsonl: the events of a run, one JSON object per line, written by the Runner and by intervening commands.

    {"t": wall clock seconds, "s": seconds since the Runner started or null, "event": identifier, ...}

An event's sequence number is its line number, from 1. A last line without a newline does not count yet; an invalid
line (half of one, from a killed writer) keeps its number and is skipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.records.files import append_line, json_line, lines_from, reading


@dataclass(frozen=True, slots=True)
class Event:
    """One line of events.jsonl; `event["step"]` and `event.get("step")` read its other fields."""

    seq: int
    t: float
    s: float | None
    event: str
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, or `default`."""
        return self.fields.get(name, default)

    def record(self) -> dict[str, Any]:
        """The event as a flat object with its number, as `events --json` prints it."""
        return {"seq": self.seq, "t": self.t, "s": self.s, "event": self.event, **self.fields}


def append(path: Path, event: str, *, s: float | None = None, t: float | None = None, **fields: Any) -> None:
    """Append an intervention; `s` is None if the Runner's clock is not known.

    Non-finite numbers become null. Raises EnvironmentUnusable if it cannot be written.
    """
    record = {"t": round(time.time() if t is None else t, 3), "s": s, "event": event, **fields}
    append_line(path, json_line(record))


def read(path: Path, since: int = 0) -> tuple[list[Event], int]:
    """The events after number `since`, and the number to pass next time; a missing file has no events."""
    found: list[Event] = []
    seq = 0
    with reading(path) as fd:
        if fd is None:
            return [], since
        for seq, line in enumerate(lines_from(fd), 1):
            if not line.endswith(b"\n"):
                seq -= 1
                break
            if seq > since and (event := _parse(seq, line)):
                found.append(event)
    return found, max(seq, since)


def last(path: Path, count: int) -> list[Event]:
    """The last `count` events, oldest first."""
    return read(path)[0][-count:] if count else []


def _parse(seq: int, line: bytes) -> Event | None:
    try:
        record = json.loads(line)
        t, s, word = record.pop("t", 0.0), record.pop("s", None), record.pop("event")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(word, str):
        return None
    return Event(seq, _seconds(t) or 0.0, _seconds(s), word, record)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
