"""The runs of a campaign under control: the live ones, the prepared one, and those that were recorded just now."""

from __future__ import annotations

import contextlib
import functools
import gc
from dataclasses import asdict, replace
from pathlib import Path

from autoresearch.core.campaign.state import IdeaRun
from autoresearch.core.controller.next_actions import ReadyRun
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import outputs, recovery
from autoresearch.lab.campaigns.context import CampaignContext, is_trouble, stop_run
from autoresearch.lab.campaigns.slots import SlotPool
from autoresearch.lab.ideas.idea_run import Ready, SharedOutputError, get_ready
from autoresearch.lab.launch.launch import start
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.results.collected import charged
from autoresearch.lab.runs.run_status import Watcher
from autoresearch.lab.runs.sessions import close_session
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import LOG_ONLY
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint


class LiveRuns:
    """Starts, watches and records runs; what it holds in memory is recovered from the run directories after a kill."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self.pool = SlotPool(context.spec, context.builder.checkout, context.parts.environ)  # where they run
        self.live: dict[str, RunDir] = {}  # started and watched, by ID; only this class writes it
        self._ready: Ready | None = None  # the prepared run that starts next
        self._stuck: dict[str, str] = {}  # runs that are over and cannot be recorded now, and why
        self.conflicting: frozenset[str] = frozenset()  # live when the next run could not be prepared for one of them

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def ready(self) -> ReadyRun | None:
        """The prepared run."""
        return ReadyRun(self._ready.run.run, self._ready.request) if self._ready else None

    def over(self) -> tuple[str, ...]:
        """The live runs that ended, in the order of their ends: a row is judged by what was known at its time."""

        def end_time(run: str) -> float:
            try:
                return self.live[run].exit_record.stat().st_mtime
            except OSError:
                return float("inf")

        return tuple(sorted((run for run, rundir in self.live.items() if not rundir.state().lives), key=end_time))

    @property
    def may_look_again(self) -> bool:
        """Whether something can only be found out by looking: stuck records, or GPUs that others were using."""
        return bool(self._stuck) or self.pool.may_ask_again

    def watcher(self) -> Watcher:
        """Wakes when something happens to a live run."""
        return Watcher(list(self.live.values()))

    def any_over(self) -> bool:
        """Whether a run ended that was not tried to be recorded yet."""
        return any(not rundir.state().lives for run, rundir in self.live.items() if run not in self._stuck)

    # -- the next run --------------------------------------------------------------------------------------------

    def prepare(self, run_request: RunRequest) -> None:
        """Prepare a run, to be started when there is room; an idea that cannot be made or run gets a row that says why.

        Raises the error if the machine failed, which says nothing of the idea.
        """
        context, hypothesis = self._context, run_request.idea.hypothesis
        if hypothesis.unmade:
            record_unmade(context, run_request, hypothesis.why_unmade, failure=hypothesis.unmade)
            return
        slot = self.pool.spare()
        assert slot is not None
        try:
            ready = get_ready(context.builder, run_request, slot, context.parts, self.pool.busy(self.live))
        except SharedOutputError as error:  # its turn comes when that run is over
            self.conflicting = frozenset(self.live)
            context.say(f"{run_request.idea.name} waits: {error.message}")
            return
        except (AutoresearchError, OSError) as error:
            if is_trouble(error):
                raise
            record_unmade(context, run_request, str(error))
            return
        self._ready = ready
        self.pool.take(ready.slot, ready.run.run)
        failpoint("campaign.prepared")
        note_prepared(context, run_request, ready.run)
        failpoint("campaign.waits")
        spare_garbage_collection()

    def launch(self) -> bool:
        """Start the prepared run; False if no target has room for it."""
        ready, run_slot = self._ready, self.pool.assign(self.live)
        if ready is None or run_slot is None:
            return False
        self._ready = None
        context, run, target = self._context, ready.run.run, run_slot.target
        rundir, request = ready.resolved.directory, ready.request
        # its story goes into the experiment log; that of the crashed run is put aside
        story = context.state.research.fix_story.get(request.idea.index, ()) if request.why == "fix" else ()
        try:
            start(
                ready.resolved,
                run_slot.gpus,
                shares=context.spec.runs_per_gpu,
                target=target,
                deadline=context.state.spec.rules.deadline,
                remarks=(*ready.remarks, *story),
            )
        except (AutoresearchError, OSError) as error:
            if not rundir.spec.exists():  # not even its directories could be claimed
                context.note("withdrawn", run=run)
                self.pool.free(run)
                if is_trouble(error):
                    raise
                record_unmade(context, request, str(error))
                return True
            context.say(f"{run}: {error}")
        failpoint("campaign.gone")
        context.note("started", run=run)
        self.live[run] = rundir
        self.pool.take(ready.slot, run, run_slot)
        idea, why = request.idea, request.why
        where = "" if target.is_local else f" at {target.name}"
        context.say(f"{LOG_ONLY}{idea.name}: {why} run {ready.run.replicate} started on {idea.branch}{where}")
        return True

    def withdraw(self) -> None:
        """Forget the prepared run, if there is one; its branch stays."""
        if (ready := self._ready) is not None:
            self._ready = None
            self._context.note("withdrawn", run=ready.run.run)
            self.pool.free(ready.run.run)

    # -- runs that were started ----------------------------------------------------------------------------------

    def watch(self, run: str, run_dir: str) -> None:
        """Look after a run that an earlier controller started."""
        self.live[run] = rundir = RunDir(Path(run_dir))
        with contextlib.suppress(AutoresearchError, OSError):  # its directory was removed: it will be recorded as lost
            self.pool.occupied(rundir.path, run)

    def stop(self, run: str, reason: str, *, again: bool) -> None:
        """Ask a live run to end now; `again`: only if it was not asked before, and as far as that is possible."""
        if (rundir := self.live.get(run)) is None or (again and rundir.stop.exists()):
            return
        try:
            stop_run(rundir, reason)
        except (AutoresearchError, OSError):
            if not again:
                raise

    def record(self, run: str) -> bool:
        """Write the records of a run that is over, and free its slot; False if they cannot be written now."""
        context, rundir = self._context, self.live[run]
        try:
            recovery.record(context, run, rundir)
        except (AutoresearchError, OSError) as error:  # a full disk: it is tried again later
            if self._stuck.get(run) != str(error):
                context.say(f"{run}: its records cannot be written now: {error}")
            self._stuck[run] = str(error)
            return False
        failpoint("campaign.recorded")
        self._stuck.pop(run, None)
        slot = self.pool.taken.get(run)  # of a run on a host that shares no files: with what was copied back
        try:  # no result is lost by trouble with it: its row is written
            if slot is not None and outputs.gather(context, rundir, slot):
                outputs.make_room(context)
        except (AutoresearchError, OSError) as error:
            context.say(f"{run}: its outputs were not kept: {error}")
        del self.live[run]
        self.pool.free(run)
        with contextlib.suppress(AutoresearchError, OSError):
            close_session(rundir, context.parts)
        failpoint("campaign.settled")
        return True

    def keep_left_outputs(self) -> None:
        """After a crash: keep the outputs of runs that were recorded, before their worktrees are reused."""
        with contextlib.suppress(AutoresearchError, OSError):
            outputs.gather_left(self._context, self.pool.slots)
            outputs.make_room(self._context)


# -- what is recorded of the next run when it is prepared, or when it cannot be made ----------------------------------


def note_prepared(context: CampaignContext, run_request: RunRequest, idea_run: IdeaRun) -> None:
    """Record a prepared run."""
    state, why = context.state, run_request.why
    ongoing = state.open_round if why == "confirm" else None
    turns: tuple[str, ...] = ()  # of the agent, that led to this run: its row is charged with them
    if why == "fix":
        turns = state.research.fix_turns.get(run_request.idea.index, ())
    elif not run_request.idea.runs:
        turns = run_request.idea.hypothesis.turns
    fields = asdict(replace(idea_run, round=ongoing.number if ongoing else 0, turns=turns))
    del fields["started"]  # which another line says
    context.note("prepared", index=run_request.idea.index, **fields)


def record_unmade(context: CampaignContext, run_request: RunRequest, reason: str, *, failure: str = "") -> None:
    """Record a run that could not be made. It is an attempt as any other: it has a row, which says why.

    failure: of the coding agent, which could not make the idea; "" if the launch failed.
    """
    name = f"{run_request.experiment}-{run_request.why}-unmade-{new_token()}"
    run = IdeaRun(name, str(context.campaign_dir.path / name), run_request.replicate, run_request.why)
    note_prepared(context, run_request, run)
    text = reason if failure else f"could not be launched: {reason}"
    row = progress.unmade_row(context.builder, run_request.idea, run, text, context.parts.clock())
    row = replace(row, failure=failure or row.failure)
    campaign_records.append_row(context.campaign_dir, charged(row, context.state))
    failpoint("campaign.unmade")  # the row first: a started run without a row is taken for a lost one
    context.note("started", run=run.run)
    context.say(f"{run_request.idea.name}: {'not tried' if failure else 'could not be started'}: {reason}")


@functools.cache
def spare_garbage_collection() -> None:
    """Keep thousands of ideas out of garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700)  # a command that is soon over collects later (`cli.main`): here that is memory
