"""The controller: one loop that starts runs, records them when they end, and stops when a stop rule is met.

Its state is derived entirely from the journal, the ledger and the run directories, so it may be killed at any
instruction: `campaign resume` starts another controller, which picks up live runs and records those that ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError
from autoresearch.lab.agent_work.agent_worker import AgentWorker
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import confirmation_rounds, recovery, requests, scheduler, seed_check
from autoresearch.lab.campaigns.control import CampaignControl
from autoresearch.lab.campaigns.idea_run import Ready, RunRequest
from autoresearch.lab.campaigns.prepare_next import RunPreparer
from autoresearch.lab.campaigns.pruner import Pruner
from autoresearch.lab.campaigns.trouble import is_full, is_trouble
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.sessions import close_session
from autoresearch.lab.runs.watch import Watcher
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import RunDir, read_json, write_json

LOOK_S = 1.0  # requests are looked for this often; everything else wakes
BUSY_LOOK_S = 0.03  # ... and whether the researcher is done
PATIENCE_S = 15.0  # ... and at everything again, for what tells nobody: a directory that was removed
NAP_S = 3.0  # after trouble with the machine
MOST_TRIES = 3  # ... before the campaign is paused


class Controller:
    """The loop of one campaign; make it while holding `campaign_dir.lock`."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        self.say = say
        self.control = CampaignControl(campaign_dir, parts, say)
        self.preparer = RunPreparer(self.control)
        self.pruner = Pruner(self.control.spec, say)
        self.research = AgentWorker(self.control)
        self.healthy = False  # it got through the loop since the last trouble
        self.stuck: dict[str, str] = {}  # runs that are over and cannot be recorded now, and why
        self._requests_read = 0  # bytes of requests at the last look

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
                tried = 0 if self.healthy else tried + 1
                if not is_trouble(error):
                    self.say(f"the controller ends: {error}")
                    raise
                self.say(str(error))
                self._let_go()
                if tried >= MOST_TRIES and not is_full(error):
                    with contextlib.suppress(AutoresearchError, OSError):
                        self.control.pause(self.control.history.state(), str(error))
                time.sleep(NAP_S)

    def _run(self) -> None:
        self.control.sources.open()
        recovery.recover(self.control)
        self.research.recover()
        self.control.sources.reconcile(scheduler.attempts(self.control.history.state()))
        controller = self.control.campaign_dir.controller
        write_json(controller, {**(read_json(controller) or {}), "ready": True}, durable=False)
        while True:
            state = self.take_requests()
            state = self.research.look(seed_check.look(self.control, self.settle(state)))
            if self.is_over(state):
                break
            self.control.look_at_queues(state)
            self.fill(state)
            self.preparer.prepare_ahead()
            self.control.pool.attend(self.control.live, self.control.parts)
            self.research.look(self.control.history.state())  # what was handed out makes room for the next
            self.healthy = True
            self.sleep()
        self.finish()

    def _let_go(self) -> None:
        """Forget what is not written down."""
        self.control.let_go()
        self.research.close()
        self.healthy = False

    def take_requests(self) -> CampaignState:
        """Carry out the requests made since the last check."""
        self._requests_read = self._requested()
        state = self.control.history.state()
        for request in campaign_records.entries(self.control.campaign_dir.requests, state.requests):
            requests.obey(self.control, state, request)
            if request.get("do") == "resume":
                self.research.readmit()
            self.control.note("request", upto=request["seq"])
            state = self.control.history.state()
        return state

    def settle(self, state: CampaignState) -> CampaignState:
        """Record every run that is over; then inform its proposer and print the result."""
        for _, one in state.live:
            if one.run not in self.control.live:  # somebody took its row out of the ledger: it gets it again
                recovery.take_up(self.control, one)
        over = recovery.by_end((run, rundir) for run, rundir in self.control.live.items() if rundir.state() in _OVER)
        if not over:
            return state
        recovery.restore_spec(self.control.campaign_dir, self.control.history.spec)
        for run, rundir in over:
            try:
                recovery.record(state, run, rundir, self.control.builder, self.control.parts)
            except (AutoresearchError, OSError) as error:  # a full disk: the next look tries again
                if self.stuck.get(run) != str(error):
                    self.say(f"{run}: its records cannot be written now: {error}")
                self.stuck[run] = str(error)
                continue
            failpoint("campaign.recorded")
            self.stuck.pop(run, None)
            self.control.forget(run)
            failpoint("campaign.settled")
        state = self.control.history.state()
        self._launch_ready(state)  # before anything that can wait
        for run, rundir in over:
            if run not in self.control.live:
                self._after(self.control.history.state(), run, rundir)
                failpoint("campaign.told")
        return self.control.history.state()

    def _after(self, state: CampaignState, run: str, rundir: RunDir) -> None:
        idea = next(i for i in state.ideas if run in {r.run for r in i.runs})
        with contextlib.suppress(AutoresearchError, OSError):
            close_session(rundir, self.control.parts)
        if scheduler.decided(state, idea):
            self.control.sources.tell(idea.attempt())
        self.say(progress.row_line(state, idea, run))
        if not state.open_round:  # a proof comes after the last idea: nothing stands otherwise than before
            self.say(self.control.stand(state).sentence + progress.eta(state))
        self.control.look_for_reasons(state)
        progress.write_documents(self.control.campaign_dir, self.control.history.state(), self.control.stand(state))

    # -- beginning ----------------------------------------------------------------------------------------------

    def fill(self, state: CampaignState) -> None:
        """Start runs in every free slot."""
        while len(self.control.live) < state.spec.parallel:
            if not self._launch_ready(state):
                self.preparer.prepare_ahead()
                if not self._launch_ready(self.control.history.state()):
                    return
            state = self.control.history.state()

    def _launch_ready(self, state: CampaignState) -> bool:
        """Start the prepared run if it may start and there is room; whether it was started."""
        ready = self.control.ready
        if ready is None or len(self.control.live) >= state.spec.parallel:
            return False
        if not self.control.may_begin(state, ready.request):
            return False
        if (slot := self.control.pool.assign(self.control.live)) is None:
            return False
        if self._stale(state, ready):
            self.control.withdraw_ready()
            return False
        self.control.take_ready()
        try:
            ready.prepared.go(slot.gpus, shares=self.control.spec.runs_per_gpu, target=slot.target)
        except (AutoresearchError, OSError) as error:
            self.say(f"{ready.run.run}: {error}")
        failpoint("campaign.gone")
        self.control.note("started", run=ready.run.run)
        self.control.watch(ready.run.run, ready.prepared.rundir)
        self.control.pool.take(ready.slot, ready.run.run, slot)
        idea, why = ready.request.idea, ready.request.why
        where = "" if slot.target.is_local else f" at {slot.target.name}"
        self.say(f"{idea.slug}: {why} run {ready.run.replicate} started on {idea.branch}{where}")
        return True

    def _stale(self, state: CampaignState, ready: Ready) -> bool:
        """Whether a run that just ended makes the prepared run pointless."""
        if ready.request.why == "retest":
            owed = scheduler.owed(scheduler.without(state, ready.run.run))
            return owed is None or owed.idea.index != ready.request.idea.index
        return ready.request.idea.slug in state.unwanted

    # -- ending -------------------------------------------------------------------------------------------------

    def is_over(self, state: CampaignState) -> bool:
        """Whether nothing is left to do, including confirmation."""
        if state.stop_mode == "stop":
            return not self.control.live
        if self.control.live:
            return False
        if state.stop_mode == "drain":
            return True
        if state.phase is CampaignPhase.PAUSED:
            return self._past_deadline(state)
        if confirmation_rounds.round_is_over(state):
            for sentence in confirmation_rounds.judge_round(state, self.control.campaign_dir):
                self.say(sentence)
            return self.is_over(self.control.history.state())
        if state.open_round:
            request = confirmation_rounds.owed_to_round(state)
            return request is not None and not self.control.may_begin(state, request) and self._too_late(state)
        found = self.control.stand(state)
        if not found.met:
            self._wait_if_dry(state)
            return False
        owed = scheduler.owed(state)
        if owed is not None and self.control.may_begin(state, owed):
            return False
        if self.research.mending(state):
            return False
        return not self._confirming(state)

    def _past_deadline(self, state: CampaignState) -> bool:
        deadline = state.spec.rules.deadline
        return deadline is not None and self.control.parts.clock() >= deadline

    def _too_late(self, state: CampaignState) -> bool:
        self.say("not confirmed: too little time is left")
        return True

    def _confirming(self, state: CampaignState) -> bool:
        """Start a confirmation round if an improvement can be claimed and there is time; returns whether it did."""
        spent = len(state.rounds) >= confirmation_rounds.MOST_ROUNDS
        if not state.spec.confirm or spent or state.spec.rules.count == 0:
            return False
        planned, why = confirmation_rounds.plan_round(state)
        if planned is None:
            if not state.rounds:
                self.say(f"no confirmation: {why}")
            return False
        best = state.best
        assert best is not None
        if not self.control.may_begin(state, RunRequest(best, 0, "confirm")):
            return not self._too_late(state)
        self.control.begin_round(planned.number, planned.candidates, planned.each, planned.baseline)
        self.say(f"confirming {best.slug}: {why}")
        return True

    def _wait_if_dry(self, state: CampaignState) -> None:
        idle = self.preparer.dry and self.control.ready is None and not self.control.live
        idle = idle and scheduler.owed(state) is None
        idle = idle and not self.research.hopeful(state)
        if idle and state.phase in (CampaignPhase.RUNNING, CampaignPhase.WAITING):
            why = self.research.why_dry(state)
            if (state.phase, state.reason) != (CampaignPhase.WAITING, why):
                self.control.set_phase(state, CampaignPhase.WAITING, why)
                self.say(f"{self.control.stand(state).sentence}, {why}; add ideas: {progress.add_line(state)}")
        elif not idle and state.phase is CampaignPhase.WAITING:
            self.control.set_phase(state, CampaignPhase.RUNNING)

    def finish(self) -> None:
        """The last word: documents, the campaign's own finish.flag, the end in the journal."""
        recovery.restore_ledger(self.control)
        self.control.withdraw_ready()
        state = self.control.history.state()
        found = self.control.stand(state)
        why = {"stop": "stopped on request", "drain": "drained on request"}.get(state.stop_mode, found.sentence)
        end = {"t": self.control.parts.clock(), "do": "state", "state": CampaignPhase.ENDED.value, "reason": why}
        for token, findings in self.control.sources.faults(state).items():
            self.preparer.never_tried(state, token, findings)
        self.research.summarise(state)
        self.research.close()
        state = self.control.history.state()  # with what its last turns cost
        last = replace(state, phase=CampaignPhase.ENDED, reason=why, timeline=[*state.timeline, end])
        progress.write_end(self.control.campaign_dir, last, found, why, self.say)
        failpoint("campaign.reported")
        self.control.sources.close()
        self.research.remove()
        self.control.pool.remove()
        failpoint("campaign.removed")
        # last: until then a crash does all of it again
        self.control.set_phase(self.control.history.state(), CampaignPhase.ENDED, why)
        failpoint("campaign.ended")
        self.say(why)

    # -- small things -------------------------------------------------------------------------------------------

    def sleep(self) -> None:
        """Until something happens to a run, or somebody may have asked for something."""
        with Watcher(list(self.control.live.values())) as watcher:
            # What came before the watcher was set wakes nobody: look once more.
            self.pruner.look(self.control.history, self.control.live)
            over = any(rundir.state() in _OVER for run, rundir in self.control.live.items() if run not in self.stuck)
            until = time.monotonic() + PATIENCE_S
            over = over or self.research.ready
            while not over and self._requested() == self._requests_read and time.monotonic() < until:
                working = self.research.busy
                woken = watcher.wait(BUSY_LOOK_S if working else LOOK_S) or self.research.ready
                if woken or not (self.control.live or working) or self.stuck or self.control.pool.may_ask_again:
                    return

    def _requested(self) -> int:
        try:
            return os.stat(self.control.campaign_dir.requests).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0


_OVER = (RunState.ENDED, RunState.DEAD)
