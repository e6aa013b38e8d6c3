"""W&B: read the history of a run, offline or not, from its files, without the wandb package.

    wandb/{run,offline-run}-YYYYMMDD_HHMMSS-<id>/run-<id>.wandb       records (`readers.binary_records`), head `:W&B`
    .../files/wandb-history.jsonl                                     written by very old versions
    .../files/wandb-summary.json                                      the last value of each key

A record is protobuf (wandb/proto/wandb_internal.proto, as of wandb 0.31.0): `Record` holds a history in field 2; its
items are field 1 with key 1, nested_key 2 and value_json 16, its step field 2 with num 1. The file is written late: a
run that was killed may have no history in it at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.python_values import numbers
from autoresearch.core.metrics.signal import Reading
from autoresearch.readers.binary_records import BYTES, VARINT, fields_of, head_of, records
from autoresearch.readers.jsonl import read_jsonl

HEAD = b":W&B"
SUFFIX = ".wandb"
_HISTORY = 2  # of Record
_ITEM, _STEP = 1, 2  # of HistoryRecord
_KEY, _NESTED, _JSON = 1, 2, 16  # of HistoryItem
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_wandb(where: Path) -> Iterator[Reading]:
    """The history of one run, from a `.wandb` file or the directory that holds it; empty if there is none.

    If the file holds no history, the files beside it are read: an old history, else the summary, which has only the
    last values. W&B's own step counts calls to log() if the program names none; a global step logged as a metric takes
    precedence.
    """
    files = [where] if where.is_file() else sorted(where.glob(f"*{SUFFIX}")) if where.is_dir() else []
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
    if not head_of(path).startswith(HEAD):
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
        elif number == _STEP and kind == BYTES:
            own = next((at for n, k, at, _ in fields_of(data, start, end) if n == 1 and k == VARINT), 0)
    step = metric_keys.step_of({k: v for k, v in metrics.items() if k != "_step"})
    for name in ("_step", "_timestamp", "_runtime"):
        seen = metrics.pop(name, None)
        own = int(seen) if name == "_step" and own is None and seen is not None and math.isfinite(seen) else own
    return metric_keys.readings(own or 0 if step is None else step, metrics)


def _of_item(data: bytes, low: int, high: int) -> tuple[str, bytes]:
    """The key, with nested keys joined by dots as on W&B's pages, and the value as JSON."""
    keys: list[str] = []
    text = b""
    for number, kind, start, end in fields_of(data, low, high):
        if kind == BYTES and number in (_KEY, _NESTED):
            keys.append(data[start:end].decode("utf-8", "replace"))
        elif kind == BYTES and number == _JSON:
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
