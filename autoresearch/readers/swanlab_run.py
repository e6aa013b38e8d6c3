"""SwanLab: read the scalars of a run (modes offline, local and cloud) from its files, without the swanlab package.

    swanlog/run-<time>-<id>/run-<id>.swanlab     0.10; records in protobuf (head `:SWL`, version 2)
    swanlog/run-<time>-<id>/backup.swanlab       0.6; records in JSON (head `:SWL`, version 0 and 1)
    swanlog/run-<time>-<id>/logs/<n>/*.log       mode local: JSON lines {"index": step, "data": value}
    swanlog/runs.swanlab                         mode local: SQLite; its table `tag` maps <n> to a metric's name

From the sources of swanlab 0.10.3 (proto/swanlab/record/v1, proto/swanlab/metric/data/v1: Record.scalar is field 13;
key 1, step 2, value 5 with number 1) and 0.6.12 ({"model_type": "Scalar", "data": {"key", "step", "metric":
{"data"}}}). SwanLab's writer does not flush: a run that was killed lacks its end.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.python_values import number, numbers
from autoresearch.core.metrics.signal import Reading
from autoresearch.readers.binary_records import BYTES, FIXED64, VARINT, fields_of, head_of, records
from autoresearch.readers.chunks import lines
from autoresearch.records.hostile import is_readable

HEAD = b":SWL"
SUFFIX = ".swanlab"
_SCALAR = 13  # of Record
_KEY, _STEP, _VALUE = 1, 2, 5  # of ScalarRecord
_MOST_OPERATIONS = 20_000_000  # of SQLite's machine: a second
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
        yield from metric_keys.readings(step, metrics)


def _scalars(where: Path) -> Iterator[Scalar]:
    found = False
    files = [where] if where.is_file() else sorted(where.glob(f"*{SUFFIX}")) if where.is_dir() else []
    for path in files:
        for scalar in _stored(path):
            found = True
            yield scalar
    if not found and where.is_dir():
        yield from _local(where)


def _stored(path: Path) -> Iterator[Scalar]:
    head = head_of(path)
    if not head.startswith(HEAD) or len(head) < 7:
        return
    read = _of_json if head[6] < 2 else _of_message
    for record in records(path):
        try:
            if (scalar := read(record)) is not None:
                yield scalar
        except (IndexError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
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
            step = low if low < 1 << 63 else low - (1 << 64)
        elif number_ == _VALUE and kind == BYTES:
            value = 0.0  # protobuf omits zeros
            for n, wire, at, _ in fields_of(data, low, high):
                value = struct.unpack_from("<d", data, at)[0] if (n, wire) == (1, FIXED64) else value
    return (step, key, value) if key and value is not None and step >= 0 else None


def _of_json(data: bytes) -> Scalar | None:
    if b'"Scalar"' not in data[:40]:
        return None
    found = json.loads(data)["data"]
    return _scalar(str(found["key"]), found["step"], found["metric"]["data"])


def _local(directory: Path) -> Iterator[Scalar]:
    names = _names(directory)
    for folder in sorted((directory / "logs").glob("*/")):
        key = names.get(folder.name, unquote(folder.name))
        for path in sorted(folder.glob("*.log"), key=lambda path: (len(path.name), path.name)):
            for line, _ in lines(path):
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                    found = json.loads(line)
                    if (scalar := _scalar(key, found["index"], found["data"])) is not None:
                        yield scalar


def _scalar(key: str, step: object, value: object) -> Scalar | None:
    if isinstance(step, bool) or not isinstance(step, (int, float, str)):
        return None
    read = number(value) if isinstance(value, str) else numbers({"value": value}).get("value", None)
    at = float(step)
    if not (key and math.isfinite(at) and at >= 0) or read is None:
        return None
    return int(at), key, read


def _names(directory: Path) -> dict[str, str]:
    """Metric names by folder number, from the local dashboard's database; {} if there is none."""
    path = directory.parent / "runs.swanlab"
    if not is_readable(path):
        return {}
    import sqlite3  # takes milliseconds to import

    asked = (
        "SELECT tag.folder, tag.name FROM tag JOIN experiment ON tag.experiment_id = experiment.id "
        "WHERE experiment.run_id = ?"
    )
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as board:
            board.set_progress_handler(lambda: 1, _MOST_OPERATIONS)  # a view of its own may never end
            return {str(folder): str(name) for folder, name in board.execute(asked, (directory.name,)) if folder}
    except sqlite3.Error:
        return {}
