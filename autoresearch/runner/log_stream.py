"""Streams the run directory to stdout, for targets that return only a job's log (Ray's `/logs`), which is a file there.

run.log is written unchanged. Frames are interleaved, one per line: the byte 0x1e (ASCII's record separator, as in
RFC 7464), a JSON object, a line feed. `{"told": RUN, "file": NAME, "text": ...}` is a piece of another growing file;
`{"told": RUN, "file": NAME, "record": {...}}` is the current content of a small file. The frame of exit.json comes
last. The frame of `lock` is a periodic heartbeat: `{"t": seconds since 1970}`. `core.run.log_stream` parses the stream.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os

from .basics import NEVER, clock, wall
from .remote_requests import GROWING, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LOG = "run.log"
PACE_S = 1.0  # minimum interval between pieces
BEAT_S = 30.0  # between two heartbeats


class LogStream:
    """Replaces `TerminalMirror`: writes everything that appears in the run directory to stdout, skipping nothing.

    Bytes that are not UTF-8 are replaced, because Ray cannot serve a log that contains them.
    """

    def __init__(self, run: str, directory: str, metrics: Sequence[str] = ()) -> None:
        """`metrics`: absolute paths of further growing files."""
        self.run = run
        self.directory = directory
        self.next_at = 0.0
        names = (*GROWING, *metrics)
        self._offsets = dict.fromkeys(names, 0)
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in names}
        self._runner: dict[str, Any] = {}
        self._beat_at = 0.0

    def say(self, text: str) -> int:
        """No-op: there is no terminal to print to."""
        return 0

    def wake(self, now: float) -> None:
        """Schedule a pump within `PACE_S`: there may be new content."""
        self.next_at = min(self.next_at, now + PACE_S)

    def pump(self, now: float) -> None:
        """Write new content if it is time."""
        if now >= self.next_at:
            self.next_at = now + PACE_S if self._tell() else NEVER

    def finish(self, text: str) -> None:
        """Write everything that is left and then the exit record."""
        while self._tell():
            pass
        self._write(self._frame("exit.json", record=look(self.directory, {}).get("exit", {})))

    def _tell(self) -> bool:
        """Write one piece of what is new; returns whether there was any."""
        news = self._news()
        self._write(news)
        return bool(news)

    def _write(self, text: str) -> None:
        data = text.encode()
        with contextlib.suppress(OSError):  # the disk of a head may be full
            while data:
                data = data[os.write(1, data) :]

    def _news(self) -> str:
        seen = look(self.directory, self._offsets)
        told = ""
        if seen.get("runner") and seen["runner"] != self._runner:
            self._runner = seen["runner"]
            told += self._frame("runner.json", record=self._runner)
            self._beat_at = 0.0
        if self._runner and clock() >= self._beat_at:
            self._beat_at = clock() + BEAT_S
            told += self._frame("lock", record={"t": round(wall(), 3)})
        for name, piece in seen.get("grown", {}).items():
            self._offsets[name] += len(piece)
            text = self._decoders[name].decode(piece)
            told += text if name == LOG else self._frame(name, text=text)
        return told

    def _frame(self, name: str, **what: object) -> str:
        return "\x1e" + json.dumps({"told": self.run, "file": name, **what}) + "\n"
