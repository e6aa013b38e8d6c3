"""Pieces of a file that end where a line ends, in constant memory."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 20
LONGEST = 1 << 22  # a longer line is cut; it is no line of metrics


def chunks(path: Path, offset: int = 0, *, ended: bool = False) -> Iterator[bytes]:
    """The file from `offset` on, cut after newlines; the last piece may end in the middle of a line.

    `ended`: nothing will be added to it, so that what lacks its newline is a line all the same and gets one.

    A missing file has no chunks, and one that shrinks meanwhile ends there. Carriage returns end no chunk, so that
    a bar and what is glued to it stay together, unless a line is longer than LONGEST.
    """
    try:
        file = path.open("rb", buffering=0)
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
    """The next piece that was ever written; a hole is passed over but for one NUL.

    A log that is emptied while its writer goes on begins with gigabytes of hole.
    """
    here = file.tell()
    try:
        written = os.lseek(file.fileno(), here, os.SEEK_DATA)
    except OSError as failure:
        if failure.errno == errno.ENXIO:  # nothing is written from here on
            return b""
        written = here  # no such question can be asked of this file
    return (b"\0" if written > here else b"") + file.read(CHUNK)


def lines(path: Path, offset: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Each line without its newline, and whether it had one (a torn last line has none)."""
    for chunk in chunks(path, offset):
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            yield piece, True
        if pieces[-1]:
            yield pieces[-1], False


def flat(chunk: bytes) -> bytes:
    """A piece of a log in which newlines alone end lines, and NULs hold nothing together.

    Before NULs stands what a crash tore, behind them what goes on in the middle: the line is what is behind.
    """
    chunk = chunk.replace(b"\r", b"\n")
    if b"\0" not in chunk:
        return chunk
    return b"\n".join(line.rpartition(b"\0")[2] for line in chunk.split(b"\n"))
