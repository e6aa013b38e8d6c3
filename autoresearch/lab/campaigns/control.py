"""What a controller and its parts share of one campaign: its files, its runs, its journal and its stop rules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignState
from autoresearch.core.campaign.stop_rules import Stand, stand
from autoresearch.core.campaign.view import CampaignView
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.agent_work.agent_proposer import AgentProposer
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import scheduler
from autoresearch.lab.campaigns.campaign_history import book_of
from autoresearch.lab.campaigns.commit_builder import CommitBuilder
from autoresearch.lab.campaigns.idea_run import Ready, RunRequest
from autoresearch.lab.campaigns.idea_sources import Sources
from autoresearch.lab.campaigns.slots import SlotPool
from autoresearch.lab.parts import Parts
from autoresearch.proposers.queue import in_order
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir

MOST_FAULTS = 50  # of a queue, that are told


class CampaignControl:
    """One campaign under control; only its own methods write its fields. Make it while holding `place.lock`."""

    def __init__(self, place: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        """AutoresearchError where the repository is gone."""
        self.place, self.parts, self.say = place, parts, say
        self.book = book_of(place)
        self.spec = self.book.view().spec
        checkout = repository.find(Path(self.spec.repository) / self.spec.codebase)
        if checkout is None:
            raise AutoresearchError(f"the repository {self.spec.repository} is gone")
        self.shop = CommitBuilder.of(self.spec, checkout)
        self.pool = SlotPool(self.spec, checkout, parts.environ)
        self.sources = Sources(self.spec, place, self.shop, AgentProposer(self.book.view))
        self.ready: Ready | None = None  # the prepared run that starts next
        self.live: dict[str, RunDir] = {}

    # -- its runs ------------------------------------------------------------------------------------------------

    def hold(self, ready: Ready) -> None:
        """Keep a prepared run until there is room for it."""
        self.ready = ready
        self.pool.take(ready.slot, ready.run.run)

    def take_ready(self) -> Ready | None:
        """Hand over the prepared run: it is started now."""
        ready, self.ready = self.ready, None
        return ready

    def watch(self, run: str, rundir: RunDir) -> None:
        """Look after a run that was started, until `forget`."""
        self.live[run] = rundir

    def forget(self, run: str) -> None:
        """A run was recorded: its slot is free."""
        del self.live[run]
        self.pool.free(run)

    def withdraw_ready(self) -> None:
        """Take back the prepared run, if there is one; its branch stays."""
        if (ready := self.take_ready()) is None:
            return
        with contextlib.suppress(AutoresearchError, OSError):
            ready.prepared.withdraw()
        self.note("withdrawn", run=ready.run.run)
        self.pool.free(ready.run.run)

    def let_go(self) -> None:
        """Forget what is not written down; a prepared run is taken back."""
        if self.ready is not None:
            with contextlib.suppress(AutoresearchError, OSError):
                self.ready.prepared.withdraw()
        self.sources.close()
        self.ready, self.live = None, {}
        self.pool = SlotPool(self.spec, self.shop.checkout, self.parts.environ)
        self.sources = Sources(self.spec, self.place, self.shop, AgentProposer(self.book.view))

    # -- its rules -----------------------------------------------------------------------------------------------

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

    def look_at_queues(self, view: CampaignView) -> None:
        """Say which entries of a queue cannot be tried as they are, and when that changes."""
        found = [str(finding) for finding in in_order(self.sources.faults(view))[:MOST_FAULTS]]
        if found == view.queue_faults:
            return
        for fault in found:
            if fault not in view.queue_faults:
                self.say(f"cannot be tried as it is: {fault}")
        self.note("queue", faults=found)

    # -- its journal ---------------------------------------------------------------------------------------------

    def begin_round(self, number: int, candidates: tuple[int, ...], each: int, baseline: int) -> None:
        """Write down what a round of confirmation will be, before its first run."""
        self.withdraw_ready()
        self.note("confirming", round=number, candidates=list(candidates), each=each, baseline=baseline)

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
