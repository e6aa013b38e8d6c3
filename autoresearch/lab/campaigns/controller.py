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

from autoresearch.core.campaign.spec import CampaignState
from autoresearch.core.campaign.view import CampaignView
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
    """The loop of one campaign; make it while holding `place.lock`."""

    def __init__(self, place: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        self.say = say
        self.control = CampaignControl(place, parts, say)
        self.preparer = RunPreparer(self.control)
        self.pruner = Pruner(self.control.spec, say)
        self.research = AgentWorker(self.control)
        self.healthy = False  # it got through the loop since the last trouble
        self.stuck: dict[str, str] = {}  # runs that are over and cannot be recorded now, and why
        self._heard = 0  # bytes of requests at the last look

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
                        self.control.pause(self.control.book.view(), str(error))
                time.sleep(NAP_S)

    def _run(self) -> None:
        self.control.sources.open()
        recovery.recover(self.control)
        self.research.recover()
        self.control.sources.reconcile(scheduler.attempts(self.control.book.view()))
        controller = self.control.place.controller
        write_json(controller, {**(read_json(controller) or {}), "ready": True}, durable=False)
        while True:
            view = self.take_requests()
            view = self.research.look(seed_check.look(self.control, self.settle(view)))
            if self.is_over(view):
                break
            self.control.look_at_queues(view)
            self.fill(view)
            self.preparer.prepare_ahead()
            self.control.pool.attend(self.control.live, self.control.parts)
            self.research.look(self.control.book.view())  # what was handed out makes room for the next
            self.healthy = True
            self.sleep()
        self.finish()

    def _let_go(self) -> None:
        """Forget what is not written down."""
        self.control.let_go()
        self.research.close()
        self.healthy = False

    def take_requests(self) -> CampaignView:
        """Carry out the requests made since the last check."""
        self._heard = self._requested()
        view = self.control.book.view()
        for request in campaign_records.entries(self.control.place.requests, view.requests):
            requests.obey(self.control, view, request)
            if request.get("do") == "resume":
                self.research.readmit()
            self.control.note("request", upto=request["seq"])
            view = self.control.book.view()
        return view

    def settle(self, view: CampaignView) -> CampaignView:
        """Record every run that is over; then inform its proposer and print the result."""
        for _, one in view.live:
            if one.run not in self.control.live:  # somebody took its row out of the ledger: it gets it again
                recovery.take_up(self.control, one)
        over = recovery.by_end((run, rundir) for run, rundir in self.control.live.items() if rundir.state() in _OVER)
        if not over:
            return view
        recovery.restore_spec(self.control.place, self.control.book.spec)
        for run, rundir in over:
            try:
                recovery.record(view, run, rundir, self.control.shop, self.control.parts)
            except (AutoresearchError, OSError) as error:  # a full disk: the next look tries again
                if self.stuck.get(run) != str(error):
                    self.say(f"{run}: its records cannot be written now: {error}")
                self.stuck[run] = str(error)
                continue
            failpoint("campaign.recorded")
            self.stuck.pop(run, None)
            self.control.forget(run)
            failpoint("campaign.settled")
        view = self.control.book.view()
        self._launch_ready(view)  # before anything that can wait
        for run, rundir in over:
            if run not in self.control.live:
                self._after(self.control.book.view(), run, rundir)
                failpoint("campaign.told")
        return self.control.book.view()

    def _after(self, view: CampaignView, run: str, rundir: RunDir) -> None:
        idea = next(i for i in view.ideas if run in {r.run for r in i.runs})
        with contextlib.suppress(AutoresearchError, OSError):
            close_session(rundir, self.control.parts)
        if scheduler.decided(view, idea):
            self.control.sources.tell(idea.attempt())
        self.say(progress.row_line(view, idea, run))
        if not view.open_round:  # a proof comes after the last idea: nothing stands otherwise than before
            self.say(self.control.stand(view).sentence + progress.eta(view))
        self.control.look_for_reasons(view)
        progress.write_documents(self.control.place, self.control.book.view(), self.control.stand(view))

    # -- beginning ----------------------------------------------------------------------------------------------

    def fill(self, view: CampaignView) -> None:
        """Start runs in every free slot."""
        while len(self.control.live) < view.spec.parallel:
            if not self._launch_ready(view):
                self.preparer.prepare_ahead()
                if not self._launch_ready(self.control.book.view()):
                    return
            view = self.control.book.view()

    def _launch_ready(self, view: CampaignView) -> bool:
        """Start the prepared run if it may start and there is room; whether it was started."""
        ready = self.control.ready
        if ready is None or len(self.control.live) >= view.spec.parallel:
            return False
        if not self.control.may_begin(view, ready.wanted):
            return False
        if (slot := self.control.pool.berth(self.control.live)) is None:
            return False
        if self._stale(view, ready):
            self.control.withdraw_ready()
            return False
        self.control.take_ready()
        try:
            ready.prepared.go(slot.gpus, shares=self.control.spec.runs_per_gpu, place=slot.place)
        except (AutoresearchError, OSError) as error:
            self.say(f"{ready.run.run}: {error}")
        failpoint("campaign.gone")
        self.control.note("started", run=ready.run.run)
        self.control.watch(ready.run.run, ready.prepared.rundir)
        self.control.pool.take(ready.slot, ready.run.run, slot)
        idea, why = ready.wanted.idea, ready.wanted.why
        where = "" if slot.place.is_local else f" at {slot.place.name}"
        self.say(f"{idea.slug}: {why} run {ready.run.replicate} started on {idea.branch}{where}")
        return True

    def _stale(self, view: CampaignView, ready: Ready) -> bool:
        """Whether a run that just ended makes the prepared run pointless."""
        if ready.wanted.why == "retest":
            owed = scheduler.owed(scheduler.without(view, ready.run.run))
            return owed is None or owed.idea.index != ready.wanted.idea.index
        return ready.wanted.idea.slug in view.unwanted

    # -- ending -------------------------------------------------------------------------------------------------

    def is_over(self, view: CampaignView) -> bool:
        """Whether nothing is left to do, including confirmation."""
        if view.told_stop == "stop":
            return not self.control.live
        if self.control.live:
            return False
        if view.told_stop == "drain":
            return True
        if view.state is CampaignState.PAUSED:
            return self._past_deadline(view)
        if confirmation_rounds.round_is_over(view):
            for sentence in confirmation_rounds.judge_round(view, self.control.place):
                self.say(sentence)
            return self.is_over(self.control.book.view())
        if view.open_round:
            wanted = confirmation_rounds.owed_to_round(view)
            return wanted is not None and not self.control.may_begin(view, wanted) and self._too_late(view)
        found = self.control.stand(view)
        if not found.met:
            self._wait_if_dry(view)
            return False
        owed = scheduler.owed(view)
        if owed is not None and self.control.may_begin(view, owed):
            return False
        if self.research.mending(view):
            return False
        return not self._confirming(view)

    def _past_deadline(self, view: CampaignView) -> bool:
        deadline = view.spec.rules.deadline
        return deadline is not None and self.control.parts.clock() >= deadline

    def _too_late(self, view: CampaignView) -> bool:
        self.say("not confirmed: too little time is left")
        return True

    def _confirming(self, view: CampaignView) -> bool:
        """Start a confirmation round if an improvement can be claimed and there is time; returns whether it did."""
        if not view.spec.confirm or len(view.rounds) >= confirmation_rounds.MOST_ROUNDS or view.spec.rules.count == 0:
            return False
        planned, why = confirmation_rounds.plan_round(view)
        if planned is None:
            if not view.rounds:
                self.say(f"no confirmation: {why}")
            return False
        best = view.best
        assert best is not None
        if not self.control.may_begin(view, RunRequest(best, 0, "confirm")):
            return not self._too_late(view)
        self.control.begin_round(planned.number, planned.candidates, planned.each, planned.baseline)
        self.say(f"confirming {best.slug}: {why}")
        return True

    def _wait_if_dry(self, view: CampaignView) -> None:
        idle = self.preparer.dry and self.control.ready is None and not self.control.live
        idle = idle and scheduler.owed(view) is None
        idle = idle and not self.research.hopeful(view)
        if idle and view.state in (CampaignState.RUNNING, CampaignState.WAITING):
            why = self.research.why_dry(view)
            if (view.state, view.reason) != (CampaignState.WAITING, why):
                self.control.set_state(view, CampaignState.WAITING, why)
                self.say(f"{self.control.stand(view).sentence}, {why}; add ideas: {progress.add_line(view)}")
        elif not idle and view.state is CampaignState.WAITING:
            self.control.set_state(view, CampaignState.RUNNING)

    def finish(self) -> None:
        """The last word: documents, the campaign's own finish.flag, the end in the journal."""
        recovery.restore_ledger(self.control)
        self.control.withdraw_ready()
        view = self.control.book.view()
        found = self.control.stand(view)
        why = {"stop": "stopped on request", "drain": "drained on request"}.get(view.told_stop, found.sentence)
        end = {"t": self.control.parts.clock(), "do": "state", "state": CampaignState.ENDED.value, "reason": why}
        for token, findings in self.control.sources.faults(view).items():
            self.preparer.never_tried(view, token, findings)
        self.research.summarise(view)
        self.research.close()
        view = self.control.book.view()  # with what its last turns cost
        last = replace(view, state=CampaignState.ENDED, reason=why, timeline=[*view.timeline, end])
        progress.write_end(self.control.place, last, found, why, self.say)
        failpoint("campaign.reported")
        self.control.sources.close()
        self.research.remove()
        self.control.pool.remove()
        failpoint("campaign.removed")
        # last: until then a crash does all of it again
        self.control.set_state(self.control.book.view(), CampaignState.ENDED, why)
        failpoint("campaign.ended")
        self.say(why)

    # -- small things -------------------------------------------------------------------------------------------

    def sleep(self) -> None:
        """Until something happens to a run, or somebody may have asked for something."""
        with Watcher(list(self.control.live.values())) as watcher:
            # What came before the watcher was set wakes nobody: look once more.
            self.pruner.look(self.control.book, self.control.live)
            over = any(rundir.state() in _OVER for run, rundir in self.control.live.items() if run not in self.stuck)
            until = time.monotonic() + PATIENCE_S
            over = over or self.research.ready
            while not over and self._requested() == self._heard and time.monotonic() < until:
                working = self.research.busy
                woken = watcher.wait(BUSY_LOOK_S if working else LOOK_S) or self.research.ready
                if woken or not (self.control.live or working) or self.stuck or self.control.pool.may_ask_again:
                    return

    def _requested(self) -> int:
        try:
            return os.stat(self.control.place.requests).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0


_OVER = (RunState.ENDED, RunState.DEAD)
