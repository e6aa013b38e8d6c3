"""The records that the Runner writes, with secrets masked: events, journal, exit record."""

from __future__ import annotations

import errno
import json
import os
import time

from .basics import clock, open_append, wall, write_all
from .masking import clean_text, mask_values
from .text import without_html

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

RECORD_BYTES = 8192


class EventLog:
    """All records of a run. A failed write never stops the Runner."""

    def __init__(self, run_dir: str, journal: str) -> None:
        self.dir = run_dir
        self.path_of_journal = journal
        self.origin = clock()
        self._events, self._journal = _appending(f"{run_dir}/events.jsonl"), _appending(journal)
        self._torn: set[int] = set()  # descriptors whose last line was cut by a full disk
        self.disk_full = False  # whether a full disk kept a line from being written
        self._reserve = -1
        self._reserved = 0  # bytes allocated on disk

    def emit(self, event: str, text: str, **fields: object) -> None:
        """Append an event: a JSON line to events.jsonl and a sentence to the journal."""
        t, s = wall(), clock() - self.origin
        text = clean_text(text)
        line = {"t": round(t, 3), "s": round(s, 3), "event": event, "text": text, **mask_values(fields)}
        self._append(self._events, json.dumps(line))
        stamp = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(t))
        self._append(self._journal, f"- {stamp} +{s:.1f}s {without_html(' '.join(text.split()))}")

    def _append(self, fd: int, text: str) -> None:
        line = text.encode("utf-8", "replace") + b"\n"
        if fd in self._torn:
            line = b"\n" + line
        try:
            whole = os.write(fd, line) == len(line)
        except OSError as error:
            self.disk_full = self.disk_full or error.errno in (errno.ENOSPC, errno.EDQUOT)
            return
        self.disk_full = self.disk_full or not whole
        (self._torn.discard if whole else self._torn.add)(fd)

    def reserve(self) -> None:
        """Allocate disk space for the exit record while there is some. Raises OSError."""
        self._reserve = os.open(f"{self.dir}/exit.rec", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        write_all(self._reserve, b" " * RECORD_BYTES)
        os.fsync(self._reserve)
        self._reserved = RECORD_BYTES

    def record_exit(self, record: dict[str, Any]) -> None:
        """Write the exit record into the reserved space and rename it: works on a full disk. Raises OSError."""
        record = mask_values(record)
        data = json.dumps(record).encode()
        while len(data) >= RECORD_BYTES:  # too long: halve the longest value
            longest = max(record, key=lambda name: len(json.dumps(record[name])))
            record[longest] = record[longest][: len(record[longest]) // 2]
            data = json.dumps(record).encode()
        os.lseek(self._reserve, 0, os.SEEK_SET)
        write_all(self._reserve, data.ljust(self._reserved - 1) + b"\n")
        os.fsync(self._reserve)
        os.rename(f"{self.dir}/exit.rec", f"{self.dir}/exit.json")
        directory = os.open(self.dir, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(directory)
        os.close(directory)

    def write_json(self, name: str, value: dict[str, object]) -> None:
        """Write a small file of the run directory atomically, with secrets masked."""
        path = f"{self.dir}/{name}"
        try:
            with open(path + ".tmp", "w") as file:
                json.dump(mask_values(value), file, indent=1)
            os.rename(path + ".tmp", path)
        except OSError as error:
            self.emit("warning", f"{name} could not be written: {error.strerror}")


def _appending(path: str) -> int:
    try:
        return open_append(path)
    except OSError:
        return -1
