"""Recovery after a controller was killed, or a campaign's files were edited by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, IdeaRun
from autoresearch.core.controller.actions import Action, Note, Say, WatchRun
from autoresearch.core.text.counted import counted
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas.commit_builder import CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.idea_commit import as_line, claim
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import adopt
from autoresearch.lab.runs.cancel import erase, take_back
from autoresearch.lab.runs.record_lost import SWEEP_S, sweep
from autoresearch.lab.runs.sessions import server_session_info, session_info
from autoresearch.records import campaign_records, evidence
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir, is_locked
from autoresearch.records.spec_file import read as read_run


def recover(context: CampaignContext) -> Iterator[Action]:
    """Find what an earlier controller left: live runs continue, dead runs are recorded, unstarted runs are discarded.

    Each action has to be carried out before the next one is asked for.
    """
    campaign_dir, parts = context.campaign_dir, context.parts
    restore_spec(campaign_dir, context.history.spec)
    rows_of_others(campaign_dir, context.state)
    yield from map(Say, restore_ledger(campaign_dir))
    for fields in unrecorded(campaign_dir, context.state, parts):
        yield Note("prepared", fields)
    yield from _finish_draft(context.builder, context.state)
    for idea in context.state.ideas:
        for run in list(idea.runs):
            if run.run not in idea.done:
                yield from _take_up(run, parts)
            elif not run.started:  # it was started and is over, before that could be recorded
                yield Note("started", {"run": run.run})
    finish_records(campaign_dir, context.state, parts)


def rows_of_others(campaign_dir: CampaignDir, state: CampaignState) -> None:
    """Import the rows that another account, or an earlier version, has recorded."""
    runs = (run for idea in state.ideas for run in idea.runs)
    evidence.take_in(campaign_dir.ledger, (run.run for run in runs if RunDir(Path(run.run_dir)).collected.exists()))


def restore_ledger(campaign_dir: CampaignDir) -> list[str]:
    """Put back the rows that somebody took out of the ledger, or changed; what to say about it."""
    changed = evidence.restore(campaign_dir.ledger)
    if not changed:
        return []
    aside = f"{campaign_dir.ledger}.foreign"
    return [f"somebody changed the ledger: {counted(len(changed), 'row')} restored; the changed lines are in {aside}"]


def _finish_draft(builder: CommitBuilder, state: CampaignState) -> tuple[Action, ...]:
    """Claim the branch of an idea that was committed, but has no branch yet."""
    if state.draft is None:
        return ()
    try:
        return (Note("idea", as_line(claim(builder, state.draft))),)
    except IdeaRefused as refused:  # its commit did not survive; it is proposed again
        return (Say(f"{state.draft.name}: forgotten: {refused.message}"),)


def _take_up(idea_run: IdeaRun, parts: Parts) -> tuple[Action, ...]:
    """A run without a row: one that was started is watched from now on, any other is cancelled."""
    if idea_run.started:
        return (WatchRun(idea_run.run, idea_run.run_dir),)
    if take_back(RunDir(Path(idea_run.run_dir)), idea_run.run, parts):
        return (Note("withdrawn", {"run": idea_run.run}),)
    return Note("started", {"run": idea_run.run}), WatchRun(idea_run.run, idea_run.run_dir)


def restore_spec(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> None:
    """Write campaign.json again if it was damaged or removed; the controller still has its contents."""
    try:
        campaign_records.declared_spec(campaign_dir)
    except NotFoundError:
        campaign_records.write_spec(campaign_dir, campaign_spec)


def unrecorded(campaign_dir: CampaignDir, state: CampaignState, parts: Parts) -> Iterator[dict[str, Any]]:
    """Handle runs that were prepared by a controller that was killed before it could record them.

    They are withdrawn. A run that was started nevertheless (it ends at once, because its session was killed while it
    waited) is yielded as its journal line.
    """
    known = {run.run for idea in state.ideas for run in idea.runs}
    for entry in parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        if rundir.path.parent != campaign_dir.path or entry.run in known:
            continue
        if not rundir.session.exists():  # killed before session.json was written: only the session's name is known
            _close_named({entry.session}, state.spec.tmux_socket, parts)
        if take_back(rundir, entry.run, parts):
            continue
        with contextlib.suppress(AutoresearchError, OSError):
            spec = read_run(rundir)
            yield {
                "index": spec.index,
                "run": spec.run,
                "run_dir": spec.run_dir,
                "replicate": spec.replicate,
                "why": spec.why,
                "commit": spec.commit,
                "seed": spec.seed,
            }
    for launching in campaign_dir.path.glob("*/launching"):  # runs missing from the index
        rundir = RunDir(launching.parent)
        if not (rundir.spec.exists() or rundir.exit_record.exists() or rundir.runner.exists() or is_locked(launching)):
            erase(rundir, "", parts)


def finish_records(campaign_dir: CampaignDir, state: CampaignState, parts: Parts) -> None:
    """Finish the steps after a row (flag, documents, index) if a collector was killed in between."""
    done = {run for idea in state.ideas for run in idea.done}
    for entry in parts.index.live():
        rundir = RunDir(Path(entry.run_dir))
        if entry.run in done and rundir.path.parent == campaign_dir.path and rundir.spec.exists():
            with contextlib.suppress(AutoresearchError, OSError):
                adopt(rundir, parts)


def close_panes(campaign_dir: CampaignDir, tmux_socket: str, parts: Parts) -> None:
    """Close the tmux sessions of runs that are over."""
    over = [RunDir(path.parent) for path in campaign_dir.path.glob("*/collected.json")]
    infos = (look(rundir) for rundir in over for look in (session_info, server_session_info))
    names = {info.session for info in infos if info}
    _close_named(names, tmux_socket, parts)


def _close_named(names: Collection[str], tmux_socket: str, parts: Parts) -> None:
    with contextlib.suppress(AutoresearchError, OSError):
        launcher = parts.launcher(tmux_socket)
        for info in launcher.list_ours():
            if info.session in names:
                launcher.close(info)


def by_end(run_dirs: Mapping[str, RunDir]) -> list[str]:
    """Sort runs by their end time, so that a row that is rewritten is judged by what was known at its time."""

    def end_time(run: str) -> float:
        try:
            return run_dirs[run].exit_record.stat().st_mtime
        except OSError:
            return float("inf")

    return sorted(run_dirs, key=end_time)


def record(state: CampaignState, run: str, rundir: RunDir, builder: CommitBuilder, parts: Parts) -> None:
    """Write the records of a run that is over. Safe to repeat."""
    idea, one = next((idea, one) for idea in state.ideas for one in idea.runs if one.run == run)
    try:
        read_run(rundir)
    except (OSError, NotFoundError) as error:
        gone = not rundir.spec.exists()
        sweep(run, grace_s=SWEEP_S)  # its outcome can no longer be recorded, so it must not keep training
        reason = "its run directory was removed" if gone else str(error)
        entry = parts.index.by_id(run)
        _close_named({entry.session} if entry else (), builder.spec.tmux_socket, parts)
        progress.record_lost(builder, idea, one, reason, parts.clock())
        parts.index.discard_live(run)
        evidence.forget_key(run)
        return
    adopt(rundir, parts)
    ledger = Path(builder.spec.directory) / "results.tsv"
    if rundir.collected.exists() and not Ledger(evidence.read_from(ledger)).holds(run):
        rundir.collected.unlink()  # the ledger was edited by hand
        adopt(rundir, parts)
