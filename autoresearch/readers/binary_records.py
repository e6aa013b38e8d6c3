"""Binary records: LevelDB's log format, in which W&B and SwanLab keep theirs after a short header, and protobuf.

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
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
Fields = list[tuple[int, int, int, int]]  # number, wire type, start and end of the content


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


def fields_of(data: bytes, at: int, end: int) -> Fields:
    """The fields of one protobuf message, without its schema (protobuf.dev/programming-guides/encoding).

    For a varint, its value replaces the start. IndexError if the message is torn.
    """
    found: Fields = []
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            found.append((key >> 3, kind, value, at))
            continue
        if kind == BYTES:
            length, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise ValueError("a wire type that is no longer used")
        if at + length > end:
            raise IndexError("a field that ends behind its message")
        found.append((key >> 3, kind, at, at + length))
        at += length
    return found


def signed(value: int) -> int:
    """A varint as the int64 that it stands for."""
    return value if value < 1 << 63 else value - (1 << 64)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError("a number that does not end")
