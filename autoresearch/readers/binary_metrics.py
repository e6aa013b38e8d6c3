"""Binary files of metrics: TensorBoard's event files and W&B's runs, read without TensorFlow, tensorboard and wandb.

An event file is a sequence of TFRecords: length (uint64, little endian), its checksum (uint32), the data, and their
checksum (tensorflow/core/lib/io/record_writer.h). The data is an `Event` message (tensorflow/core/util/event.proto):
step is field 2, summary field 5; a summary's values are its field 1 (tensorflow/core/framework/summary.proto) with tag
1, simple_value 2, tensor 8. Writers append, so the file of a running or killed run may end in the middle of a record.

    wandb/{run,offline-run}-YYYYMMDD_HHMMSS-<id>/run-<id>.wandb       LevelDB's log format behind the head `:W&B`
    .../files/wandb-summary.json                                      the last value of each key

`Record` (wandb/proto/wandb_internal.proto, as of wandb 0.31.0) holds a history in field 2; its items are field 1 with
key 1, nested_key 2 and value_json 16, its step field 2 with num 1. It is written late: a run that was killed lacks its
end, or has no history at all.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from autoresearch.core.metrics.signal import Reading, numbers, readings, step_of
from autoresearch.readers.jsonl import read_jsonl
from autoresearch.readers.tracker_dirs import there
from autoresearch.records.hostile import open_readable

_LONGEST = 1 << 28  # bytes; a longer record is invalid: the file position is wrong
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
Fields = list[tuple[int, int, int, int]]  # number, wire type, start and end of the content

_STEP, _SUMMARY = 2, 5  # of Event
_VALUE = 1  # of Summary
_TAG, _SIMPLE, _TENSOR = 1, 2, 8  # of Summary.Value
_OTHER_CLOCK = "ray/"  # NeMo-RL's GPU samples, whose step is a sample count
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
    inner = islice(where.rglob("*.tfevents.*"), _MOST_FILES) if where.is_dir() else ()
    below = {path.parent for path in inner} if where.is_dir() else there(where)
    runs = [files for path in below if (files := event_files(path))]
    return max(runs, key=lambda files: (max(file.stat().st_mtime_ns for file in files), files), default=[])


def _in(where: Path) -> list[Path]:
    return sorted(path for path in where.iterdir() if ".tfevents." in path.name) if where.is_dir() else []


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
            yield from readings(step, {key_of(tag): value for tag, value in metrics.items()})


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
            (length,) = struct.unpack_from("<Q", head)
            if length > _LONGEST:
                return
            data = file.read(length + 4)
            if len(data) < length + 4:
                return
            yield data[:length]


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


WANDB = b":W&B"
_HISTORY = 2  # of Record
_ITEM, _HISTORY_STEP = 1, 2  # of HistoryRecord
_ITEM_KEY, _ITEM_NESTED, _ITEM_JSON = 1, 2, 16  # of HistoryItem
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_wandb(where: Path) -> Iterator[Reading]:
    """The history of one run, from a `.wandb` file or the directory that holds it; empty if there is none.

    If the file holds no history, the summary beside it is read, which has only the last values. W&B's own step counts
    calls to log() if the program names none; a global step logged as a metric takes precedence.
    """
    files = [where] if where.is_file() else sorted(where.glob("*.wandb")) if where.is_dir() else []
    found = False
    for path in files:
        for reading in _history(path):
            found = True
            yield reading
    if found:
        return
    yield from read_jsonl((where.parent if where.is_file() else where) / "files/wandb-summary.json")


def _history(path: Path) -> Iterator[Reading]:
    if not head_of(path).startswith(WANDB):
        return
    for record in records(path):
        if b"\x12" in record[:16]:  # field 2, after the record's number
            try:
                yield from _of_record(record)
            except (IndexError, ValueError):
                continue  # not a record, or one of an unknown kind


def _of_record(data: bytes) -> Iterator[Reading]:
    for number, kind, low, high in fields_of(data, 0, len(data)):
        if number == _HISTORY and kind == BYTES:
            yield from _of_history(data, low, high)


def _of_history(data: bytes, low: int, high: int) -> tuple[Reading, ...]:
    metrics: dict[str, float] = {}
    own: int | None = None
    for number, kind, start, end in fields_of(data, low, high):
        if number == _ITEM and kind == BYTES:
            key, text = _of_item(data, start, end)
            if (value := _number(text)) is not None and key:
                metrics[key] = value
        elif number == _HISTORY_STEP and kind == BYTES:
            own = next((at for n, k, at, _ in fields_of(data, start, end) if n == 1 and k == VARINT), 0)
    step = step_of({k: v for k, v in metrics.items() if k != "_step"})
    for name in ("_step", "_timestamp", "_runtime"):
        seen = metrics.pop(name, None)
        own = int(seen) if name == "_step" and own is None and seen is not None and math.isfinite(seen) else own
    return readings(own or 0 if step is None else step, metrics)


def _of_item(data: bytes, low: int, high: int) -> tuple[str, bytes]:
    """The key, with nested keys joined by dots as on W&B's pages, and the value as JSON."""
    keys: list[str] = []
    text = b""
    for number, kind, start, end in fields_of(data, low, high):
        if kind == BYTES and number in (_ITEM_KEY, _ITEM_NESTED):
            keys.append(data[start:end].decode("utf-8", "replace"))
        elif kind == BYTES and number == _ITEM_JSON:
            text = data[start:end]
    return ".".join(keys), text


def _number(text: bytes) -> float | None:
    """Parse a JSON number as written by Python and Go; None for anything else. NaN may be quoted."""
    word = text.strip(b'" ').decode("utf-8", "replace")
    if word in _SPECIAL:
        return _SPECIAL[word]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if value is None else numbers({"value": value}).get("value")


# LevelDB's log format: a header of 7 bytes, then blocks of 32 KiB (counted from the beginning of the file). A block
# holds fragments: CRC-32 (of the type and the content), length (uint16), type (1 whole, 2 first, 3 middle, 4 last part
# of a record), content; the last 6 bytes or less of a block are unused. (github.com/google/leveldb, doc/log_format.md;
# wandb 0.31.0 core/internal/transactionlog.)

HEAD = 7
_BLOCK = 1 << 15
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_SEED = {kind: zlib.crc32(bytes([kind])) for kind in (_WHOLE, _FIRST, _MIDDLE, _LAST)}


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
