"""Read a file of lines, such as a run's log, in constant memory; number readings without a step.

A last line without a newline is skipped, because it may be cut (`0.4` instead of `0.4137`), unless its writer `ended`
cleanly.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from autoresearch.core.metrics.signal import NO_STEP, LineReader, Reading, SignalKind
from autoresearch.core.text.regex import later
from autoresearch.records.files import tail
from autoresearch.records.hostile import open_readable
from autoresearch.runner.text import logical_lines

CHUNK = 1 << 20
LONGEST = 1 << 22  # a longer line is split; it cannot hold metrics

_RUN_URL = later(
    rb"(?P<scheme>https?://)(?:[^\s/@'\"\x1b]{1,200}@)?"
    rb"(?P<rest>[\w.-]{1,200}(?::\d{1,5})?/[\w.@~%+#/-]{1,300}?/runs/[\w-]{3,64})"
)
_TRACKER = later(rb"(?i)(?:wandb|swanlab):|view run")
_ALONE = later(rb"(?:\([^()\n]{1,120}\)|\x1b\[[\d;]*m|\s)*\Z")  # rich puts a long URL on a separate line
_THEIRS = (b"wandb.ai/", b"swanlab.cn/", b"swanlab.com/")
MOST_URLS = 8
_ENDS = 4 << 20  # bytes at each end of a log; a tracker starts within minutes


def chunks(path: Path, offset: int = 0, *, ended: bool = False) -> Iterator[bytes]:
    """The file from `offset` on, split after newlines; the last chunk may end in the middle of a line.

    `ended`: the file is complete, so a last line without a newline is whole and gets one.

    A file that is missing, or is none, has no chunks; if a file shrinks while it is read, reading stops. Carriage
    returns do not end a chunk, so that a progress bar and the text glued to it stay together, unless a line is longer
    than LONGEST.
    """
    try:
        file = open_readable(path)
    except OSError:
        return
    with file:
        file.seek(offset)
        rest = b""
        while data := _next(file):
            data = rest + data
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) >= LONGEST:
                end = data.rfind(b"\r") + 1 or len(data)
            if end:
                yield data[:end]
            rest = data[end:]
        if rest:
            yield rest + b"\n" if ended else rest


def _next(file: io.FileIO) -> bytes:
    """The next chunk of written data; a hole in a sparse file is skipped and replaced by one NUL.

    A log that is truncated while its writer continues, or stretched by one call of the training, may hold terabytes.
    """
    here = file.tell()
    try:
        written = os.lseek(file.fileno(), here, os.SEEK_DATA)
    except OSError as failure:
        if failure.errno == errno.ENXIO:  # no data from here to the end of the file
            return b""
        written = here  # this file does not support SEEK_DATA
    return (b"\0" if written > here else b"") + file.read(CHUNK)


def lines(path: Path, offset: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Each line without its newline, and whether it had one (a torn last line has none)."""
    for chunk in chunks(path, offset):
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            yield piece, True
        if pieces[-1]:
            yield pieces[-1], False


def read_whole_log(path: Path, reader: LineReader, offset: int = 0, *, ended: bool = False) -> Iterator[Reading]:
    """The readings in a log from a byte offset on, in the order of completion; the file may be missing.

    Readings without a step are counted.
    """

    def readings() -> Iterator[Reading]:
        for chunk in chunks(path, offset, ended=ended):
            text = chunk.replace(b"\r", b"\n")
            yield from reader.feed(text[: text.rfind(b"\n") + 1])
        yield from reader.end()

    return numbered(readings())


def tail_lines(path: Path, *, max_bytes: int = 1 << 20) -> list[str]:
    """The last stripped lines of a log, within its last `max_bytes`; [] if it is missing."""
    return list(logical_lines(tail(path, max_bytes)))


def numbered(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Number training readings without a step from 1; a validation gets the step of the training reading before it."""
    last, counted = 0, True
    for reading in readings:
        if reading.step == NO_STEP and reading.kind is SignalKind.STEP:
            reading = Reading(reading.kind, last + 1, reading.metrics, ordinal=True)
        elif reading.step == NO_STEP:
            reading = Reading(reading.kind, last, reading.metrics, ordinal=counted)
        if reading.kind is SignalKind.STEP:
            last, counted = reading.step, reading.ordinal
        yield reading


def merged(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """One reading per kind and step, in order of first appearance; later values win.

    Logs repeat steps: Ray prints the tail of a failed job again, AgentJet prints its first validation twice, and a
    resumed run repeats the steps after its checkpoint.
    """
    found: dict[tuple[bool, int], Reading] = {}
    for reading in readings:
        place = reading.kind is SignalKind.STEP, reading.step
        known = found.get(place)
        metrics = {**known.metrics, **reading.metrics} if known else None
        found[place] = replace(reading, metrics=metrics) if metrics else reading
    return tuple(found.values())


def urls_in(log: Path, ends: int = _ENDS) -> tuple[str, ...]:
    """The pages of trackers that a run printed at the beginning or the end of its log, without duplicates."""
    try:
        with io.BufferedReader(open_readable(log)) as file:
            found = run_urls(file.read(ends))
            if (size := file.seek(0, os.SEEK_END)) > ends:
                file.seek(max(ends, size - ends))
                found += run_urls(file.read(ends))
    except OSError:
        return ()
    return tuple(dict.fromkeys(found))[:MOST_URLS]


def run_urls(text: bytes) -> tuple[str, ...]:
    """The URLs with `/runs/ID` in a piece of a log (W&B, SwanLab, MLflow), each once, in order.

    One counts only after a tracker's own words, or at the beginning of a line with a known host, so that those of other
    runs in a model's output are not taken for this run's, unless they imitate a tracker.
    """
    found: dict[str, None] = {}
    for match in _RUN_URL.finditer(text):
        before = text[max(text.rfind(b"\n", 0, match.start()) + 1, match.start() - 300) : match.start()]
        if _TRACKER.search(before) or (match["rest"].startswith(_THEIRS) and _ALONE.match(before)):
            found[(match["scheme"] + match["rest"]).decode("ascii", "replace")] = None
        if len(found) == MOST_URLS:
            break
    return tuple(found)
