"""Telling everything on stdout, for places whose only way back is a job's log (`kubectl logs`, Ray's `/logs`).

The log goes out as it is. In between stand frames, one line each: the byte 0x1e (ASCII's record separator, as in
RFC 7464), a JSON object, a line feed. `{"told": RUN, "file": NAME, "text": ...}` is a piece of another growing file,
`{"told": RUN, "file": NAME, "record": {...}}` a small file as it is now; exit.json is the last. `lock`, now and then,
is a sign of life: `{"t": seconds since 1970}`. `core.run.log_stream` reads it.
"""

from __future__ import annotations

import codecs
import json
import os
import time

from .basics import NEVER, clock, wall
from .remote_requests import GROWING, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LOG = "run.log"
PACE_S = 1.0  # pieces are at least this far apart
BEAT_S = 30.0  # between two signs of life
LAST_S = 20.0  # what is left at the end may take so long


class LogStream:
    """In the place of `mirror.Mirror`: what is written into a run directory, on stdout; leaves nothing out.

    Bytes that are no UTF-8 are replaced: Ray cannot hand out a log that holds one. It never blocks on a pipe.
    """

    def __init__(self, run: str, directory: str, metrics: Sequence[str] = ()) -> None:
        """`metrics`: absolute paths of other files that grow."""
        self.run = run
        self.directory = directory
        self.next_at = 0.0
        names = (*GROWING, *metrics)
        self._offsets = dict.fromkeys(names, 0)
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in names}
        self._runner: dict[str, Any] = {}
        self._beat_at = 0.0
        self._left = b""  # what stdout did not take yet
        os.set_blocking(1, False)

    def say(self, text: str) -> int:
        """Nobody sits here."""
        return 0

    def turn_to(self, log: str) -> None:
        """Every log is told."""

    def wake(self, now: float) -> None:
        """There may be more to tell."""
        self.next_at = min(self.next_at, now + PACE_S)

    def pump(self, now: float) -> None:
        """Tell what is new, as much as stdout takes."""
        if now >= self.next_at:
            self.next_at = now + PACE_S if self._tell() else NEVER

    def finish(self, text: str) -> None:
        """All that is left, and the exit record as the last word."""
        until = clock() + LAST_S
        while self._tell() and clock() < until:
            time.sleep(0.02 if self._left else 0.0)
        self._left += self._frame("exit.json", record=look(self.directory, {}).get("exit", {})).encode()
        while self._write() and clock() < until:
            time.sleep(0.02)

    def _tell(self) -> bool:
        """One piece; whether there may be more."""
        news = b"" if self._left else self._news().encode()
        self._left += news
        return self._write() or bool(news)

    def _write(self) -> bool:
        """Whether anything is left to write."""
        try:
            while self._left:
                self._left = self._left[os.write(1, self._left) :]
        except BlockingIOError:
            return True
        except OSError:  # nobody listens any more
            self._left = b""
        return False

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
