"""A ledger as files that other tools read: CSV, Parquet, and event files of TensorBoard.

Each is written beside its place under a temporary name and moved there when it is whole.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError, UsageError
from autoresearch.lab.parts import Parts
from autoresearch.lab.results import frames
from autoresearch.records import campaign_records
from autoresearch.records.appending import unwritable
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.ledger import Ledger

MARK = ".autoresearch-export"  # in a directory that we wrote, and may write again


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: its form, its path, the rows, and remarks about what could not be."""

    ledger: Path
    form: str
    path: Path
    rows: int
    remarks: tuple[str, ...] = ()


def export(name: str, out: Path, parts: Parts) -> Exported:
    """Write the ledger that a name means (see `ledger_path`), in the form that the suffix names; a directory has none.

    Raises UsageError for another suffix, NotFoundError, ConflictError for a directory that is not ours to replace, and
    EnvironmentUnusable where a library is missing or the disk is full.
    """
    if (form := out.suffix.removeprefix(".").lower() or "tensorboard") not in FORMS:
        raise UsageError(f"--out {out}: name FILE.csv, FILE.parquet, or a directory for TensorBoard", code="bad_format")
    path = frames.ledger_path(name, parts)
    if not path.is_file():
        raise NotFoundError(f"{path}: there is no ledger yet", hint="its first row comes with the end of its first run")
    rows = list(Ledger(path).rows())
    remarks: list[str] = []
    FORMS[form](rows, CampaignDir(path.parent), out.absolute(), remarks)
    return Exported(path, form, out.absolute(), len(rows), tuple(remarks))


def _gpus(campaign_dir: CampaignDir) -> int | None:
    return campaign_records.read_spec(campaign_dir).gpus_per_run if campaign_dir.spec.is_file() else None


def _csv(rows: list[LedgerRow], campaign_dir: CampaignDir, out: Path, remarks: list[str]) -> None:
    """RFC 4180: CRLF, quotes where needed. Numbers in full, times in ISO 8601, what is unknown is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(frames.COLUMNS)
    gpus = _gpus(campaign_dir)
    for row in rows:
        record = frames.record_of(row, gpus)
        writer.writerow([_cell(record[name], kind) for name, kind in frames.COLUMNS.items()])
    with frames.whole_file(out) as temporary:
        temporary.write_bytes(text.getvalue().encode("utf-8", "backslashreplace"))


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "time":
        return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat()
    return repr(float(value)) if kind == "Float64" else str(value)


def _parquet(rows: list[LedgerRow], campaign_dir: CampaignDir, out: Path, remarks: list[str]) -> None:
    frame = frames.of_rows(rows, _gpus(campaign_dir))
    with frames.whole_file(out) as temporary, frames.library("parquet", "pyarrow"):
        frame.to_parquet(temporary, index=False, engine="pyarrow")


def _tensorboard(rows: list[LedgerRow], campaign_dir: CampaignDir, out: Path, remarks: list[str]) -> None:
    """One directory for each run: its metrics by step, what its idea changed as hyperparameters, its result."""
    with frames.library("tensorboard", "tensorboardX"):
        from tensorboardX import SummaryWriter
        from tensorboardX.summary import hparams
    varied = _varied(campaign_dir)
    with _directory(out) as temporary:
        for row in rows:
            own = temporary / f"{row.index:04d}-{Path(row.run_id or str(row.index)).name}"
            with SummaryWriter(logdir=str(own)) as writer:
                for tag, value, step in _scalars(row, remarks):
                    writer.add_scalar(tag, value, step, walltime=row.ended)
                settings = {**varied.get(row.index, {}), "idea": row.index, "seed": row.seed, "status": row.status}
                known = {name: _plain(value) for name, value in settings.items() if value is not None}
                final = row.metric_value
                result = {f"result/{row.metric_name}": final} if final is not None and math.isfinite(final) else {}
                for summary in hparams(known, result):
                    writer.file_writer.add_summary(summary, walltime=row.ended)
                for tag, number in result.items():
                    writer.add_scalar(tag, number, row.metric_step or 0, walltime=row.ended)


def _scalars(row: LedgerRow, remarks: list[str]) -> Iterator[tuple[str, float, int]]:
    """(name, value, step) of all metrics of a run; none, with a remark, where its records are gone."""
    from autoresearch.lab.results.readout import of_run
    from autoresearch.records.recorded_run import RecordedRun
    from autoresearch.records.rundir import RunDir

    try:
        readings = of_run(RecordedRun.read(RunDir(Path(row.run_dir)))).best.readings
    except (AutoresearchError, OSError) as error:
        remarks.append(f"{row.run_id} has no metrics by step: {error}")
        return
    for reading in readings:
        for name, value in reading.metrics.items():
            yield name, value, reading.step


def _varied(campaign_dir: CampaignDir) -> dict[int, Mapping[str, Any]]:
    """What differs from the baseline's recipe in each idea of a campaign, by its index."""
    from autoresearch.lab.agent_work.landscape import effective
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory

    if not campaign_dir.spec.is_file():
        return {}
    state = CampaignHistory(campaign_dir).state()
    return {idea.index: effective(state, idea) for idea in state.ideas}


def _plain(value: Any) -> bool | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)


@contextmanager
def _directory(out: Path) -> Iterator[Path]:
    """`whole_file` for a directory; one of an earlier export is replaced, no other."""
    if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ConflictError(f"--out {out} is there already, and no earlier export", hint="name another directory")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    before = out.with_name(f".{out.name}.{os.getpid()}.before")
    try:
        temporary.mkdir(parents=True)
        (temporary / MARK).write_text("written by `ledger show --out`, which may replace this directory\n")
        yield temporary
        if out.exists():
            out.rename(before)
        temporary.rename(out)
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        for one in (temporary, before):
            shutil.rmtree(one, ignore_errors=True)


FORMS: dict[str, Callable[[list[LedgerRow], CampaignDir, Path, list[str]], None]] = {
    "csv": _csv,
    "parquet": _parquet,
    "tensorboard": _tensorboard,
}
