"""Collect a run that is over: results, ledger row, finish flag. Idempotent, safe to rerun after any kill.

The sequence is: measure, results.md, the row if it is absent, finish.flag, collected.json, and removal from the index
of living runs. Each step may be skipped or repeated without harm, so a kill between any two of them is repaired by
running it again.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.diagnosis.failure import Failure
from autoresearch.core.run.ending import (
    EVALUATION_FAILED,
    FROM_ITS_PLACE,
    METRIC_UNREAD,
    NO_STEP,
    NOTHING_MEASURED,
    Ending,
)
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.statistics.no_signal import NO_SIGNAL, no_signal
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.lab.resolve.trainer_settings import copy_of
from autoresearch.lab.results.diagnosis import BADLY, diagnose, open_stall, why_unmeasured
from autoresearch.lab.results.judge import Judgement, is_pruned, judge, judging
from autoresearch.lab.results.measure import Measurement, measure, traceback_of
from autoresearch.lab.results.results_file import render_results
from autoresearch.lab.runs.outcome import Outcome, collected, from_collected
from autoresearch.readers.run_urls import urls_in
from autoresearch.records import (
    campaign_records,
    events,
    evidence,
    exit_record,
    finish_flag,
    journal,
    order_file,
    spec_file,
)
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir, locked, read_json, write_atomically, write_json, write_page
from autoresearch.records.secrets import mask_text, masked_file
from autoresearch.trainers import registry

VERDICT = "; verdict: "
APART, APART_SD = 0.05, 3.0  # as a part of the larger, and in standard deviations: less is noise
UNMEASURED = (EVALUATION_FAILED, METRIC_UNREAD, NO_STEP)  # failures of runs that ended by themselves
MOST_WARNINGS = 8  # of a measurement, kept in the records


def collect(rundir: RunDir, index: Index) -> Outcome:
    """Write the missing records of a run; raises ConflictError while the run still lives."""
    with locked(rundir.collect_lock):
        spec = spec_file.read(rundir)
        end = None if exit_record.set_aside(rundir, spec.run) else exit_record.read(rundir)
        if end is None:
            raise ConflictError(f"{spec.run} is not over: it has no exit record", fix=f"autoresearch wait {spec.run}")
        done = read_json(rundir.collected)
        if done and not _has_row(spec):
            done = None
        outcome = from_collected(spec, end, done) if done else None
        if outcome is None:
            with judging(spec) as state:
                outcome = _collect(rundir, spec, end, state)
        _clear(rundir, spec)
        failpoint("collect.collected")
        index.discard_live(spec.run)
        evidence.forget_key(spec.run)
    return outcome


def _collect(rundir: RunDir, spec: RunSpec, end: ExitRecord, state: CampaignState | None) -> Outcome:
    trainer = registry.by_name(spec.trainer, spec.lines)
    place = _place(spec, rundir)
    ran = end.ending is not Ending.LAUNCH_FAILED  # otherwise another run measured what lies there
    measurement = measure(spec, trainer, rundir.log, ended=end.returncode == 0) if ran else Measurement(())
    hung = open_stall(events.read(rundir.events)[0]) is not None
    failure = diagnose(spec, end, rundir.log, trainer, hung=hung).cause
    trace = traceback_of(rundir.log, trainer) if failure or end.ending in BADLY else ""
    tampered, changed = _tampered(rundir, end), ""
    if state is not None and spec.worktree:
        from autoresearch.lab.campaigns import worktree_check

        foreign, changed = worktree_check.after(rundir, spec)
        tampered += [f"{evidence.TAMPERED}{foreign}"] if foreign else []
    unmeasured = spec.evaluate and (not end.evaluation or end.evaluation["reason"])
    if unmeasured or tampered:  # earlier output does not count as a metric
        measurement = replace(measurement, series=(), last=None, best=None)
    crashed = end.ending is Ending.FINISHED and failure is not None  # it exited with 0, but its log shows a crash
    value = measurement.last[1] if measurement.last and not crashed else None
    if not tampered:
        failure = failure or why_unmeasured(spec, end, trainer, rundir.log, measurement)
    idle = no_signal(measurement.steps)
    needs_metric = spec.objective is not None or failure is not None or bool(tampered)
    judgement = judge(spec, end, value, _steps(end), state, idle, needs_metric=needs_metric)
    doubt = doubt_of(spec, measurement, judgement.noise)
    if doubt:
        measurement = replace(measurement, warnings=(doubt, *measurement.warnings))
    if spec.no_snapshot:
        unkept = f"no snapshot of the code was kept: {spec.no_snapshot}"
        measurement = replace(measurement, warnings=(unkept, *measurement.warnings))
    outcome = _outcome(spec, end, measurement, failure, judgement, place / "results.md")
    if idle and not outcome.failure:
        outcome = replace(outcome, failure=NO_SIGNAL, failure_line=idle)
    if tampered and not outcome.failure:
        outcome = replace(outcome, failure="tampered", failure_line=tampered[0].removeprefix(evidence.TAMPERED))
    failpoint("collect.measured")
    text = render_results(outcome, measurement, failure, trace, rundir)
    outcome = replace(outcome, results=_write_results(outcome.results, text, rundir))
    failpoint("collect.results_written")
    with contextlib.suppress(EnvironmentUnusable):
        _tell_events(rundir, outcome)
    if state is not None and not judgement.judged and spec.why != "confirm":  # before its row, which then counts less
        campaign_records.add(CampaignDir(Path(spec.ledger).parent).verdicts, "smoke", index=spec.index, run=spec.run)
    flags = "; ".join(filter(None, (*tampered, changed, doubt)))
    row = charged(replace(_row(outcome, judgement, rundir), flags=flags), state)
    fresh = Ledger(Path(spec.ledger)).append_once(row) if state is None else evidence.record(Path(spec.ledger), row)
    failpoint("collect.row_written")
    if fresh or not journal.holds(place, VERDICT):  # a kill may have come between the row and its line
        with contextlib.suppress(EnvironmentUnusable):  # a full disk: the flag does not wait for the journal
            _tell_journal(place, outcome)
    finish_flag.write(place, _flag(outcome, rundir))
    failpoint("collect.flag_written")
    write_json(rundir.collected, collected(outcome))
    return outcome


def _tampered(rundir: RunDir, end: ExitRecord) -> list[str]:
    """One flag for each record of this run that was tampered with."""
    found = []
    if rundir.foreign_exit.exists():
        found.append(f"{evidence.TAMPERED}it had an exit record that its Runner did not write")
    digest = (end.evaluation or {}).get("sha256")
    if digest and digest != _sha256(rundir.evaluation):
        found.append(f"{evidence.TAMPERED}its evaluation.log is not what the evaluation printed")
    return found


def _has_row(spec: RunSpec) -> bool:
    """Whether the ledger has the row of a collected run; a row that was torn off or edited away is restored."""
    ledger = Path(spec.ledger)
    if not Ledger(ledger).holds(spec.run) and Ledger(evidence.path_of(ledger)).holds(spec.run):
        evidence.restore_row(ledger, spec.run)
    return Ledger(ledger).holds(spec.run)


def _clear(rundir: RunDir, spec: RunSpec) -> None:
    """Remove the secrets from files that are no longer executed; after a full disk, the next time."""
    for path in (rundir.spec, rundir.far / "spec.json"):
        with contextlib.suppress(OSError):
            spec_file.clear(path)
    if spec.recipe:
        copy = copy_of(Path(spec.result_dir), Path(spec.recipe))
        with contextlib.suppress(OSError):
            data = copy.read_bytes()
            if (masked := masked_file(data, yaml=True)) != data:
                write_atomically(copy, masked)


def _place(spec: RunSpec, rundir: RunDir) -> Path:
    """The directory for the documents: the result directory, unless another run has claimed it by now.

    A launch that was killed early has no experiment journal yet; it gets one here.
    """
    result_dir = Path(spec.result_dir)
    if journal.owner(result_dir) not in ("", spec.run):
        return rundir.path
    journal.begin(result_dir, spec)
    return result_dir


def _write_results(path: Path, text: str, rundir: RunDir) -> Path:
    """Write results.md and return its path: beside the log if the result directory is full or read-only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, text)
        return path
    except OSError:
        other = rundir.path / path.name
        write_page(other, text.replace(str(path), str(other)))
        return other


def _outcome(
    spec: RunSpec,
    end: ExitRecord,
    measurement: Measurement,
    failure: Failure | None,
    judgement: Judgement,
    results: Path,
) -> Outcome:
    return Outcome(
        spec=spec,
        exit=end,
        verdict=judgement.verdict,
        verdict_reason=judgement.reason,
        metric_value=measurement.last[1] if measurement.last else None,
        metric_step=measurement.last[0] if measurement.last else None,
        best_value=measurement.best[1] if measurement.best else None,
        metric_source=measurement.source,
        failure=failure.kind if failure and end.cause not in FROM_ITS_PLACE else _cause(spec, end),
        failure_line=failure.line if failure else "",
        results=results,
        warnings=tuple(mask_text(text)[:500] for text in measurement.warnings[:MOST_WARNINGS]),
        run_urls=urls_in(Path(spec.run_dir) / "run.log"),
    )


def doubt_of(spec: RunSpec, measurement: Measurement, noise: float | None) -> str:
    """A warning if the training printed another metric value than was measured, beyond noise; otherwise ""."""
    if spec.objective is None or measurement.printed is None or measurement.last is None:
        return ""
    printed, measured = measurement.printed[1], measurement.last[1]
    if abs(printed - measured) <= max(APART_SD * (noise or 0.0), APART * max(abs(printed), abs(measured))):
        return ""
    return f"the training printed {spec.objective.metric} = {printed:g}, the evaluation measured {measured:g}"


def _cause(spec: RunSpec, end: ExitRecord) -> str:
    """The failure class of a bad ending that no log line explains: the signal, the limit, the launch's cause."""
    if is_pruned(end):
        return PRUNED
    if end.ending is Ending.MAX_TIME:
        return spec.timed_by or "exp_max_time"
    if end.ending not in BADLY:
        return ""
    if end.error_kind and end.cause in ("", "exit_code", "prepare_failed"):
        return end.error_kind  # the trainer's own name for it, if only a code is known
    if end.cause:
        return end.cause
    if end.signal:
        return f"signal_{end.signal}"
    if end.returncode is not None and 128 < end.returncode <= 192:  # a shell reports its last command so
        return f"signal_{end.returncode - 128}"
    return end.ending.value if end.ending is not Ending.CRASHED else "exit_code"


def _steps(end: ExitRecord) -> int | None:
    """The number of training steps seen."""
    return end.last_step if end.last_step is not None else (end.steps_seen or None)


def _row(outcome: Outcome, judgement: Judgement, rundir: RunDir) -> LedgerRow:
    spec, end = outcome.spec, outcome.exit
    memory = end.gpu_memory_bytes if end.gpu_memory_bytes else end.peak_memory_bytes
    return LedgerRow(
        index=spec.index,
        branch=spec.branch if spec.commit else "",  # otherwise it was killed before the branch was created
        parent_commit=spec.parent_commit,
        commit=spec.commit,
        recipe=spec.recipe_in_commit or spec.recipe,
        metric_name=spec.objective.metric if spec.objective else "",
        metric_value=outcome.metric_value,
        memory_gb=round(memory / 1e9, 3) if memory else None,
        elapsed_min=round((end.duration_s + float((end.evaluation or {}).get("seconds", 0.0))) / 60, 3),
        launcher=spec.launcher,
        job_id=_job_id(spec, rundir),
        command=spec.command,
        log_path=str(rundir.log),
        status=outcome.verdict.value,
        description=describe(outcome, judgement.reason),
        run_id=spec.run,
        replicate=spec.replicate,
        ending=end.ending.value,
        returncode=end.returncode,
        seed=spec.seed,
        seed_by=spec.seed_by,
        parent_branch=spec.parent_branch,
        metric_noise=judgement.noise,
        metric_step=outcome.metric_step,
        best_value=outcome.best_value,
        steps=_steps(end),
        first_step_s=end.first_step_s,
        failure=outcome.failure,
        trainer=spec.trainer,
        result_dir=spec.result_dir,
        run_dir=str(rundir.path),
        fix_of=spec.fix_of,
        campaign=spec.campaign,
        driven_by=spec.driven_by,
        started=end.started or spec.created,
        ended=end.ended,
        run_urls=" ".join(outcome.run_urls),
        sandbox=spec.sandbox,
    )


def _job_id(spec: RunSpec, rundir: RunDir) -> str:
    """The launcher's name for it: the local tmux session, or the remote job; "" if it was never submitted."""
    order = order_file.read(rundir)
    if order is None:
        return spec.session
    return order.handle.native if order.handle else ""


def charged(row: LedgerRow, state: CampaignState | None) -> LedgerRow:
    """The row with the agent's cost of making this run possible, and flags for suspicious edits."""
    idea = next((i for i in state.ideas if i.index == row.index), None) if state else None
    run = next((r for r in idea.runs if r.run == row.run_id), None) if idea else None
    if state is None or idea is None or run is None:
        return row
    cost = state.research.cost(run.turns)
    flags = "; ".join((*([row.flags] if row.flags else []), *idea.hypothesis.flags))
    return replace(row, agent_usd=cost.usd, agent_tokens=cost.tokens, flags=flags)


def describe(outcome: Outcome, reason: str = "") -> str:
    """One line for the ledger: the purpose, what went wrong if something did, else the numbers of the decision."""
    purpose = " ".join(outcome.spec.purpose.split())[:200]
    if outcome.exit.ending in BADLY:
        return f"{purpose} [{outcome.exit.ending.wording}: {outcome.failure or outcome.exit.reason}]"[:300]
    if outcome.failure in UNMEASURED:
        reason = f"{outcome.failure}: {outcome.failure_line}"
    if outcome.failure == NO_SIGNAL and not reason:
        reason = f"{NO_SIGNAL}: {outcome.failure_line}"
    return f"{purpose} [{reason}]"[:400] if reason else purpose


def _flag(outcome: Outcome, rundir: RunDir) -> dict[str, Any]:
    spec, end = outcome.spec, outcome.exit
    return {
        "schema": 1,
        "run": spec.run,
        "ending": end.ending.value,
        "verdict": outcome.verdict.value,
        "verdict_reason": outcome.verdict_reason,
        "returncode": end.returncode,
        "reason": end.reason,
        "metric": {
            "name": spec.objective.metric if spec.objective else None,
            "value": outcome.metric_value,
            "step": outcome.metric_step,
            "best": outcome.best_value,
        },
        "branch": spec.branch if spec.commit else "",
        "commit": spec.commit,
        "started": end.started,
        "ended": end.ended,
        "duration_s": end.duration_s,
        "log": str(rundir.log),
        "log_sha256": _sha256(rundir.log),
        "results": str(outcome.results),
        "ledger": spec.ledger,
    }


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _tell_events(rundir: RunDir, outcome: Outcome) -> None:
    """One event per warning of the measurement and per URL that trackers printed; each once, after any kill."""
    wanted = [("warning", text) for text in outcome.warnings] + [("run_url", url) for url in outcome.run_urls]
    if not wanted:
        return
    told = {(event.event, event.get("text")) for event in events.last(rundir.events, 4 * len(wanted) + 40)}
    for word, text in wanted:
        if (word, text) not in told:
            events.append(rundir.events, word, text=text)


def _tell_journal(place: Path, outcome: Outcome) -> None:
    end = outcome.exit
    metric = ""
    if outcome.spec.objective and outcome.measured:
        metric = f"; {outcome.spec.objective.metric} = {outcome.metric_value:.6g} at step {outcome.metric_step}"
    failure = f"; {outcome.failure}" if outcome.failure else ""
    doubts = f"; warning: {'; '.join(outcome.warnings)}" if outcome.warnings else ""
    shown = f"; shown at {' '.join(outcome.run_urls)}" if outcome.run_urls else ""
    ended = f"{end.ending.wording} (return code {end.returncode}){failure}{metric}"
    why = f" ({NOTHING_MEASURED})" if outcome.verdict_reason == NOTHING_MEASURED else ""
    journal.append(place, f"{ended}{VERDICT}{outcome.verdict}{why}{doubts}{shown}")
