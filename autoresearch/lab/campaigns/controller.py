"""The controller: one loop that begins runs, settles them, and stops when a rule is clearly met.

Everything it knows is folded from the journal, the ledger and the run directories, so that it may be killed
at any instruction: `campaign resume` starts another one, which finds what lives and finishes what is dead.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignState
from autoresearch.core.campaign.stop_rules import Stand, stand
from autoresearch.core.campaign.view import CampaignView
from autoresearch.core.run.spec import RunState
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.agent_work.agent_proposer import AgentProposer
from autoresearch.lab.agent_work.agent_worker import AgentWorker
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import confirmation_rounds, prepare_next, recovery, requests, scheduler, seed_check
from autoresearch.lab.campaigns.campaign_history import book_of
from autoresearch.lab.campaigns.commit_builder import CommitBuilder
from autoresearch.lab.campaigns.idea_run import Ready, RunRequest
from autoresearch.lab.campaigns.idea_sources import Sources
from autoresearch.lab.campaigns.pruner import Pruner
from autoresearch.lab.campaigns.slots import SlotPool
from autoresearch.lab.campaigns.trouble import is_full, is_trouble
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.sessions import close_session
from autoresearch.lab.runs.watch import Watcher
from autoresearch.proposers.queue import in_order
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import RunDir, read_json, write_json

LOOK_S = 1.0  # requests are looked for this often; everything else wakes
BUSY_LOOK_S = 0.03  # ... and whether the researcher is done
PATIENCE_S = 15.0  # ... and at everything again, for what tells nobody: a directory that was removed
NAP_S = 3.0  # after trouble with the machine
MOST_FAULTS = 50  # of a queue, that are told
MOST_TRIES = 3  # ... before the campaign is paused


class Controller:
    """Controls one campaign; make it while holding `place.lock`."""

    def __init__(self, place: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        self.place, self.parts, self.say = place, parts, say
        self.book = book_of(place)
        self.spec = self.book.view().spec
        checkout = repository.find(Path(self.spec.repository) / self.spec.codebase)
        if checkout is None:
            raise AutoresearchError(f"the repository {self.spec.repository} is gone")
        self.shop = CommitBuilder.of(self.spec, checkout)
        self.pool = SlotPool(self.spec, checkout, parts.environ)
        self.sources = Sources(self.spec, place, self.shop, AgentProposer(self.book.view))
        self.ready: Ready | None = None
        self.pruner = Pruner(self.spec, say)
        self.research = AgentWorker(self)
        self.live: dict[str, RunDir] = {}
        self.dry = False
        self.healthy = False  # it got through the loop since the last trouble
        self.in_turn: set[str] = set()  # live runs, one of which writes a file that the next one would write too
        self.stuck: dict[str, str] = {}  # runs that are over and cannot be recorded now, and why
        self._heard = 0  # bytes of requests at the last look

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until a stop rule is met and everything is recorded.

        Trouble with the machine is treated as a crash that we live through: all that is not written down is
        let go, and found again as after any crash. A full disk is waited for; anything else pauses the campaign.
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
                        self.pause(self.book.view(), str(error))
                time.sleep(NAP_S)

    def _run(self) -> None:
        self.sources.open()
        recovery.recover(self)
        write_json(self.place.controller, {**(read_json(self.place.controller) or {}), "ready": True}, durable=False)
        while True:
            view = self.take_requests()
            view = self.research.look(seed_check.look(self, self.settle(view)))
            if self.is_over(view):
                break
            self.look_at_queues(view)
            self.fill(view)
            prepare_next.prepare_ahead(self)
            self.pool.attend(self.live, self.parts)
            self.research.look(self.book.view())  # what was handed out makes room for the next
            self.healthy = True
            self.sleep()
        self.finish()

    def look_at_queues(self, view: CampaignView) -> None:
        """Say which entries of a queue cannot be tried as they are, and when that changes."""
        found = [str(finding) for finding in in_order(self.sources.faults(view))[:MOST_FAULTS]]
        if found == view.queue_faults:
            return
        for fault in found:
            if fault not in view.queue_faults:
                self.say(f"cannot be tried as it is: {fault}")
        self.note("queue", faults=found)

    def _let_go(self) -> None:
        """Forget what is not written down; a prepared run goes with the word that it waited for."""
        if self.ready is not None:
            with contextlib.suppress(AutoresearchError, OSError):
                self.ready.prepared.withdraw()
        self.sources.close()
        self.research.close()
        self.ready, self.live, self.healthy = None, {}, False
        self.pool = SlotPool(self.spec, self.shop.checkout, self.parts.environ)
        self.sources = Sources(self.spec, self.place, self.shop, AgentProposer(self.book.view))

    def take_requests(self) -> CampaignView:
        """Do what people asked for since the last look."""
        self._heard = self._requested()
        view = self.book.view()
        for request in campaign_records.entries(self.place.requests, view.requests):
            requests.obey(self, view, request)
            self.note("request", upto=request["seq"])
            view = self.book.view()
        return view

    def settle(self, view: CampaignView) -> CampaignView:
        """Record every run that is over; then tell its proposer and whoever watches."""
        for _, one in view.live:
            if one.run not in self.live:  # somebody took its row out of the ledger: it gets it again
                recovery.take_up(self, one)
        over = recovery.by_end((run, rundir) for run, rundir in self.live.items() if rundir.state() in _OVER)
        if not over:
            return view
        recovery.restore_spec(self.place, self.book.spec)
        for run, rundir in over:
            try:
                recovery.record(view, run, rundir, self.shop, self.parts)
            except (AutoresearchError, OSError) as error:  # a full disk: the next look tries again
                if self.stuck.get(run) != str(error):
                    self.say(f"{run}: its records cannot be written now: {error}")
                self.stuck[run] = str(error)
                continue
            failpoint("campaign.recorded")
            self.stuck.pop(run, None)
            del self.live[run]
            self.pool.free(run)
            failpoint("campaign.settled")
        view = self.book.view()
        self._launch_ready(view)  # before anything that can wait
        for run, rundir in over:
            if run not in self.live:
                self._after(self.book.view(), run, rundir)
                failpoint("campaign.told")
        return self.book.view()

    def _after(self, view: CampaignView, run: str, rundir: RunDir) -> None:
        idea = next(i for i in view.ideas if run in {r.run for r in i.runs})
        with contextlib.suppress(AutoresearchError, OSError):
            close_session(rundir, self.parts)
        if scheduler.decided(view, idea):
            self.sources.tell(idea.attempt())
        self.say(progress.row_line(view, idea, run))
        if not view.open_round:  # a proof comes after the last idea: nothing stands otherwise than before
            self.say(self.stand(view).sentence + progress.eta(view))
        self.look_for_reasons(view)
        progress.write_documents(self.place, self.book.view(), self.stand(view))

    def look_for_reasons(self, view: CampaignView) -> None:
        """Pause it where going on would only waste time."""
        if not self.stand(view).met and (why := scheduler.tripped(view, self._since())):
            self.pause(view, f"circuit breaker: {why}")
        elif scheduler.baseline_failed(view):
            self.pause(view, f"no run of the baseline printed {self.spec.objective.metric}: {progress.why_none(view)}")

    def _since(self) -> float:
        """When the campaign last went on after a pause: older deaths are forgiven."""
        times = [line["t"] for line in self.book.view().timeline if line.get("do") == "state"]
        return max(times, default=0.0)

    # -- beginning ----------------------------------------------------------------------------------------------

    def may_begin(self, view: CampaignView, wanted: RunRequest) -> bool:
        """Whether a run may be started now."""
        if view.state in (CampaignState.PAUSED, CampaignState.DRAINING) or view.told_stop:
            return False
        now = self.parts.clock()
        deadline = view.spec.rules.deadline
        if deadline is not None and deadline - now < scheduler.expected_run_s(view):
            return False
        return wanted.why != "first" or not self.stand(view).met

    def stand(self, view: CampaignView, *, conceived: bool = False) -> Stand:
        """The stop rules; `conceived`: with the ideas that wait to be begun, to see whether one more is wanted."""
        waiting = sum(not i.attempted and i.slug not in view.unwanted for i in view.ideas) if conceived else 0
        return stand(view.spec.rules, scheduler.facts(view, self.parts.clock(), conceived=waiting), view.spec.objective)

    def fill(self, view: CampaignView) -> None:
        """Start runs in every free slot."""
        while len(self.live) < view.spec.parallel:
            if not self._launch_ready(view):
                prepare_next.prepare_ahead(self)
                if not self._launch_ready(self.book.view()):
                    return
            view = self.book.view()

    def _launch_ready(self, view: CampaignView) -> bool:
        """Give the word to the run that waits, if it may start and there is room; whether it did."""
        ready = self.ready
        if ready is None or len(self.live) >= view.spec.parallel:
            return False
        if not self.may_begin(view, ready.wanted) or (berth := self.pool.berth(self.live)) is None:
            return False
        self.ready = None
        if self._stale(view, ready):
            prepare_next.withdraw(self, ready)
            return False
        try:
            ready.prepared.go(berth.gpus, shares=self.spec.runs_per_gpu, place=berth.place)
        except (AutoresearchError, OSError) as error:
            self.say(f"{ready.run.run}: {error}")
        failpoint("campaign.gone")
        self.note("started", run=ready.run.run)
        self.live[ready.run.run] = ready.prepared.rundir
        self.pool.take(ready.slot, ready.run.run, berth)
        idea, why = ready.wanted.idea, ready.wanted.why
        where = "" if berth.place.is_local else f" at {berth.place.name}"
        self.say(f"{idea.slug}: {why} run {ready.run.replicate} started on {idea.branch}{where}")
        return True

    def _stale(self, view: CampaignView, ready: Ready) -> bool:
        """Whether what just ended makes the prepared run pointless."""
        if ready.wanted.why == "retest":
            owed = scheduler.owed(scheduler.without(view, ready.run.run))
            return owed is None or owed.idea.index != ready.wanted.idea.index
        return ready.wanted.idea.slug in view.unwanted

    # -- ending -------------------------------------------------------------------------------------------------

    def is_over(self, view: CampaignView) -> bool:
        """Whether nothing is left to do, a confirmation included."""
        if view.told_stop == "stop":
            return not self.live
        if self.live:
            return False
        if view.told_stop == "drain":
            return True
        if view.state is CampaignState.PAUSED:
            return self._past_deadline(view)
        if confirmation_rounds.round_is_over(view):
            for sentence in confirmation_rounds.judge_round(view, self.place):
                self.say(sentence)
            return self.is_over(self.book.view())
        if view.open_round:
            wanted = confirmation_rounds.owed_to_round(view)
            return wanted is not None and not self.may_begin(view, wanted) and self._too_late(view)
        found = self.stand(view)
        if not found.met:
            self._wait_if_dry(view)
            return False
        owed = scheduler.owed(view)
        if owed is not None and self.may_begin(view, owed):
            return False
        if self.research.mending(view):
            return False
        return not self._confirming(view)

    def _past_deadline(self, view: CampaignView) -> bool:
        deadline = view.spec.rules.deadline
        return deadline is not None and self.parts.clock() >= deadline

    def _too_late(self, view: CampaignView) -> bool:
        self.say("not confirmed: too little time is left")
        return True

    def _confirming(self, view: CampaignView) -> bool:
        """Begin a round of confirmation, where there is something to claim and time for it."""
        if not view.spec.confirm or len(view.rounds) >= confirmation_rounds.MOST_ROUNDS or view.spec.rules.count == 0:
            return False
        planned, why = confirmation_rounds.plan_round(view)
        if planned is None:
            if not view.rounds:
                self.say(f"no confirmation: {why}")
            return False
        best = view.best
        assert best is not None
        if not self.may_begin(view, RunRequest(best, 0, "confirm")):
            return not self._too_late(view)
        self.begin_round(planned.number, planned.candidates, planned.each, planned.baseline)
        self.say(f"confirming {best.slug}: {why}")
        return True

    def begin_round(self, number: int, candidates: tuple[int, ...], each: int, baseline: int) -> None:
        """Write down what a round of confirmation will be, before its first run."""
        if self.ready is not None:
            prepare_next.withdraw(self, self.ready)
            self.ready = None
        self.note("confirming", round=number, candidates=list(candidates), each=each, baseline=baseline)

    def _wait_if_dry(self, view: CampaignView) -> None:
        idle = self.dry and self.ready is None and not self.live and scheduler.owed(view) is None
        idle = idle and not self.research.hopeful(view)
        if idle and view.state in (CampaignState.RUNNING, CampaignState.WAITING):
            why = self.research.why_dry(view)
            if (view.state, view.reason) != (CampaignState.WAITING, why):
                self.set_state(view, CampaignState.WAITING, why)
                self.say(f"{self.stand(view).sentence}, {why}; add ideas: {progress.add_line(view)}")
        elif not idle and view.state is CampaignState.WAITING:
            self.set_state(view, CampaignState.RUNNING)

    def finish(self) -> None:
        """The last word: documents, the campaign's own finish.flag, the end in the journal."""
        recovery.restore_ledger(self)
        if self.ready is not None:
            prepare_next.withdraw(self, self.ready)
            self.ready = None
        view = self.book.view()
        found = self.stand(view)
        why = {"stop": "stopped on request", "drain": "drained on request"}.get(view.told_stop, found.sentence)
        end = {"t": self.parts.clock(), "do": "state", "state": CampaignState.ENDED.value, "reason": why}
        for token, findings in self.sources.faults(view).items():
            prepare_next.never_tried(self, view, token, findings)
        self.research.summarise(view)
        self.research.close()
        view = self.book.view()  # with what its last turns cost
        last = replace(view, state=CampaignState.ENDED, reason=why, timeline=[*view.timeline, end])
        progress.write_end(self.place, last, found, why, self.say)
        failpoint("campaign.reported")
        self.sources.close()
        self.research.remove()
        self.pool.remove()
        failpoint("campaign.removed")
        self.set_state(self.book.view(), CampaignState.ENDED, why)  # last: until then a crash does all of it again
        failpoint("campaign.ended")
        self.say(why)

    # -- small things -------------------------------------------------------------------------------------------

    def pause(self, view: CampaignView, reason: str) -> None:
        """Begin nothing more until somebody says `resume`; what runs goes on."""
        self.set_state(view, CampaignState.PAUSED, reason)
        self.say(f"paused: {reason}; go on with: autoresearch campaign resume {self.spec.name}")

    def set_state(self, view: CampaignView, state: CampaignState, reason: str = "") -> None:
        """Write down what the campaign is doing now, if that is news."""
        if (view.state, view.reason) != (state, reason) or not view.timeline:
            self.note("state", state=state.value, reason=reason)

    def note(self, do: str, **fields: object) -> None:
        """Add a line to the journal."""
        campaign_records.add(self.place.journal, do, t=self.parts.clock(), **fields)

    def sleep(self) -> None:
        """Until something happens to a run, or somebody may have asked for something."""
        with Watcher(list(self.live.values())) as watcher:
            # What came before the watcher was set wakes nobody: look once more.
            self.pruner.look(self.book, self.live)
            over = any(rundir.state() in _OVER for run, rundir in self.live.items() if run not in self.stuck)
            until = time.monotonic() + PATIENCE_S
            over = over or self.research.ready
            while not over and self._requested() == self._heard and time.monotonic() < until:
                working = self.research.busy
                woken = watcher.wait(BUSY_LOOK_S if working else LOOK_S) or self.research.ready
                if woken or not (self.live or working) or self.stuck or self.pool.may_ask_again:
                    return

    def _requested(self) -> int:
        try:
            return os.stat(self.place.requests).st_size  # noqa: PTH116 - asked every second
        except OSError:
            return 0


_OVER = (RunState.ENDED, RunState.DEAD)
