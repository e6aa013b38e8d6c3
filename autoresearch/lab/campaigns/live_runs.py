"""The runs of a campaign under control: the live ones, the prepared one, and those that were recorded just now."""

from __future__ import annotations

import contextlib
from pathlib import Path

from autoresearch.core.controller.machine import ReadyRun
from autoresearch.core.controller.scheduler import RunRequest
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns import outputs, recovery
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.prepare_next import be_quick, keep_fix_story, note_prepared, prepare_run
from autoresearch.lab.campaigns.requests import stop_run
from autoresearch.lab.campaigns.slots import SlotPool
from autoresearch.lab.ideas.idea_run import Ready, SharedOutputError
from autoresearch.lab.runs.sessions import close_session
from autoresearch.lab.runs.watch import Watcher
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import RunDir
from autoresearch.records.spec_file import read as read_run

_OVER = (RunState.ENDED, RunState.DEAD)


class LiveRuns:
    """Starts, watches and records runs; what it holds in memory is recovered from the run directories after a kill."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self._pool = SlotPool(context.spec, context.builder.checkout, context.parts.environ)
        self._live: dict[str, RunDir] = {}
        self._ready: Ready | None = None  # the prepared run that starts next
        self._recorded: dict[str, RunDir] = {}  # not reported yet
        self._stuck: dict[str, str] = {}  # runs that are over and cannot be recorded now, and why
        self._conflicting: frozenset[str] = frozenset()

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def live(self) -> dict[str, RunDir]:
        """The started runs that are watched, by ID."""
        return dict(self._live)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The runs that have their row, but were not reported yet."""
        return tuple(self._recorded)

    @property
    def ready(self) -> ReadyRun | None:
        """The prepared run."""
        return ReadyRun(self._ready.run.run, self._ready.request) if self._ready else None

    @property
    def conflicting(self) -> frozenset[str]:
        """The runs that were live when the next run could not be prepared, as one of them writes a file of it."""
        return self._conflicting

    @property
    def spare_worktree(self) -> bool:
        """Whether one more run can be prepared."""
        return self._pool.spare() is not None

    def over(self) -> tuple[str, ...]:
        """The live runs that ended, in the order of their ends."""
        ended = {run: rundir for run, rundir in self._live.items() if rundir.state() in _OVER}
        return tuple(recovery.by_end(ended))

    @property
    def may_look_again(self) -> bool:
        """Whether something can only be found out by looking: stuck records, or GPUs that others were using."""
        return bool(self._stuck) or self._pool.may_ask_again

    def watcher(self) -> Watcher:
        """Wakes when something happens to a live run."""
        return Watcher(list(self._live.values()))

    def any_over(self) -> bool:
        """Whether a run ended that was not tried to be recorded yet."""
        return any(rundir.state() in _OVER for run, rundir in self._live.items() if run not in self._stuck)

    def attend_followers(self) -> None:
        """Make sure that the runs on other targets have their Followers."""
        self._pool.attend(self._live, self._context.parts)

    # -- what is done with them ----------------------------------------------------------------------------------

    def prepare(self, run_request: RunRequest) -> None:
        """Prepare a run and hold it until there is room; an idea that cannot be run gets a row that says why."""
        slot = self._pool.spare()
        assert slot is not None
        try:
            ready = prepare_run(self._context, run_request, slot, self._pool.busy(self._live))
        except SharedOutputError as error:  # its turn comes when that run is over
            self._conflicting = frozenset(self._live)
            self._context.say(f"{run_request.idea.name} waits: {error.message}")
            return
        if ready is None:
            return
        self._ready = ready
        self._pool.take(ready.slot, ready.run.run)
        failpoint("campaign.prepared")
        note_prepared(self._context, run_request, ready.run)
        keep_fix_story(self._context.state, ready)
        failpoint("campaign.waits")
        be_quick()

    def launch(self) -> bool:
        """Start the prepared run; False if no target has room for it."""
        ready, run_slot = self._ready, self._pool.assign(self._live)
        if ready is None or run_slot is None:
            return False
        self._ready = None
        context = self._context
        try:
            deadline = context.state.spec.rules.deadline
            shares, target = context.spec.runs_per_gpu, run_slot.target
            ready.prepared.go(run_slot.gpus, shares=shares, target=target, deadline=deadline)
        except (AutoresearchError, OSError) as error:
            context.say(f"{ready.run.run}: {error}")
        failpoint("campaign.gone")
        context.note("started", run=ready.run.run)
        self._live[ready.run.run] = ready.prepared.rundir
        self._pool.take(ready.slot, ready.run.run, run_slot)
        idea, why = ready.request.idea, ready.request.why
        where = "" if run_slot.target.is_local else f" at {run_slot.target.name}"
        context.say(f"{idea.name}: {why} run {ready.run.replicate} started on {idea.branch}{where}")
        return True

    def withdraw(self) -> None:
        """Cancel the prepared run, if there is one; its branch stays."""
        if (ready := self._ready) is None:
            return
        self._ready = None
        with contextlib.suppress(AutoresearchError, OSError):
            ready.prepared.withdraw()
        self._context.note("withdrawn", run=ready.run.run)
        self._pool.free(ready.run.run)

    def watch(self, run: str, run_dir: str) -> None:
        """Look after a run that an earlier controller started."""
        rundir = RunDir(Path(run_dir))
        self._live[run] = rundir
        with contextlib.suppress(AutoresearchError, OSError):  # its directory was removed: it will be recorded as lost
            self._pool.occupied(rundir.path, run)

    def stop(self, run: str, reason: str, *, again: bool) -> None:
        """Ask a live run to end now; `again`: only if it was not asked before, and as far as that is possible."""
        rundir = self._live.get(run)
        if rundir is None:
            return
        if not again:
            stop_run(rundir, reason)
            return
        with contextlib.suppress(AutoresearchError, OSError):
            if not rundir.stop.exists():
                stop_run(rundir, reason)

    def record(self, run: str) -> bool:
        """Write the records of a run that is over, and free its slot; False if they cannot be written now."""
        context, rundir = self._context, self._live[run]
        recovery.restore_spec(context.campaign_dir, context.history.spec)
        try:
            recovery.record(context.state, run, rundir, context.builder, context.parts)
        except (AutoresearchError, OSError) as error:  # a full disk: it is tried again later
            if self._stuck.get(run) != str(error):
                context.say(f"{run}: its records cannot be written now: {error}")
            self._stuck[run] = str(error)
            return False
        failpoint("campaign.recorded")
        self._stuck.pop(run, None)
        self._keep_outputs(run, rundir)
        del self._live[run]
        self._pool.free(run)
        self._recorded[run] = rundir
        failpoint("campaign.settled")
        return True

    def _keep_outputs(self, run: str, rundir: RunDir) -> None:
        """Keep what a run wrote in its worktree here; trouble with it loses no result, as its row is written."""
        slot = self._pool.here(run)
        try:
            if slot is not None:
                outputs.gather(self._context, rundir, slot, result_dir=read_run(rundir).result_dir)
            outputs.make_room(self._context)
        except (AutoresearchError, OSError) as error:
            self._context.say(f"{run}: its outputs were not kept: {error}")

    def keep_left_outputs(self) -> None:
        """After a crash: the same for runs that an earlier controller recorded, before their worktrees are reused."""
        with contextlib.suppress(AutoresearchError, OSError):
            outputs.gather_left(self._context, self._pool.slots)

    def close(self, run: str) -> None:
        """Close the session of a recorded run: it is reported now."""
        rundir = self._recorded.pop(run)
        with contextlib.suppress(AutoresearchError, OSError):
            close_session(rundir, self._context.parts)

    def drop(self) -> None:
        """Before memory is thrown away after trouble: cancel the prepared run."""
        if self._ready is not None:
            with contextlib.suppress(AutoresearchError, OSError):
                self._ready.prepared.withdraw()

    def remove_worktrees(self) -> None:
        """Remove the worktrees after the campaign has ended; its branches stay."""
        self._pool.remove()
