"""The last metrics of a growing log: each byte is parsed once, and of a large addition only the end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import LogReader, ReadsLogs, Trainer
from autoresearch.core.text.lines import logical_lines
from autoresearch.errors import UsageError
from autoresearch.lab.runs.run_status import TAIL_BYTES
from autoresearch.readers.chunks import flat
from autoresearch.runner.line_patterns import lines_with
from autoresearch.runner.log_follower import LogFollower

NEWEST_BYTES = 4096  # of a chunk's end, searched for its last line


@dataclass(slots=True)
class ReadBudget:
    """What one look at all runs may still read; the rest is read at the next."""

    left: float  # bytes of logs
    files: bool = True  # whether one run's metrics files may be read, which may be slow
    once: bool = False  # there is no next look: read everything, including an unfinished line


class LiveReadings:
    """The last training step and the last validation of one log."""

    def __init__(self, log: str, spec: RunSpec) -> None:
        self.log, self.spec = log, spec
        self.step: Reading | None = None
        self.validation: Reading | None = None
        self.newest = ""  # the last complete line, until a step is known
        self.behind = False  # more was not read for lack of budget
        self._seen = (0, 0, 0)
        self._follower: LogFollower | None = None
        self._trainer: Trainer | None = None
        self._reader: LogReader | None = None

    def update(self, budget: ReadBudget) -> bool:
        """Read additions; True if they had new metrics. A missing log has none."""
        try:
            found = os.stat(self.log)  # noqa: PTH116 - as in `kept`
        except OSError:
            return False
        now = (found.st_ino, found.st_mtime_ns, found.st_size)
        if now == self._seen:
            return False
        self.behind = budget.left <= 0
        if self.behind or not self._ready():
            return False
        self._seen = now
        before = (self.step, self.validation)
        follower = self._at_the_end(found.st_size)
        for chunk in follower.poll():
            budget.left -= len(chunk)
            self._take(chunk)
        if budget.once and self._reader is not None:
            self._keep_last([self._reader.end()])
        follower.close()  # with 1,000 runs not every log can stay open
        return (self.step, self.validation) != before

    def _ready(self) -> bool:
        if self._trainer is None:
            from autoresearch.trainers import registry

            try:
                self._trainer = registry.of_run(self.spec)
            except UsageError:  # a newer version's
                return False
            self._reader = self._trainer.reader() if isinstance(self._trainer, ReadsLogs) else None
        return True

    def _at_the_end(self, size: int) -> LogFollower:
        """The follower, moved forward to the start of a line if it is too far behind."""
        offset = self._follower.offset if self._follower else 0
        if self._follower is None or size - offset > TAIL_BYTES:
            if size - offset > TAIL_BYTES:
                offset = size - TAIL_BYTES + _rest_of_line(self.log, size - TAIL_BYTES)
            self._follower = LogFollower(self.log, offset)
        return self._follower

    def _take(self, chunk: bytes) -> None:
        """Parse only the last line of each kind if lines are independent; a stateful reader needs them all."""
        if self.step is None:
            self.newest = next(reversed(list(logical_lines(chunk[-NEWEST_BYTES:]))), self.newest)
        if self._reader is None:
            assert self._trainer is not None
            self._keep_last(map(self._trainer.read_line, reversed(list(logical_lines(chunk)))))
            return
        needles = tuple(needle.encode() for needle in self._reader.needles)
        text = flat(chunk)
        found = [
            self._reader.line(line) for low, high in lines_with(text, needles) for line in logical_lines(text[low:high])
        ]
        self._keep_last(reversed(found))

    def _keep_last(self, newest_first: Iterable[Reading | None]) -> None:
        wanted = {SignalKind.STEP, SignalKind.VALIDATION}
        for reading in newest_first:
            if reading is None or reading.kind not in wanted:
                continue
            wanted.discard(reading.kind)
            if reading.kind is SignalKind.STEP:
                self.step = reading
            else:
                self.validation = reading
            if not wanted:
                return


def _rest_of_line(path: str, offset: int) -> int:
    """Bytes from the offset to the start of the next line."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the log's path is text here
            file.seek(offset)
            return file.read(TAIL_BYTES).find(b"\n") + 1
    except OSError:
        return 0
