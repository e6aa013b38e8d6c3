"""Read a file in chunks that end at line ends, in constant memory."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path

from autoresearch.records.hostile import open_readable

CHUNK = 1 << 20
LONGEST = 1 << 22  # a longer line is split; it cannot hold metrics


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

    A log that is truncated while its writer continues may begin with a hole of gigabytes.
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

