"""Collect a run that is over: results, ledger row, finish flag. Idempotent, safe to rerun after any kill.

    FinishedRun -> ExaminedRun -> Judgement -> Outcome

The records are written in this order: results.md, the row if it is absent, finish.flag, collected.json, and removal
from the index of living runs. Each step may be skipped or repeated without harm, so a kill between any two of them is
repaired by running it again.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ending import Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.notices import run_notices
from autoresearch.lab.results.collected import outcome_of
from autoresearch.lab.results.finished_run import clear_secrets, examine
from autoresearch.lab.results.judge import has_row, judge, judging
from autoresearch.lab.results.results_md import render_results
from autoresearch.records import campaign_records, events, journal
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked, read_json, write_json, write_page
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger
from autoresearch.records.recorded_run import FinishedRun, Outcome
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint

VERDICT = "; verdict: "


def collect(rundir: RunDir, index: Index) -> Outcome:
    """Write the missing records of a run; raises ConflictError while the run still lives."""
    with locked(rundir.collect_lock):
        finished = FinishedRun.checked(rundir)
        spec = finished.spec
        outcome = Outcome.of(finished)
        if outcome is None or not has_row(spec):
            with judging(spec) as state:
                outcome = _collect(finished, state)
        else:
            clear_secrets(finished)
        failpoint("collect.collected")
        index.discard_live(spec.run)
    return outcome


def measure_again(before: LedgerRow, objective: Objective) -> None:
    """Measure a run of a campaign by an objective that nobody knew when it was collected. Safe after any kill.

    That the new row counts is written last; the ledger with the other one is kept as `<ledger>.edited`.
    """
    rundir = RunDir(Path(before.run_dir))
    with locked(rundir.collect_lock):
        write_json(rundir.spec, {**(read_json(rundir.spec) or {}), "objective": asdict(objective)})
        finished = FinishedRun.checked(rundir)
        with judging(finished.spec) as state:
            _collect(finished, state, before)


def _collect(finished: FinishedRun, state: CampaignState | None, before: LedgerRow | None = None) -> Outcome:
    """`before`: its row, of a run that is measured anew; what its worktree showed is in it."""
    spec, (directory, foreign) = finished.spec, _document_dir(finished)
    examined = replace(examine(finished, in_campaign=bool(state and not before)), foreign=foreign)
    judgement = judge(examined, state)
    outcome = outcome_of(examined, judgement, state, directory / "results.md")
    if before is not None:
        outcome = replace(outcome, row=replace(outcome.row, flags=before.flags or outcome.row.flags))
    failpoint("collect.measured")
    text = render_results(examined, outcome)
    outcome = replace(outcome, results=_write_results(outcome, text))
    failpoint("collect.results_written")
    with contextlib.suppress(EnvironmentUnusable):
        _append_events(outcome)
    ledger, row = Path(spec.ledger), outcome.row
    unjudged = not judgement.judged and spec.why != "confirm"
    if state is None:
        fresh = Ledger(ledger).append_once(row)
    else:
        fresh = before is not None or campaign_records.append_row(CampaignDir(ledger.parent), row, unjudged=unjudged)
    failpoint("collect.row_written")
    if fresh or not journal.holds(directory, VERDICT):  # a kill may have come between the row and its line
        with contextlib.suppress(EnvironmentUnusable):  # a full disk: the flag does not wait for the journal
            _append_journal(directory, outcome)
    journal.write_flag(directory, {"schema": 1, **outcome.payload(), "started": row.started, "ended": row.ended})
    failpoint("collect.flag_written")
    if state is None:  # before the last record: after a kill between the two, it is handed over again
        run_notices.announce_end(outcome)
        failpoint("collect.announced")
    clear_secrets(finished)
    outcome.write()
    if before is not None:
        failpoint("collect.measured_again")
        campaign_records.append_row(CampaignDir(ledger.parent), row, unjudged=unjudged, again=True)
    return outcome


def _document_dir(finished: FinishedRun) -> tuple[Path, tuple[str, ...]]:
    """The directory for the documents, and what stood there in the place of ours, in sentences.

    It is the result directory, unless another run has claimed it by now. A launch that was killed early has no
    experiment journal yet; it gets one here.
    """
    spec, result_dir = finished.spec, Path(finished.spec.result_dir)
    if journal.owner(result_dir) not in ("", spec.run):
        return finished.rundir.path, ()
    foreign = journal.clear_the_way(result_dir)
    journal.begin(result_dir, spec)
    return result_dir, tuple(foreign)


def _write_results(outcome: Outcome, text: str) -> Path:
    """Write results.md and return its path: beside the log if the result directory is full or read-only."""
    path = outcome.results
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, text)
        return path
    except OSError:
        other = outcome.rundir.path / path.name
        write_page(other, text.replace(str(path), str(other)))
        return other


def _append_events(outcome: Outcome) -> None:
    """One event per warning of the measurement and per URL that trackers printed; each once, after any kill."""
    texts = [("warning", text) for text in outcome.warnings] + [("run_url", url) for url in outcome.run_urls]
    path = outcome.rundir.events
    known = {(one.event, one.get("text")) for one in events.last(path, 4 * len(texts) + 40)} if texts else set()
    for word, text in texts:
        if (word, text) not in known:
            events.append(path, word, text=text)


def _append_journal(directory: Path, outcome: Outcome) -> None:
    end, row = outcome.exit, outcome.row
    metric = ""
    if outcome.spec.objective and outcome.measured:
        metric = f"; {row.metric_name} = {row.metric_value:.6g} at step {row.metric_step}"
    failure = f"; {row.failure}" if row.failure else ""
    doubts = f"; warning: {'; '.join(outcome.warnings)}" if outcome.warnings else ""
    shown = f"; shown at {row.run_urls}" if row.run_urls else ""
    ended = f"{end.ending.wording} (return code {end.returncode}){failure}{metric}"
    why = f" ({row.reason})" if row.status == Verdict.UNMEASURED and not row.failure and row.reason else ""
    journal.append(directory, f"{ended}{VERDICT}{row.status}{why}{doubts}{shown}")
