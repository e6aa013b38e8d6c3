"""The frames of the public API: the runs of a project, a ledger, the metrics of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import NotFoundError
from autoresearch.lab.parts import Parts
from autoresearch.records.index import IndexEntry
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.results.metric_frame import DataFrame


def runs_frame(parts: Parts, *, every_project: bool, limit: int) -> DataFrame:
    """See `autoresearch.runs`."""
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.results.metric_frame import COLUMNS, typed
    from autoresearch.records.ledger import Ledger

    entries = parts.index.recent(limit, "" if every_project else str(current_project()))
    rows: dict[str, LedgerRow] = {}
    for path in {Path(entry.run_dir).parent / "results.tsv" for entry in entries}:
        rows |= {row.run_id: row for row in Ledger(path).rows()} if path.is_file() else {}
    records = [_record(entry, rows.get(entry.run)) for entry in entries]
    first = {"run": "string", "slug": "string", "state": "string", "created": "time"}
    return typed(records, first | {name: kind for name, kind in COLUMNS.items() if name != "run_id"})


def _record(entry: IndexEntry, row: LedgerRow | None) -> dict[str, Any]:
    from autoresearch.lab.results.metric_frame import record_of
    from autoresearch.records import spec_file

    rundir = RunDir(Path(entry.run_dir))
    known = {"run": entry.run, "slug": entry.slug, "created": entry.created, "run_dir": entry.run_dir}
    try:
        spec = spec_file.read(rundir)
    except (OSError, NotFoundError):
        return {**(record_of(row) if row else {}), **known, "state": "gone", "result_dir": entry.result_dir}
    names = ("campaign", "trainer", "seed", "branch", "commit", "command", "result_dir", "index", "replicate")
    of_spec = {name: getattr(spec, name) for name in names}
    of_spec["metric_name"] = spec.objective.metric if spec.objective else None
    return {**of_spec, **(record_of(row, len(spec.gpus)) if row else {}), **known, "state": rundir.state().value}


def ledger_frame(name: str, parts: Parts) -> DataFrame:
    """See `autoresearch.ledger`."""
    from autoresearch.lab.results.ledger_file import ledger_path
    from autoresearch.lab.results.metric_frame import of_rows
    from autoresearch.records import campaign_records
    from autoresearch.records.campaign_records import CampaignDir
    from autoresearch.records.ledger import Ledger

    path = ledger_path(name, parts)
    campaign_dir = CampaignDir(path.parent)
    spec = campaign_records.read_spec(campaign_dir) if campaign_dir.spec.is_file() else None
    frame = of_rows(Ledger(path).rows() if path.is_file() else (), spec.gpus_per_run if spec else None)
    frame.attrs |= {"path": str(path), "campaign": spec.name if spec else None}
    if spec:
        frame.attrs |= {"metric": spec.objective.metric, "direction": spec.objective.direction.value}
    return frame


def metrics_frame(name: str, parts: Parts) -> DataFrame:
    """See `autoresearch.metrics`."""
    from autoresearch.lab.results.metric_frame import of_readings
    from autoresearch.lab.results.readout import of_run
    from autoresearch.lab.runs import sessions

    recorded = sessions.recorded(name, parts)
    readout, objective = of_run(recorded), recorded.spec.objective
    frame = of_readings(readout.best.readings)
    frame.attrs |= {
        "run": recorded.spec.run,
        "metric": objective.metric if objective else None,
        "direction": objective.direction.value if objective else None,
        "warnings": list(readout.warnings),
    }
    return frame
