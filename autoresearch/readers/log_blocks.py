"""Log blocks: the container of W&B's and SwanLab's binary files, LevelDB's log format after a short header.

A header of 7 bytes, then blocks of 32 KiB (counted from the beginning of the file). A block holds fragments: CRC-32 (of
the type and the content), length (uint16), type (1 whole, 2 first, 3 middle, 4 last part of a record), content; the
last 6 bytes or less of a block are unused. (github.com/google/leveldb, doc/log_format.md; wandb 0.31.0
core/internal/transactionlog; swanlab 0.10.3 sdk/internal/core_python/store.) Both append, and a writer that was killed
leaves a partial record.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from autoresearch.records.hostile import open_readable

HEAD = 7
_BLOCK = 1 << 15
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_SEED = {kind: zlib.crc32(bytes([kind])) for kind in (_WHOLE, _FIRST, _MIDDLE, _LAST)}
_LONGEST = 1 << 26  # a longer record holds no scalars


def head_of(path: Path) -> bytes:
    """The first 7 bytes of a file, which identify its format; b"" if it cannot be read."""
    try:
        with open_readable(path) as file:
            return file.read(HEAD) or b""
    except OSError:
        return b""


def records(path: Path) -> Iterator[bytes]:
    """The complete records of a file, in order, one block in memory at a time; a missing file has none.

    After damage the rest of a block is skipped, and reading continues with the next block. A torn last record, of a
    running or killed writer, is skipped.
    """
    try:
        file = io.BufferedReader(open_readable(path))
    except OSError:
        return
    with file:
        at = HEAD
        parts: bytearray | None = None  # of the current record; a first part may be empty
        while block := file.read(_BLOCK):
            for kind, content in _fragments(block, at):
                if kind == _WHOLE:
                    parts = None
                    yield content
                    continue
                if kind == _FIRST:
                    parts = bytearray()
                if parts is None:
                    continue  # the record's beginning was lost
                parts += content
                if kind == _LAST:
                    yield bytes(parts)
                if kind == _LAST or len(parts) > _LONGEST:
                    parts = None
            at = 0


def _fragments(block: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + HEAD <= len(block):
        check, length, kind = struct.unpack_from("<IHB", block, at)
        content = block[at + HEAD : at + HEAD + length]
        if kind not in _SEED or len(content) < length or zlib.crc32(content, _SEED[kind]) != check:
            return
        yield kind, content
        at += HEAD + length
