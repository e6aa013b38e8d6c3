"""Runs of W&B and SwanLab: read from their files, without the packages of either. Both keep records of protobuf.

    wandb/{run,offline-run}-YYYYMMDD_HHMMSS-<id>/run-<id>.wandb       records (`readers.binary_records`), head `:W&B`
    .../files/wandb-history.jsonl                                     written by very old versions
    .../files/wandb-summary.json                                      the last value of each key
    swanlog/run-<time>-<id>/run-<id>.swanlab                          records, head `:SWL`, version 2

W&B (wandb/proto/wandb_internal.proto, as of wandb 0.31.0): `Record` holds a history in field 2; its items are field 1
with key 1, nested_key 2 and value_json 16, its step field 2 with num 1. SwanLab (proto/swanlab/record/v1,
proto/swanlab/metric/data/v1, as of 0.10.3): Record.scalar is field 13, with key 1, step 2, value 5 with number 1. Both
write late: a run that was killed lacks its end, or has no history at all.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.python_values import numbers
from autoresearch.core.metrics.signal import Reading, readings, step_of
from autoresearch.readers.binary_records import BYTES, FIXED64, VARINT, fields_of, head_of, records, signed
from autoresearch.readers.jsonl import read_jsonl

WANDB = b":W&B"
_HISTORY = 2  # of Record
_ITEM, _HISTORY_STEP = 1, 2  # of HistoryRecord
_ITEM_KEY, _ITEM_NESTED, _ITEM_JSON = 1, 2, 16  # of HistoryItem
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_wandb(where: Path) -> Iterator[Reading]:
    """The history of one run, from a `.wandb` file or the directory that holds it; empty if there is none.

    If the file holds no history, the files beside it are read: an old history, else the summary, which has only the
    last values. W&B's own step counts calls to log() if the program names none; a global step logged as a metric takes
    precedence.
    """
    files = [where] if where.is_file() else sorted(where.glob("*.wandb")) if where.is_dir() else []
    found = False
    for path in files:
        for reading in _history(path):
            found = True
            yield reading
    if found:
        return
    beside = (where.parent if where.is_file() else where) / "files"
    history, summary = beside / "wandb-history.jsonl", beside / "wandb-summary.json"
    yield from read_jsonl(history if history.is_file() else summary)


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


SWANLAB = b":SWL"
_SCALAR = 13  # of Record
_KEY, _STEP, _VALUE = 1, 2, 5  # of ScalarRecord
_SYSTEM = "__swanlab__"  # hardware samples

Scalar = tuple[int, str, float]


def read_swanlab(where: Path) -> Iterator[Reading]:
    """The scalars of one run by step, in order of first appearance; `where` is a `.swanlab` file or a run's directory.

    Metrics with the same step form one reading; for a repeated key the last value wins.
    """
    steps: dict[int, dict[str, float]] = {}
    for step, key, value in _scalars(where):
        if not key.startswith(_SYSTEM):
            steps.setdefault(step, {})[key] = value
    for step, metrics in steps.items():
        yield from readings(step, metrics)


def _scalars(where: Path) -> Iterator[Scalar]:
    files = [where] if where.is_file() else sorted(where.glob("*.swanlab")) if where.is_dir() else []
    for path in files:
        head = head_of(path)
        if not head.startswith(SWANLAB) or len(head) < 7 or head[6] < 2:  # records of swanlab 0.6 are JSON
            continue
        for record in records(path):
            try:
                if (scalar := _of_message(record)) is not None:
                    yield scalar
            except (IndexError, ValueError, struct.error):
                continue  # not a record, or one of an unknown kind


def _of_message(data: bytes) -> Scalar | None:
    place = next(((a, b) for n, kind, a, b in fields_of(data, 0, len(data)) if n == _SCALAR and kind == BYTES), None)
    if place is None:
        return None
    key, step = "", 0
    value: float | None = None
    for number_, kind, low, high in fields_of(data, *place):
        if number_ == _KEY and kind == BYTES:
            key = data[low:high].decode("utf-8", "replace")
        elif number_ == _STEP and kind == VARINT:
            step = signed(low)
        elif number_ == _VALUE and kind == BYTES:
            value = 0.0  # protobuf omits zeros
            for n, wire, at, _ in fields_of(data, low, high):
                value = struct.unpack_from("<d", data, at)[0] if (n, wire) == (1, FIXED64) else value
    return (step, key, value) if key and value is not None and step >= 0 else None
