"""Runs whose directory was deleted while they ran: recognised, and recorded from the index."""

from __future__ import annotations

from pathlib import Path

from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records import evidence, finish_flag, journal
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import IndexEntry
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir


def was_deleted(rundir: RunDir, entry: IndexEntry) -> bool:
    """Whether a run had begun and its directory was deleted; those of a campaign are left to its controller."""
    campaign = CampaignDir(rundir.path.parent)
    if rundir.path.exists() or not campaign.path.is_dir() or campaign.spec.exists():
        return False
    return journal.owner(Path(entry.result_dir)) == entry.run


def record_deleted(rundir: RunDir, entry: IndexEntry, now: float) -> None:
    """Write the row and finish.flag of such a run, from the index."""
    reason = "its run directory was deleted while it ran: what became of it is not known"
    ledger = Ledger(rundir.path.parent / "results.tsv")
    row = LedgerRow(
        index=ledger.next_index(),
        status=Verdict.CRASH.value,
        description=f"{entry.slug} [{reason}]",
        run_id=entry.run,
        ending=Ending.LOST.value,
        failure="runner_died",
        job_id=entry.session,
        result_dir=entry.result_dir,
        run_dir=entry.run_dir,
        campaign=rundir.path.parent.name,
        started=entry.created,
        ended=now,
    )
    ledger.append_once(row)
    evidence.forget_key(entry.run)
    result_dir = Path(entry.result_dir)
    flag = {"schema": 1, "run": entry.run, "ending": row.ending, "verdict": row.status, "returncode": None}
    journal.append(result_dir, reason)
    finish_flag.write(result_dir, {**flag, "reason": reason, "ledger": str(ledger.path)})
