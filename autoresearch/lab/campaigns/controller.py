"""The controller: asks `next_actions` what to do, does it, and sleeps until something happens.

Its state is derived entirely from the journal, the ledger and the run directories, so it may be killed at any
instruction: `campaign resume` starts another controller, which picks up live runs and records those that ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autoresearch.core.controller import actions
from autoresearch.core.controller.actions import Action
from autoresearch.core.controller.machine import Machine
from autoresearch.core.controller.next_actions import next_actions, resume_actions
from autoresearch.errors import AutoresearchError
from autoresearch.lab.agent_work.agent_worker import AgentWorker
from autoresearch.lab.campaigns import prepare_next, recovery, seed_curves
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.finish import finish
from autoresearch.lab.campaigns.live_runs import LiveRuns
from autoresearch.lab.campaigns.pruner import Pruner
from autoresearch.lab.campaigns.trouble import is_full, is_trouble
from autoresearch.lab.ideas import new_ideas
from autoresearch.lab.ideas.idea_sources import IdeaSources
from autoresearch.lab.notices.campaign_notices import CampaignNotifier
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import detached
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import read_json, write_json

LOOK_S = 1.0  # between checks for requests; everything else wakes the controller
BUSY_LOOK_S = 0.03  # between checks whether the coding agent is done
PATIENCE_S = 15.0  # until everything is looked at again, for what wakes nobody: a directory that was removed
NAP_S = 3.0  # after trouble with the machine
MOST_TRIES = 3  # after trouble, before the campaign is paused


class Controller:
    """The loop of one campaign; make it while holding `campaign_dir.lock`. Only it carries out actions."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        self._context = CampaignContext.open(campaign_dir, parts, say)
        self._pruner = Pruner(self._context.spec, say)
        self._agent = AgentWorker(self._context)
        self._runs = LiveRuns(self._context)
        self._sources = IdeaSources(self._context)
        self._notifier = CampaignNotifier(campaign_dir, parts)
        self._dry = False  # the proposers had no idea when they were last asked
        self._tried: set[Action] = set()  # what came to nothing since something last happened
        self._requests_read = 0  # size of the requests' file when the last one of them was carried out, in bytes
        self._healthy = False  # it has slept since the last trouble
        self._ended = False

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until a stop rule is met and everything is recorded.

        Trouble with the machine is handled like a crash: all state that is not on disk is dropped, and recovered as
        after any crash. A full disk is waited for; other trouble that repeats pauses the campaign.
        """
        tried = 0
        while True:
            try:
                self._run()
                return
            except (AutoresearchError, OSError) as error:
                tried = 0 if self._healthy else tried + 1
                if not is_trouble(error):
                    self._context.say(f"the controller ends: {error}")
                    raise
                self._context.say(str(error))
                if is_full(error):
                    self._notifier.full_disk(self._context.spec, str(error))
                self._drop_memory()
                if tried >= MOST_TRIES and not is_full(error):
                    with contextlib.suppress(AutoresearchError, OSError):
                        self._carry_out(actions.pause(self._context.state, str(error)))
                time.sleep(NAP_S)

    def close_pane(self) -> None:
        """After the end: close the tmux session that this process runs in; it survives that if it ignores SIGHUP."""
        context = self._context
        with contextlib.suppress(AutoresearchError, OSError):  # `autoresearch clean` closes what stays
            detached.close_sessions(context.campaign_dir.path, context.parts.launcher(context.spec.tmux_socket))

    def _run(self) -> None:
        self._sources.open()
        self._carry_out(recovery.recover(self._context))
        self._runs.keep_left_outputs()
        self._carry_out(resume_actions(self._context.state, self._machine()))
        recovery.close_panes(self._context.campaign_dir, self._context.spec.tmux_socket, self._context.parts)
        self._agent.recover()
        self._sources.reconcile(self._context.state)
        record = self._context.campaign_dir.controller
        identity = read_json(record) or {"pid": os.getpid(), "started": time.time()}  # it may have been removed
        write_json(record, {**identity, "ready": True}, durable=False)
        while not self._ended:
            self._carry_out(next_actions(self._context.state, self._machine()))

    def _drop_memory(self) -> None:
        """Forget what is not on disk."""
        self._runs.drop()
        self._sources.close()
        self._agent.close()
        self._runs, self._sources = LiveRuns(self._context), IdeaSources(self._context)
        self._dry, self._healthy = False, False
        self._tried.clear()

    def _machine(self) -> Machine:
        return Machine(
            now=self._context.parts.clock(),
            live=tuple(self._runs.live),
            over=self._runs.over(),
            recorded=self._runs.recorded,
            requests=self._unread_requests(),
            ready=self._runs.ready,
            spare_worktree=self._runs.spare_worktree,
            conflicting=self._runs.conflicting,
            dry=self._dry,
            agent=self._agent.status,
            tried=frozenset(self._tried),
        )

    def _unread_requests(self) -> tuple[Mapping[str, Any], ...]:
        size = self._requested()
        if size == self._requests_read:
            return ()
        unread = tuple(campaign_records.entries(self._context.campaign_dir.requests, self._context.state.requests))
        if not unread:
            self._requests_read = size
        return unread

    # -- carrying out -------------------------------------------------------------------------------------------

    def _carry_out(self, due: Iterable[Action]) -> None:
        for action in due:
            if self._apply(action):
                self._tried.clear()
            else:
                self._tried.add(action)

    def _apply(self, action: Action) -> bool:
        """Carry out an action; False if it came to nothing, so that it is not tried again at once."""
        context = self._context
        match action:
            case actions.Say(text):
                context.say(text)
            case actions.Note(do, fields):
                context.note(do, **fields)
            case actions.RecordVerdict(do, fields):
                campaign_records.add(context.campaign_dir.verdicts, do, **fields)
            case actions.WriteDocuments():
                context.write_documents()
            case actions.CheckSeeds():
                return self._check_seeds()
            case actions.JudgeRound():
                self._carry_out(seed_curves.judge_open_round(context.state))
            case actions.RepairIdea(index, entry, note):
                idea = next(one for one in context.state.ideas if one.index == index)
                self._carry_out(new_ideas.repair_idea(context.builder, idea, entry, note))
            case actions.CheckQueues():
                return new_ideas.check_queues(context, self._sources)
            case actions.NewIdea(baseline):
                return self._new_idea(baseline=baseline)
            case actions.Finish(reason):
                finish(context, reason, self._runs, self._sources, self._agent, self._notifier)
                self._ended = True
            case actions.Sleep():
                self._runs.attend_followers()
                self._healthy = True
                self._notifier.look(context.state)
                self._sleep()
            case actions.CollectAgent() | actions.StartAgent() | actions.SuspendAgent() | actions.ReadmitAgent():
                self._apply_to_agent(action)
            case _:
                return self._apply_to_run(action)
        return True

    def _apply_to_run(self, action: Action) -> bool:
        match action:
            case actions.WatchRun(run, run_dir):
                self._runs.watch(run, run_dir)
            case actions.StopRun(run, reason, again):
                self._runs.stop(run, reason, again=again)
            case actions.RecordRun(run):
                return self._runs.record(run)
            case actions.ReportRun():
                self._report(action.run, action.index if action.decided else None, action.lines)
            case actions.PrepareRun(request):
                self._runs.prepare(request)
            case actions.RecordUnmade(request):
                prepare_next.record_hypothesis_unmade(self._context, request)
            case actions.LaunchRun():
                return self._runs.launch()
            case actions.WithdrawRun():
                self._runs.withdraw()
        return True

    def _apply_to_agent(self, action: Action) -> None:
        match action:
            case actions.CollectAgent():
                self._carry_out(self._agent.collect())
            case actions.StartAgent(job):
                self._agent.start(job)
            case actions.SuspendAgent(why):
                self._agent.suspend(why)
            case actions.ReadmitAgent():
                self._agent.readmit()

    def _check_seeds(self) -> bool:
        found = seed_curves.check_baseline_seeds(self._context.state)
        if not found:
            return False
        self._carry_out(found)
        self._context.write_documents()
        return True

    def _report(self, run: str, decided: int | None, lines: Sequence[str]) -> None:
        """Print the result of a run, and inform the proposer if its idea (`decided` is its index) is decided."""
        self._runs.close(run)
        if decided is not None:
            idea = next(one for one in self._context.state.ideas if one.index == decided)
            self._sources.tell(idea.attempt())
        for line in lines:
            self._context.say(line)

    def _new_idea(self, *, baseline: bool) -> bool:
        if baseline:
            new_ideas.commit_baseline(self._context, self._sources)
            return True
        found = new_ideas.propose(self._context, self._sources)
        self._dry = found.dry
        return found.idea

    # -- waiting ------------------------------------------------------------------------------------------------

    def _sleep(self) -> None:
        """Wait until something happens to a run, or somebody may have requested something."""
        runs, agent = self._runs, self._agent
        with runs.watcher() as watcher:
            # What came before the watcher was set wakes nobody: look once more.
            self._pruner.look(self._context.history, runs.live)
            awake = runs.any_over() or agent.status.done
            until = time.monotonic() + PATIENCE_S
            while not awake and self._requested() == self._requests_read and time.monotonic() < until:
                working = agent.status.busy
                woken = watcher.wait(BUSY_LOOK_S if working else LOOK_S) or agent.status.done
                if woken or not (runs.live or working) or runs.may_look_again:
                    return

    def _requested(self) -> int:
        try:
            return os.stat(self._context.campaign_dir.requests).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0
