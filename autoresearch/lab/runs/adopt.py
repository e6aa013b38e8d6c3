"""What is done first with a run: a living one is left alone, a dead one recorded.

Cheap where it simply lives: `wait` and `status` are called hundreds of times a night.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import read_json
from autoresearch.records.index import IndexEntry
from autoresearch.records.ledger import Ledger
from autoresearch.records.recorded_run import Outcome
from autoresearch.records.rundir import STARTING_S, RunDir

OUT_OF_SIGHT_S = 7 * 24 * 3600.0  # a project that is not mounted now may return, with its runs


@dataclass(frozen=True, slots=True)
class Adopted:
    """A recovered run: still alive, or over and now recorded."""

    entry: IndexEntry
    state: RunState
    outcome: Outcome | None
    trouble: str = ""  # why it could not be recorded now
    deleted: bool = False  # its directory is gone: its outcome is unknown, and its row says so


def adopt_all(parts: Parts) -> Iterator[Adopted]:
    """Every run without finished records; an error in one does not affect the others."""
    living = parts.index.live()
    refresh([RunDir(Path(entry.run_dir)) for entry in living], parts)
    for entry in living:
        rundir = RunDir(Path(entry.run_dir))
        if not rundir.spec.exists():  # it never began, or its directory was removed
            if parts.clock() - entry.created > (STARTING_S if rundir.removed else OUT_OF_SIGHT_S):
                try:
                    if was_deleted(rundir, entry):
                        from autoresearch.lab.runs.processes import carriers

                        if carriers(entry.run):
                            continue  # it still trains; a later call records it
                        record_deleted(rundir, entry, parts.clock())
                        yield Adopted(entry, RunState.ENDED, None, deleted=True)
                except (AutoresearchError, OSError) as error:
                    yield Adopted(entry, RunState.DEAD, None, _cause(error, rundir))
                    continue
                parts.index.discard_live(entry.run)
            continue
        try:
            found = Adopted(entry, *_settled(rundir, parts))
        except (AutoresearchError, OSError) as error:  # a full disk, a foreign ledger: the next call tries again
            found = Adopted(entry, rundir.state(), None, _cause(error, rundir))
        if rundir.spec.exists():  # otherwise it never began
            yield found


def _cause(error: Exception, rundir: RunDir) -> str:
    """Why a run was not recorded, with the path, which an error of a full disk does not name."""
    return f"{error.filename or rundir.path}: {error.strerror}" if isinstance(error, OSError) else str(error)


def refresh(rundirs: Sequence[RunDir], parts: Parts) -> None:
    """Look at those that are at other targets, some seconds at most; the import is spared where all are here."""
    if not (there := [rundir for rundir in rundirs if rundir.order.exists()]):
        return
    from autoresearch.lab.remote import refresh as remote
    from autoresearch.lab.remote.order import watch_over

    silent = [rundir for rundir in there if rundir.state() is RunState.UNREACHABLE]
    remote.refresh(there, parts)
    for rundir in silent:
        if rundir.state().lives and rundir.state() is not RunState.UNREACHABLE and not _in_campaign(rundir):
            watch_over(rundir, parts, anew=True)  # with the credentials of this login


@contextlib.contextmanager
def kept_fresh(rundir: RunDir, parts: Parts) -> Iterator[None]:
    """While the block runs, a run at another target is looked at again and again, so that its files here are true."""
    if not rundir.order.exists():
        yield
        return
    from autoresearch.lab.remote import refresh as remote

    with remote.kept_fresh(lambda: [rundir], parts):
        yield


def adopt(rundir: RunDir, parts: Parts) -> tuple[RunState, Outcome | None]:
    """Settle one run: write a dead one's exit record, collect one that is over; its state, and what came of it."""
    refresh([rundir], parts)
    return _settled(rundir, parts)


def _settled(rundir: RunDir, parts: Parts) -> tuple[RunState, Outcome | None]:
    state = rundir.state()
    if state is RunState.DEAD or (state is RunState.ENDED and read_json(rundir.exit_record) is None):  # damaged
        from autoresearch.lab.runs.record_lost import record_lost  # it is rare, and looks through all processes

        record_lost(rundir)
        state = rundir.state()
    if state is not RunState.ENDED:
        if rundir.order.exists() and not _in_campaign(rundir):
            from autoresearch.lab.remote.order import watch_over

            watch_over(rundir, parts)
        return state, None
    from autoresearch.lab.results.judge import has_row

    outcome = Outcome.load(rundir)
    if outcome is not None and has_row(outcome.spec):
        parts.index.discard_live(outcome.spec.run)  # a kill may have come just before this
    else:
        from autoresearch.lab.results.collect import collect  # imports all that measuring needs

        outcome = collect(rundir, parts.index)
    return state, outcome


def _in_campaign(rundir: RunDir) -> bool:
    return CampaignDir(rundir.path.parent).spec.exists()


def record_failed_launch(rundir: RunDir, parts: Parts, reason: str) -> None:
    """Record a launch that failed half-way as a run that ended: with its row and its flag."""
    from autoresearch.lab.runs.record_lost import record_lost

    record_lost(rundir, reason=f"the launch stopped: {reason}")
    adopt(rundir, parts)


def was_deleted(rundir: RunDir, entry: IndexEntry) -> bool:
    """Whether a run had begun and its directory was deleted; those of a campaign are left to its controller."""
    from autoresearch.records import journal

    campaign = CampaignDir(rundir.path.parent)
    if rundir.path.exists() or not campaign.path.is_dir() or campaign.spec.exists():
        return False
    return journal.owner(Path(entry.result_dir)) == entry.run


def record_deleted(rundir: RunDir, entry: IndexEntry, now: float) -> None:
    """Write the row and finish.flag of such a run, from the index."""
    from autoresearch.records import journal

    reason = "its run directory was deleted while it ran: what became of it is not known"
    ledger = Ledger(rundir.path.parent / "results.tsv")
    row = LedgerRow(
        index=ledger.next_index(),
        status=Verdict.CRASH.value,
        description=f"{entry.slug} [{reason}]",
        reason=reason,
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
    result_dir = Path(entry.result_dir)
    flag = {"schema": 1, "run": entry.run, "ending": row.ending, "verdict": row.status, "returncode": None}
    journal.append(result_dir, reason)
    journal.write_flag(result_dir, {**flag, "reason": reason, "ledger": str(ledger.path)})
