"""The controller: asks `next_actions` what to do, does it, and sleeps until something happens.

Its state is derived entirely from the record and the run directories, so it may be killed at any
instruction: `campaign resume` starts another controller, which picks up live runs and records those that ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable

from autoresearch.core.controller import actions
from autoresearch.core.controller.actions import ControllerAction, Do
from autoresearch.core.controller.next_actions import Machine, next_actions, report, resume_actions, waits_for
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.agent_work.agent_worker import AgentWorker
from autoresearch.lab.campaign_setup.start_campaign import continue_with
from autoresearch.lab.campaigns import recovery, seeds_and_rounds
from autoresearch.lab.campaigns.context import CampaignContext, is_full, is_trouble
from autoresearch.lab.campaigns.finish import Documents, finish
from autoresearch.lab.campaigns.live_runs import LiveRuns
from autoresearch.lab.campaigns.screening import Screen
from autoresearch.lab.ideas.idea_commit import begin_ablation, merge_tip
from autoresearch.lab.ideas.idea_sources import IdeaSources, repair_idea
from autoresearch.lab.notices.campaign_notices import CampaignNotifier
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import detached
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import read_json, write_json

LOOK_S = 1.0  # between checks for requests; everything else wakes the controller
BUSY_LOOK_S = 0.03  # between checks whether a coding agent is done
PATIENCE_S = 15.0  # until everything is looked at again, for what wakes nobody: a directory that was removed
NAP_S = 3.0  # after trouble with the machine
MOST_TRIES = 3  # after trouble, before the campaign is paused
_GO_ON = ("set", "confirm")  # the requests that make one that has ended go on


class Controller:
    """The loop of one campaign; make it while holding `campaign_dir.lock`. Only it carries out actions."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        self._context = CampaignContext.open(campaign_dir, parts, say)
        self._screen = Screen(self._context.spec, say)
        self._agent = AgentWorker(self._context)
        self._runs = LiveRuns(self._context)
        self._sources = IdeaSources(self._context)
        self._documents = Documents(self._context)
        self._notifier = CampaignNotifier(campaign_dir, parts)
        self._dry = False  # the proposers had no idea when they were last asked
        self._tried: set[ControllerAction] = set()  # what came to nothing since something last happened
        self._seen = 0  # bytes of the record when the requests were last looked for
        self._healthy = False  # it has slept since the last trouble
        self._ended = False
        self._look_now: list[Callable[[], None]] = []  # has runs at other targets looked at

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry the campaign out, while a thread for each other target looks at the runs there."""
        with contextlib.ExitStack() as threads:
            for target in self._runs.pool.targets:
                if not target.is_local:
                    self._look_now.append(threads.enter_context(self._kept_fresh(target)))
            self._loop()

    def _kept_fresh(self, target: Target) -> contextlib.AbstractContextManager[Callable[[], None]]:
        from autoresearch.lab.remote.refresh import kept_fresh

        return kept_fresh(lambda: self._runs.pool.at(target, self._runs.live), self._context.parts)

    def _loop(self) -> None:
        """Run until a stop rule is met and everything is recorded, or the campaign is paused and nothing of it runs.

        Trouble with the machine is handled like a crash: all state that is not on disk is dropped, and recovered as
        after any crash. A full disk is waited for; other trouble that repeats pauses the campaign.
        """
        tried = 0
        while True:
            try:
                self._recover()
                while not self._ended:
                    self._carry_out(next_actions(self._context.state, self._machine()))
                return
            except (AutoresearchError, OSError) as error:
                tried = 0 if self._healthy else tried + 1
                if not is_trouble(error):
                    self._context.say(f"the controller ends: {error}")
                    raise
                if is_full(error):
                    self._notifier.full_disk(self._context.spec, str(error))
                    if tried < 2:  # it may last for hours
                        self._context.say(f"a disk is full ({error}): it goes on by itself when there is space")
                else:
                    self._context.say(str(error))
                self._forget()
                if tried >= MOST_TRIES and not is_full(error):
                    with contextlib.suppress(AutoresearchError, OSError):
                        self._carry_out((*actions.pause(self._context.state, str(error)), Do.LEAVE))
                        return
                time.sleep(NAP_S)

    def close_pane(self) -> None:
        """After the end: close the tmux session that this process runs in; it survives that if it ignores SIGHUP."""
        context = self._context
        with contextlib.suppress(AutoresearchError, OSError):  # a pane that stays closes a day later
            detached.close_sessions(context.campaign_dir.path, context.parts, context.spec.tmux_socket)

    def _recover(self) -> None:
        """Bring everything in memory up to what is on disk, and say that this controller is ready."""
        self._sources.open()
        self._carry_out(recovery.recover(self._context))
        self._runs.keep_left_outputs()
        self._carry_out(resume_actions(self._context.state, self._machine()))
        recovery.close_panes(self._context)
        self._say_of_itself(ready=True)

    def _say_of_itself(self, **facts: object) -> None:
        """Record what commands ask of the controller that lives."""
        record = self._context.campaign_dir.controller
        identity = read_json(record) or {"pid": os.getpid(), "started": time.time()}  # it may have been removed
        if not identity.items() >= facts.items():
            write_json(record, {**identity, **facts}, durable=False)

    def _forget(self) -> None:
        """Drop what is not on disk."""
        self._runs, self._sources = LiveRuns(self._context), IdeaSources(self._context)
        self._dry, self._healthy = False, False
        self._tried.clear()

    def _machine(self) -> Machine:
        state, self._seen = self._context.state, self._context.history.size
        return Machine(
            now=self._context.parts.clock(),
            live=tuple(self._runs.live),
            over=self._runs.over(),
            requests=tuple(one for one in state.requested if one["seq"] > state.requests),
            ready=self._runs.ready,
            spare_worktree=self._runs.pool.spare() is not None,
            conflicting=self._runs.conflicting,
            dry=self._dry,
            agent_due=self._agent.due(state),
            tried=frozenset(self._tried),
        )

    # -- carrying out -------------------------------------------------------------------------------------------

    def _carry_out(self, due: Iterable[ControllerAction]) -> None:
        for controller_action in due:
            if self._apply(controller_action):
                self._tried.clear()
            else:
                self._tried.add(controller_action)

    def _apply(self, controller_action: ControllerAction) -> bool:
        """Carry out an action; False if it came to nothing, so that it is not tried again at once."""
        context, runs, agent = self._context, self._runs, self._agent
        match controller_action:
            case actions.Say(text):
                context.say(text)
            case actions.Note(do, fields):
                context.note(do, **fields)
            case Do.CHECK_SEEDS:
                found = seeds_and_rounds.check_baseline_seeds(context.state)
                self._carry_out(found)
                return bool(found)
            case Do.JUDGE_ROUND:
                self._carry_out(seeds_and_rounds.judge_open_round(context.state))
            case actions.RepairIdea(index, entry, note):
                self._carry_out(repair_idea(context.builder, context.idea(index), entry, note))
            case Do.CHECK_QUEUES:
                return self._sources.check_queues()
            case Do.MERGE_TIP:
                merge_tip(context)
            case actions.BeginAblation(index, edits):
                return begin_ablation(context, context.idea(index), [context.idea(edit) for edit in edits])
            case actions.NewIdea(baseline=True):
                self._sources.commit_baseline()
            case actions.NewIdea():
                proposed = self._sources.propose()
                self._dry = proposed is None
                return bool(proposed)
            case actions.WatchRun(run, run_dir):
                runs.watch(run, run_dir)
            case actions.StopRun(run, reason, again):
                runs.stop(run, reason, again=again)
                self._wake()
            case actions.RecordRun(run):
                if not runs.record(run):
                    return False
                self._carry_out(report(context.state, run, context.parts.clock()))
                self._carry_out(seeds_and_rounds.note_if_equal(context.state, run))
            case actions.PrepareRun(request):
                runs.prepare(request)
            case Do.LAUNCH_RUN:
                launched = runs.launch()
                self._wake()
                return launched
            case Do.WITHDRAW_RUN:
                runs.withdraw()
            case actions.StepAgent(job):
                self._carry_out(agent.step(job))
            case actions.StopAgent(job):
                return agent.stop(job)
            case actions.Finish(reason):
                finish(context, reason, runs, self._sources, agent, self._notifier)
                self._ended = not any(one["do"] in _GO_ON for one in self._machine().requests)
                if not self._ended:  # it was asked for while the report was written
                    continue_with(context.campaign_dir, {})
                    self._forget()
                    self._recover()
            case Do.LEAVE:
                self._leave()
            case Do.SLEEP:
                self._healthy = True
                self._documents.look()
                self._notifier.look(context.state)
                self._say_of_itself(waits_for=waits_for(context.state, self._machine()))
                self._sleep()
        return True

    def _wake(self) -> None:
        """Have what is new brought to other targets at once."""
        for look_now in self._look_now:
            look_now()

    def _leave(self) -> None:
        """End while the campaign is paused: `campaign resume` starts another controller."""
        context = self._context
        self._runs.withdraw()
        context.write_documents()
        self._notifier.look(context.state)
        self._ended = True

    # -- waiting ------------------------------------------------------------------------------------------------

    def _sleep(self) -> None:
        """Wait until something happens to a run, or somebody may have requested something."""
        runs, agent, state = self._runs, self._agent, self._context.state
        watcher = runs.watcher()
        # What came before the watcher was set wakes nobody: look once more.
        self._screen.look(self._context.history, runs.live)
        awake = runs.any_over()
        until = time.monotonic() + self._documents.due_in(PATIENCE_S)
        while not awake and self._recorded() == self._seen and time.monotonic() < until:
            working = bool(state.research.jobs)
            woken = bool(agent.due(state)) or watcher.wait(BUSY_LOOK_S if working else LOOK_S)
            if woken or not (runs.live or working) or runs.may_look_again:
                return

    def _recorded(self) -> int:
        try:
            return os.stat(self._context.campaign_dir.events).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0
