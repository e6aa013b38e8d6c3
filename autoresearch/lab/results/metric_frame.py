"""Metric frame: readings as a pandas frame, and as a file. The one file that knows pandas."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.errors import EnvironmentUnusable, UsageError

if TYPE_CHECKING:
    from pandas import DataFrame

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


def readings_of(table: DataFrame) -> tuple[Reading, ...]:
    """The inverse of `frame`; NaN values are left out."""
    found = []
    for row in table.to_dict("records"):
        metrics = {str(k): float(v) for k, v in row.items() if k not in _OURS and v == v}
        found.append(Reading(SignalKind(row["kind"]), int(row["step"]), metrics))
    return tuple(found)


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
