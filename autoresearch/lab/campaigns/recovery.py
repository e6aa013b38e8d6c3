"""Recovery after a controller was killed, or its files were edited by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from autoresearch.core.controller.actions import ControllerAction, Note, Say, WatchRun
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.seeds_and_rounds import note_equal_ones
from autoresearch.lab.ideas.commit_builder import IdeaRefused
from autoresearch.lab.ideas.idea_commit import as_line, claim
from autoresearch.lab.results.collect import measure_again
from autoresearch.lab.runs.adopt import adopt
from autoresearch.lab.runs.processes import SWEEP_S, sweep
from autoresearch.lab.runs.record_lost import record_lost
from autoresearch.lab.runs.sessions import server_session_info
from autoresearch.records import campaign_records
from autoresearch.records.recorded_run import read as read_run
from autoresearch.records.recorded_run import read_if_whole
from autoresearch.records.rundir import RunDir


def recover(context: CampaignContext) -> Iterator[ControllerAction]:
    """Find what an earlier controller left: live runs continue, dead runs are recorded, unstarted runs are forgotten.

    Each action has to be carried out before the next one is asked for.
    """
    yield from map(Say, campaign_records.make_whole(context.campaign_dir))
    yield from map(Say, _measured_again(context))
    yield from map(Say, put_ledger_right(context))
    if draft := context.state.draft:  # it was committed, and has no branch yet
        try:
            yield Note("idea", as_line(claim(context.builder, draft)))
        except IdeaRefused as refused:  # its commit did not survive; it is proposed again
            yield Say(f"{draft.name}: forgotten: {refused.message}")
    for idea in context.state.ideas:
        for run in list(idea.runs):
            over, rundir = run.run in idea.done, RunDir(Path(run.run_dir))
            if not (over or run.started or rundir.spec.exists()):
                _remove_claim(context, run.run, rundir)
                yield Note("withdrawn", {"run": run.run})
                continue
            if not run.started:  # it was claimed at least, before that could be recorded
                if not over:
                    record_lost(rundir)  # unless its Runner lives
                yield Note("started", {"run": run.run})
            if not over:
                yield WatchRun(run.run, run.run_dir)
    yield from note_equal_ones(context.state)
    _finish_records(context)


def _measured_again(context: CampaignContext) -> Iterator[str]:
    """Measure the baseline's runs that were over before anybody named the objective; a line for each."""
    baseline, objective = context.state.baseline, context.spec.objective
    for row in baseline.unnamed if baseline and objective.metric else ():
        with contextlib.suppress(NotFoundError, ConflictError):  # its directory was removed: it stays unmeasured
            measure_again(row, objective)
            yield f"{row.run_id} is measured by {objective.metric}"


def put_ledger_right(context: CampaignContext) -> list[str]:
    """Write what the ledger lacks or has otherwise than the record; what to say about it."""
    ledger = context.campaign_dir.ledger
    edited = campaign_records.write_ledger(context.campaign_dir)
    return [f"the ledger was not as recorded, and is again; as it was, it is in {ledger}.edited"] if edited else []


def _remove_claim(context: CampaignContext, run: str, rundir: RunDir) -> None:
    """Remove what a controller left that was killed when it had begun to claim directories for a run."""
    with contextlib.suppress(OSError):
        rundir.path.rmdir()
    context.parts.index.discard_live(run)


def _finish_records(context: CampaignContext) -> None:
    """Finish the steps after a row (flag, documents, index) if a collector was killed in between."""
    done = {run for idea in context.state.ideas for run in idea.done}
    for entry in context.parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        if entry.run in done and rundir.path.parent == context.campaign_dir.path and rundir.spec.exists():
            with contextlib.suppress(AutoresearchError, OSError):
                adopt(rundir, context.parts)


def close_panes(context: CampaignContext) -> None:
    """Close the tmux sessions of runs that are over."""
    over = [RunDir(path.parent) for path in context.campaign_dir.path.glob("*/collected.json")]
    servers = (info.session for info in map(server_session_info, over) if info)
    specs = filter(None, map(read_if_whole, over))  # their sessions may not be recorded after a kill
    _close_sessions(context, {*servers, *(spec.session for spec in specs)})


def _close_sessions(context: CampaignContext, names: Collection[str]) -> None:
    with contextlib.suppress(AutoresearchError, OSError):
        launcher = context.parts.launcher(context.spec.tmux_socket)
        for info in launcher.list_ours():
            if info.session in names:
                launcher.close(info)


def record(context: CampaignContext, run: str, rundir: RunDir) -> None:
    """Write the records of a run that is over. Safe to repeat."""
    parts = context.parts
    try:
        read_run(rundir)
    except NotFoundError as error:
        gone = not rundir.spec.exists()
        sweep(run, grace_s=SWEEP_S)  # its outcome can no longer be recorded, so it must not keep training
        reason = "its run directory was removed" if gone else str(error)
        entry = parts.index.by_id(run)
        _close_sessions(context, {entry.session} if entry else ())
        idea, one = next((idea, one) for idea in context.state.ideas for one in idea.runs if one.run == run)
        progress.record_lost(context.builder, idea, one, reason, parts.clock())
        parts.index.discard_live(run)
        return
    adopt(rundir, parts)
