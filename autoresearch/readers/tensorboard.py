"""TensorBoard: read scalars from event files without TensorFlow or the tensorboard package.

An event file is a sequence of TFRecords: length (uint64, little endian), masked CRC-32C of the length (uint32), the
data, masked CRC-32C of the data (tensorflow/core/lib/io/record_writer.h). The data is an `Event` message
(tensorflow/core/util/event.proto): step is field 2, summary field 5; a summary's values are its field 1
(tensorflow/core/framework/summary.proto) with tag 1, simple_value 2, tensor 8. Writers append, so the file of a running
or killed run may end in the middle of a record.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.metrics.signal import readings as split
from autoresearch.readers.binary_records import BYTES, FIXED32, FIXED64, VARINT, fields_of, signed
from autoresearch.records.hostile import open_readable

_STEP, _SUMMARY = 2, 5  # of Event
_VALUE = 1  # of Summary
_TAG, _SIMPLE, _TENSOR = 1, 2, 8  # of Summary.Value
_MASK = 0xA282EAD8
_OTHER_CLOCK = "ray/"  # NeMo-RL's GPU samples, whose step is a sample count
_LONGEST = 1 << 28  # a longer record is invalid: the file position is wrong
_PIECE = 1 << 20
_MOST_FILES = 20_000  # looked at below a directory


def event_files(where: Path) -> list[Path]:
    """The event files of a directory, oldest first; `where` may be a file, or a glob such as logs/exp_*/tb.

    If several directories match a glob, or lie below one without such files, only the one that was written last counts:
    each run has one of its own.
    """
    if where.is_file():
        return [where]
    if own := _in(where):
        return own
    below = {path.parent for path in islice(where.rglob("*.tfevents.*"), _MOST_FILES)} if where.is_dir() else ()
    runs = [files for path in below or _matches(where) if (files := event_files(path))]
    return max(runs, key=lambda files: (max(file.stat().st_mtime_ns for file in files), files), default=[])


def _in(where: Path) -> list[Path]:
    return sorted(path for path in where.iterdir() if ".tfevents." in path.name) if where.is_dir() else []


def _matches(pattern: Path) -> list[Path]:
    first = next((n for n, part in enumerate(pattern.parts) if set(part) & set("*?[")), 0)
    return list(Path(*pattern.parts[:first]).glob(str(Path(*pattern.parts[first:])))) if first else []


def size(where: Path) -> int:
    """Total bytes of the event files, to be passed to `read_tensorboard` as `offset` later.

    0 for a glob, and for directories below this one: a new run gets a directory of its own.
    """
    return sum(path.stat().st_size for path in ([where] if where.is_file() else _in(where)))


def read_tensorboard(where: Path, offset: int = 0, key_of: Callable[[str], str] = str) -> Iterator[Reading]:
    """The scalars by step, in order of first appearance; for a repeated tag the last value wins.

    offset: bytes at the start of the files, oldest first, that are not this run's. A torn record ends its file. key_of:
    maps a tag to the metric's name in other sources.
    """
    steps: dict[int, dict[str, float]] = {}
    for path in event_files(where):
        length = path.stat().st_size
        if offset < length:
            for step, tag, value in _scalars(path, offset):
                steps.setdefault(step, {})[tag] = value
        offset = max(0, offset - length)
    for step, metrics in steps.items():
        if not all(tag.startswith(_OTHER_CLOCK) for tag in metrics):
            yield from split(step, {key_of(tag): value for tag, value in metrics.items()})


def _scalars(path: Path, offset: int) -> Iterator[tuple[int, str, float]]:
    for record in _records(path, offset):
        try:
            yield from _of_event(record)
        except (IndexError, struct.error, ValueError):
            continue  # not an Event, or one of an unknown kind


def _records(path: Path, offset: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError), io.BufferedReader(open_readable(path), _PIECE) as file:
        file.seek(offset)
        while len(head := file.read(12)) == 12:
            length, check = struct.unpack("<QI", head)
            if length > _LONGEST or masked_crc(head[:8]) != check:
                return
            data = file.read(length + 4)
            if len(data) < length + 4:
                return
            yield data[:length]


def masked_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and offset as in TFRecords."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def _of_event(data: bytes) -> Iterator[tuple[int, str, float]]:
    step, summary = 0, None
    for number, kind, low, high in fields_of(data, 0, len(data)):
        if number == _STEP and kind == VARINT:
            step = signed(low)
        elif number == _SUMMARY and kind == BYTES:
            summary = (low, high)
    if summary is None or step < 0:
        return
    for number, kind, low, high in fields_of(data, *summary):
        if number == _VALUE and kind == BYTES and (found := _of_value(data, low, high)) is not None:
            yield step, *found


def _of_value(data: bytes, low: int, high: int) -> tuple[str, float] | None:
    tag, value = "", None
    for number, kind, start, end in fields_of(data, low, high):
        if number == _TAG and kind == BYTES:
            tag = data[start:end].decode("utf-8", "replace")
        elif number == _SIMPLE and kind == FIXED32:
            value = struct.unpack_from("<f", data, start)[0]
        elif number == _TENSOR and kind == BYTES:
            value = _of_tensor(data, start, end)
    return (tag, value) if tag and value is not None else None


_TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}  # DataType: float, double, int32, int64
_LISTS = {5: "<f", 6: "<d"}  # fields float_val and double_val, packed or not


def _of_tensor(data: bytes, low: int, high: int) -> float | None:
    """The value of a tensor with one number (tensorflow/core/framework/tensor.proto); None for any other."""
    form, content = "", None
    for number, kind, start, end in fields_of(data, low, high):
        if number == 1 and kind == VARINT:
            form = _TYPES.get(start, "")
        elif number == 4 and kind == BYTES:
            content = (start, end)
        elif number in _LISTS and kind in (BYTES, FIXED32, FIXED64):
            form, content = _LISTS[number], (start, end)
        elif number in (7, 10) and kind == VARINT:  # int_val, int64_val
            return float(start)
    if not form or content is None or content[1] - content[0] != struct.calcsize(form):
        return None
    return float(struct.unpack_from(form, data, content[0])[0])
