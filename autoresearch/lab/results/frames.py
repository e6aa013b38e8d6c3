"""Frames for pandas, which only this file knows: readings, a ledger, a project's runs, as CSV or Parquet, too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo.checkout import current_project
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import lookup
from autoresearch.records import campaign_records, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import unwritable
from autoresearch.records.index import IndexEntry
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame  # for those who hand frames on

FORMATS = (".csv", ".parquet")
_OURS = ("step", "kind")
_MOST = (1 << 63) - 1  # int64; a log may hold any number
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

    A missing value, None, "" and NaN are NA. Times are datetimes in UTC. `attrs["units"]` names the unit of each column
    that has one.
    """
    import pandas

    frame = pandas.DataFrame(index=range(len(records)))
    for name, kind in columns.items():
        values = (record.get(name) for record in records)
        if kind == "time":
            times = pandas.Series(values, index=frame.index, dtype="float64")
            frame[name] = pandas.to_datetime(times, unit="s", utc=True, errors="coerce").astype("datetime64[us, UTC]")
        else:
            inside = (max(-_MOST, min(one, _MOST)) if isinstance(one, int) else one for one in values)
            frame[name] = pandas.array([None if one == "" else one for one in inside], dtype=kind)
    frame.attrs["units"] = {name: unit for name, unit in UNITS.items() if name in columns}
    return frame


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

    What was not printed at a step, or as NaN, is NA.
    """
    records = [{**one.metrics, "step": one.step, "kind": one.kind.value} for one in readings]
    names = dict.fromkeys(name for record in records for name in record if name not in _OURS)
    return typed(records, {"step": "Int64", "kind": "string", **dict.fromkeys(names, "Float64")})


def check_name(path: Path) -> None:
    """Raise UsageError for an unsupported file type, before any work is done."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--out {path}: name FILE.csv or FILE.parquet", code="bad_format")


def save(frame: DataFrame, path: Path) -> None:
    """Write a frame as CSV or Parquet, by the suffix, as a whole or not at all. Replaces an existing file.

    Raises EnvironmentUnusable if it cannot be written, and for parquet without pyarrow.
    """
    check_name(path)
    if path.is_dir():
        raise UsageError(f"--out {path} is a directory", hint="name the file that is to be written")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".csv":
            frame.to_csv(temporary, index=False, errors="backslashreplace")
        else:
            frame.to_parquet(temporary, index=False)
        temporary.replace(path)
    except ImportError as error:
        fix, hint = "pip install pyarrow", "or choose csv"
        message = "parquet needs pyarrow, which is not installed here"
        raise EnvironmentUnusable(message, hint=hint, fix=fix, code="package_missing") from error
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def runs_frame(parts: Parts, *, every_project: bool, limit: int) -> DataFrame:
    """See `autoresearch.runs`."""
    entries = parts.index.recent(limit, "" if every_project else str(current_project()))
    rows: dict[str, LedgerRow] = {}
    for path in {Path(entry.run_dir).parent / "results.tsv" for entry in entries}:
        rows |= {row.run_id: row for row in Ledger(path).rows()} if path.is_file() else {}
    records = [_record(entry, rows.get(entry.run)) for entry in entries]
    first = {"run": "string", "slug": "string", "state": "string", "created": "time"}
    return typed(records, first | {name: kind for name, kind in COLUMNS.items() if name != "run_id"})


def _record(entry: IndexEntry, row: LedgerRow | None) -> dict[str, Any]:
    rundir = RunDir(Path(entry.run_dir))
    known = {"run": entry.run, "slug": entry.slug, "created": entry.created, "run_dir": entry.run_dir}
    spec = recorded_run.read_if_whole(rundir)
    if spec is None:
        return {**(record_of(row) if row else {}), **known, "state": "gone", "result_dir": entry.result_dir}
    names = ("campaign", "trainer", "seed", "branch", "commit", "command", "result_dir", "index", "replicate")
    of_spec = {name: getattr(spec, name) for name in names}
    of_spec["metric_name"] = spec.objective.metric if spec.objective else None
    gpus = len(recorded_run.RecordedRun(rundir, spec).gpus)
    return {**of_spec, **(record_of(row, gpus) if row else {}), **known, "state": rundir.state().value}


def ledger_frame(name: str, parts: Parts) -> DataFrame:
    """See `autoresearch.ledger`."""
    path = lookup.find_ledger(name, parts)
    campaign_dir = CampaignDir(path.parent)
    campaign_records.write_ledger(campaign_dir)
    spec = campaign_records.spec_of(campaign_dir)
    frame = of_rows(Ledger(path).rows() if path.is_file() else (), spec.gpus_per_run if spec else None)
    frame.attrs |= {"path": str(path), "campaign": spec.name if spec else None}
    if spec:
        frame.attrs |= {"metric": spec.objective.metric, "direction": spec.objective.direction.value}
    return frame


def metrics_frame(name: str, parts: Parts) -> DataFrame:
    """See `autoresearch.metrics`."""
    from autoresearch.lab.results.readout import of_run

    recorded = lookup.recorded(name, parts)
    readout, objective = of_run(recorded), recorded.spec.objective
    frame = of_readings(readout.best.readings)
    frame.attrs |= {
        "run": recorded.spec.run,
        "metric": objective.metric if objective else None,
        "direction": objective.direction.value if objective else None,
        "warnings": list(readout.warnings),
    }
    return frame
