"""SwanLab: read the scalars of a run (modes offline and cloud) from its files, without the swanlab package.

    swanlog/run-<time>-<id>/run-<id>.swanlab     records in protobuf (head `:SWL`, version 2)

From the sources of swanlab 0.10.3 (proto/swanlab/record/v1, proto/swanlab/metric/data/v1: Record.scalar is field 13;
key 1, step 2, value 5 with number 1). SwanLab's writer does not flush: a run that was killed lacks its end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.signal import Reading
from autoresearch.readers.binary_records import BYTES, FIXED64, VARINT, fields_of, head_of, records, signed

HEAD = b":SWL"
SUFFIX = ".swanlab"
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
        yield from metric_keys.readings(step, metrics)


def _scalars(where: Path) -> Iterator[Scalar]:
    files = [where] if where.is_file() else sorted(where.glob(f"*{SUFFIX}")) if where.is_dir() else []
    for path in files:
        head = head_of(path)
        if not head.startswith(HEAD) or len(head) < 7 or head[6] < 2:  # records of swanlab 0.6 are JSON
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
