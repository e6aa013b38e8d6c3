"""What is recorded of a run that is over: its outcome, and its row in the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.runs_and_retries import tried_again
from autoresearch.core.diagnosis.failure import Failure, FailureKind
from autoresearch.core.metrics.constraint import as_cell
from autoresearch.core.metrics.objective import steadier
from autoresearch.core.run.ending import (
    BREACHES,
    FROM_ITS_PLACE,
    NOT_SHOWN,
    PENDING,
    TAMPERED,
    UNREAD,
    Ending,
    Verdict,
)
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import NO_SIGNAL
from autoresearch.lab.results.diagnosis import BADLY
from autoresearch.lab.results.finished_run import ExaminedRun
from autoresearch.lab.results.judge import Judgement
from autoresearch.readers.console import urls_in
from autoresearch.records import order_file
from autoresearch.records.recorded_run import FinishedRun, Outcome
from autoresearch.runner.masking import mask_text

APART, APART_SD = 0.05, 3.0  # as a part of the larger, and in standard deviations: less is noise
MOST_WARNINGS = 8  # of a measurement, kept in the records


def _warnings(examined: ExaminedRun, judgement: Judgement) -> tuple[str, ...]:
    """What there is to doubt of a run, in sentences."""
    finished, end = examined.finished, examined.finished.exit
    # of a run that ended well although its trainer has a name for what it printed
    error = f"{end.error_kind}: {end.error}" if end.ending is Ending.FINISHED and end.error_kind else ""
    own = (finished.spec.unkept, _doubt(examined, judgement), error, end.idle_gpus, examined.hung, _jumps(examined))
    return (*filter(None, own), *examined.foreign, *examined.measurement.warnings)


def outcome_of(examined: ExaminedRun, judgement: Judgement, state: CampaignState | None, results: Path) -> Outcome:
    """The outcome of a judged run. state: of its campaign, if any. results: where its document will be."""
    finished, measurement = examined.finished, examined.measurement
    failure, line = _failure(examined, judgement)
    found = replace(examined.diagnosis, traceback="")  # it stands in results.md
    if found.cause is None and failure in BREACHES:
        found = replace(found, cause=Failure(FailureKind(failure), line))
    reason = _reason(examined, judgement, failure, line)
    return Outcome(
        rundir=finished.rundir,
        spec=finished.spec,
        exit=finished.exit,
        row=charged(_row(examined, judgement, failure, reason), state),
        results=results,
        metric_source=measurement.source,
        curve=measurement.curve,
        failure_line=line,
        diagnosis=found,
        steps_read=mask_text(measurement.summary),
        warnings=tuple(mask_text(text)[:500] for text in _warnings(examined, judgement)[:MOST_WARNINGS]),
    )


def _row(examined: ExaminedRun, judgement: Judgement, failure: str, reason: str) -> LedgerRow:
    """Its row in the ledger, for a run of its own; `charged` adds what only a campaign knows."""
    finished, measurement = examined.finished, examined.measurement
    spec, end, rundir = finished.spec, finished.exit, finished.rundir
    doubts = (_doubt(examined, judgement), judgement.flag, end.idle_gpus, examined.hung)
    step, value = measurement.last or (None, None)
    purpose = " ".join(spec.purpose.split())[:200]
    return replace(
        LedgerRow.of_spec(spec),
        metric_value=value,
        memory_gb=end.memory_gb,
        constraints=as_cell(examined.limited()),
        elapsed_min=round((end.duration_s + float((end.evaluation or {}).get("seconds", 0.0))) / 60, 3),
        job_id=_job_id(finished),
        log_path=str(rundir.log),
        status=judgement.verdict.value,
        standing=PENDING if judgement.pending else judgement.verdict.value,
        description=f"{purpose} [{reason}]"[:400] if reason else purpose,
        reason=reason,
        ending=end.ending.value,
        returncode=end.returncode,
        metric_noise=judgement.noise,
        metric_step=step,
        best_value=measurement.best[1] if measurement.best else None,
        steps=examined.steps,
        first_step_s=end.first_step_s,
        failure=failure,
        run_dir=str(rundir.path),
        started=end.started or spec.created,
        ended=end.ended,
        run_urls=" ".join(urls_in(Path(spec.run_dir) / "run.log")),
        flags="; ".join(filter(None, (examined.tampered, *examined.foreign, examined.changed, *doubts))),
    )


def _doubt(examined: ExaminedRun, judgement: Judgement) -> str:
    """A warning if the training printed another metric value than was measured, beyond noise; otherwise ""."""
    objective, measurement = examined.finished.spec.objective, examined.measurement
    if objective is None or measurement.printed is None or measurement.last is None:
        return ""
    printed, measured = measurement.printed[1], measurement.last[1]
    if abs(printed - measured) <= max(APART_SD * (judgement.noise or 0.0), APART * max(abs(printed), abs(measured))):
        return ""
    return f"the training printed {objective.metric} = {printed:g}, the evaluation measured {measured:g}"


def _jumps(examined: ExaminedRun) -> str:
    """That the last value is no objective, of a lone run and the first one of a campaign; "" if it is one."""
    spec = examined.finished.spec
    if spec.objective is None or spec.evaluate or spec.why not in ("", "baseline") or spec.replicate > 1:
        return ""
    better = steadier(spec.objective.metric, examined.measurement.readings)
    words = f"{spec.objective.metric} jumps from step to step, so its last value says little"
    return f"{words}: `- metric: {better}` in the notes, or `--metric '{better}'`" if better else ""


def _failure(examined: ExaminedRun, judgement: Judgement) -> tuple[str, str]:
    """The class of its failure, and the line that shows it; ("", "") if nothing failed."""
    found, end = examined.failure, examined.finished.exit
    line = found.line if found else ""
    kind = found.kind.value if found and end.cause not in FROM_ITS_PLACE else ""
    if kind := kind or judgement.failure or _cause(examined.finished):
        return kind, judgement.reason if kind in BREACHES else line
    if examined.idle:
        return NO_SIGNAL, examined.idle
    if examined.tampered:
        return "tampered", examined.tampered.removeprefix(TAMPERED)
    return "", line


def _cause(finished: FinishedRun) -> str:
    """The failure class of a bad ending that no log line explains: the signal, the limit, the launch's cause."""
    end = finished.exit
    if end.ending is Ending.MAX_TIME:
        return finished.spec.timed_by or "exp_max_time"
    if end.ending not in BADLY:
        return ""
    if end.error_kind and end.cause in ("", "exit_code", "prepare_failed"):
        return end.error_kind  # the trainer's own name for it, if only a code is known
    if end.cause:
        return end.cause
    code = end.returncode or 0
    if number := end.signal or (code - 128 if 128 < code <= 192 else 0):  # a shell reports its last command so
        return f"signal_{number}"
    return end.ending.value if end.ending is not Ending.CRASHED else "exit_code"


def _job_id(finished: FinishedRun) -> str:
    """The launcher's name for it: the local tmux session, or the remote job; "" if it was never submitted."""
    order = order_file.read(finished.rundir)
    if order is None:
        return finished.spec.session
    return order.handle.native if order.handle else ""


def charged(row: LedgerRow, state: CampaignState | None) -> LedgerRow:
    """The row with what only the campaign knows: agent and cost, suspicious edits, whether it is tried again."""
    idea = next((i for i in state.ideas if i.index == row.index), None) if state else None
    run = next((r for r in idea.runs if r.run == row.run_id), None) if idea else None
    if state is None or idea is None or run is None:
        return row
    cost = state.research.cost(run.turns)
    flags = "; ".join((*([row.flags] if row.flags else []), *idea.hypothesis.flags))
    standing = row.standing or row.status
    if tried_again(state, idea, row):
        standing = PENDING
    elif run.why == "confirm" or idea.excused(row) or (row.uncounted and idea.status == Verdict.KEEP):
        # it says nothing of the idea, whose word stays
        standing = idea.status or row.status
    agent = state.research.agent_of(idea.hypothesis)
    return replace(row, agent_usd=cost.usd, agent_tokens=cost.tokens, agent=agent, flags=flags, standing=standing)


def _reason(examined: ExaminedRun, judgement: Judgement, failure: str, line: str) -> str:
    """Why it has its status: what went wrong if something did, else the numbers of the decision."""
    end = examined.finished.exit
    if failure == NOT_SHOWN:
        return line
    if end.ending in BADLY and not (examined.hung and judgement.verdict is not Verdict.CRASH):
        return f"{end.ending.wording}: {failure or end.reason}"[:300]
    if failure in UNREAD or (failure == NO_SIGNAL and not judgement.reason):
        return f"{failure}: {line}"
    return judgement.reason
