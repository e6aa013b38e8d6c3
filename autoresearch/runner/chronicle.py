"""What the Runner writes down: events, the journal for people, the exit record."""

from __future__ import annotations

import json
import os
import time

from .basics import clock, open_append, wall, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD_BYTES = 8192


class Chronicle:
    """Events, the journal for people, and the exit record. No failing write ever stops the Runner."""

    def __init__(self, run_dir: str, journal: str) -> None:
        self.dir = run_dir
        self.origin = clock()
        self._events = _appending(os.path.join(run_dir, "events.jsonl"))
        self._journal = _appending(journal)
        self._torn: set[int] = set()
        self._reserve = -1
        self._reserved = 0  # bytes that the disk cannot take back

    def emit(self, event: str, text: str, **fields: Any) -> None:
        """One line of JSON for programs and one sentence for people."""
        t, s = wall(), clock() - self.origin
        line = {"t": round(t, 3), "s": round(s, 3), "event": event, "text": text, **fields}
        self._append(self._events, json.dumps(line).encode() + b"\n")
        stamp = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(t))
        sentence = f"- {stamp} +{s:.1f}s {' '.join(text.split())}\n"
        self._append(self._journal, sentence.encode("utf-8", "replace"))

    def _append(self, fd: int, line: bytes) -> None:
        if fd < 0:
            return
        if fd in self._torn:  # the disk was full in the middle of a line: this one must not be glued to it
            line = b"\n" + line
        try:
            whole = os.write(fd, line) == len(line)
        except OSError:
            return
        (self._torn.discard if whole else self._torn.add)(fd)

    def reserve(self) -> None:
        """Real bytes on the disk for the exit record, while there are any. Raises OSError."""
        path = os.path.join(self.dir, "exit.rec")
        self._reserve = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        write_all(self._reserve, b" " * RECORD_BYTES)
        os.fsync(self._reserve)
        self._reserved = RECORD_BYTES

    def record_exit(self, record: dict[str, Any]) -> None:
        """Write the exit record into the reserve and give it its name: works on a full disk."""
        data = json.dumps(record).encode()
        while len(data) >= RECORD_BYTES:  # too long: the end of the longest text goes
            key = max((k for k in record), key=lambda k: len(json.dumps(record[k])))
            record[key] = record[key][: len(record[key]) // 2]
            data = json.dumps(record).encode()
        if self._reserve < 0:
            return
        data = data.ljust(self._reserved - 1) + b"\n"
        offset = 0
        while offset < len(data):
            offset += os.pwrite(self._reserve, data[offset:], offset)
        os.fsync(self._reserve)
        os.rename(os.path.join(self.dir, "exit.rec"), os.path.join(self.dir, "exit.json"))
        fd = os.open(self.dir, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """A small file of the run directory, whole or not at all."""
        path = os.path.join(self.dir, name)
        try:
            fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_all(fd, json.dumps(value, indent=1).encode() + b"\n")
            finally:
                os.close(fd)
            os.rename(path + ".tmp", path)
        except OSError as error:
            self.emit("warning", f"{name} could not be written: {error.strerror}")


def _appending(path: str) -> int:
    try:
        return open_append(path)
    except OSError:
        return -1
