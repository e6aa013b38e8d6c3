"""Frames: readings, ledgers and lists of runs for pandas, readings as a file too. The one file that knows pandas."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable, UsageError

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame  # for those who hand frames on

_OURS = ("step", "kind")
_MOST = (1 << 63) - 1  # int64; a log may hold any number
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")


def frame(readings: Iterable[Reading]) -> DataFrame:
    """One row per reading, in order: `step` (int), `kind` ("step" or "validation"), then a column per metric.

    A metric missing from a reading is NaN, like one that the trainer printed as NaN.
    """
    import pandas

    found = tuple(readings)
    names = dict.fromkeys(key for reading in found for key in reading.metrics if key not in _OURS)
    columns: dict[str, Any] = {
        "step": [min(reading.step, _MOST) for reading in found],
        "kind": [reading.kind.value for reading in found],
    }
    columns |= {name: [reading.metrics.get(name) for reading in found] for name in names}
    return pandas.DataFrame(columns).astype({"step": "int64", "kind": "str", **dict.fromkeys(names, "float64")})


def check_name(path: Path) -> None:
    """Raise UsageError for an unsupported file type, before any work is done."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--out {path}: the name must end in one of {', '.join(FORMATS)}", code="bad_format")


def write(readings: Iterable[Reading], path: Path) -> int:
    """Write a frame into a file whose suffix names the format; returns the number of rows. Replaces an existing file.

    Raises EnvironmentUnusable if it cannot be written, and for parquet without pyarrow. JSONL leaves out missing
    metrics, and has null for non-finite ones.
    """
    check_name(path)
    found = tuple(readings)
    temporary = path.with_name(f".{path.name}.part")
    kinds: dict[str, Callable[[], object]] = {
        ".csv": lambda: frame(found).to_csv(temporary, index=False),
        ".tsv": lambda: frame(found).to_csv(temporary, index=False, sep="\t"),
        ".jsonl": lambda: _write_lines(found, temporary),
        ".parquet": lambda: frame(found).to_parquet(temporary, index=False),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kinds[path.suffix.lower()]()
        temporary.replace(path)
    except ImportError:
        raise EnvironmentUnusable(
            "parquet needs pyarrow, which is not installed", hint="or --out FILE.csv", fix="pip install pyarrow"
        ) from None
    except OSError as error:
        raise EnvironmentUnusable(f"{path} cannot be written: {error.strerror or error}", code="unwritable") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return len(found)


def _write_lines(readings: Iterable[Reading], path: Path) -> None:
    """Without pandas, which writes at most fifteen digits, and a null for each metric missing from a line."""
    with path.open("w", encoding="utf-8") as file:
        for reading in readings:
            metrics = {k: v if math.isfinite(v) else None for k, v in reading.metrics.items() if k not in _OURS}
            row = {"step": reading.step, "kind": reading.kind.value, **metrics}
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


UNITS = {
    "elapsed_s": "s",
    "first_step_s": "s",
    "gpu_hours": "h",
    "memory_gb": "10**9 bytes",
    "agent_usd": "USD",
    "agent_tokens": "tokens",
}
_TYPES = {"int": "Int64", "int | None": "Int64", "float | None": "Float64", "str": "string"}
_TIMES = ("created", "started", "ended")
COLUMNS = {
    ("elapsed_s" if one.name == "elapsed_min" else one.name): "time" if one.name in _TIMES else _TYPES[str(one.type)]
    for one in fields(LedgerRow)
    if one.name != "schema"
} | {"gpu_hours": "Float64"}
"""Column -> type, of a ledger."""


def typed(records: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> DataFrame:
    """A frame with a row for each record. columns: name -> Int64, Float64, string, or `time` (seconds since the epoch).

    A missing value, None and "" are NA; a number that is NaN stays NaN. Times are datetimes in UTC. `attrs["units"]`
    names the unit of each column that has one.
    """
    import pandas

    frame = pandas.DataFrame(
        {name: _column([record.get(name) for record in records], kind) for name, kind in columns.items()}
    )
    frame.attrs["units"] = {name: unit for name, unit in UNITS.items() if name in columns}
    return frame


def _column(values: Sequence[Any], kind: str) -> Any:
    import numpy
    import pandas

    if kind == "time":
        times = pandas.to_datetime(pandas.Series(values, dtype="float64"), unit="s", utc=True, errors="coerce")
        return times.astype("datetime64[us, UTC]")  # pandas 2 has ns by default, pandas 3 what it takes
    if kind == "string":
        return pandas.array([None if value in (None, "") else str(value) for value in values], dtype="string")
    missing = numpy.array([value is None for value in values], dtype=bool)
    if kind == "Int64":
        whole = [0 if value is None else max(-_MOST, min(int(value), _MOST)) for value in values]
        return pandas.arrays.IntegerArray(numpy.array(whole, dtype="int64"), missing)
    numbers = numpy.array([0.0 if value is None else float(value) for value in values], dtype="float64")
    return pandas.arrays.FloatingArray(numbers, missing)


def of_rows(rows: Iterable[LedgerRow], gpus: int | None = None) -> DataFrame:
    """The rows of a ledger in their order. gpus: of each run; None where nobody knows."""
    return typed([record_of(row, gpus) for row in rows], COLUMNS)


def record_of(row: LedgerRow, gpus: int | None = None) -> dict[str, Any]:
    """A row with the names and units of the frame's columns."""
    record = {one.name: getattr(row, one.name) for one in fields(LedgerRow)}
    minutes = record.pop("elapsed_min")
    hours = None if minutes is None or gpus is None else minutes / 60.0 * gpus
    return {**record, "elapsed_s": None if minutes is None else minutes * 60.0, "gpu_hours": hours}


def of_readings(readings: Iterable[Reading]) -> DataFrame:
    """A row for each reading: `step`, `kind` ("step" or "validation"), and a Float64 column for each metric.

    What was not printed at a step is NA; what was printed as NaN is NaN.
    """
    records = [{**one.metrics, "step": one.step, "kind": one.kind.value} for one in readings]
    names = dict.fromkeys(name for record in records for name in record)
    columns = {"step": "Int64", "kind": "string", **{name: "Float64" for name in names if name not in _OURS}}
    return typed(records, columns)
