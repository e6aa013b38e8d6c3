"""What a controller and its parts share of one campaign: its files, its runs, its journal and its stop rules."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.campaign.stop_rules import Stand, stand
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.agent_work.agent_proposer import AgentProposer
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import scheduler
from autoresearch.lab.campaigns.campaign_history import history_of
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
    """One campaign under control; only its own methods write its fields. Make it while holding `campaign_dir.lock`."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> None:
        """AutoresearchError where the repository is gone."""
        self.campaign_dir, self.parts, self.say = campaign_dir, parts, say
        self.history = history_of(campaign_dir)
        self.spec = self.history.state().spec
        checkout = repository.find(Path(self.spec.repository) / self.spec.codebase)
        if checkout is None:
            raise AutoresearchError(f"the repository {self.spec.repository} is gone")
        self.builder = CommitBuilder.of(self.spec, checkout)
        self.pool = SlotPool(self.spec, checkout, parts.environ)
        self.sources = Sources(self.spec, campaign_dir, self.builder, AgentProposer(self.history.state))
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
        self.pool = SlotPool(self.spec, self.builder.checkout, self.parts.environ)
        self.sources = Sources(self.spec, self.campaign_dir, self.builder, AgentProposer(self.history.state))

    # -- its rules -----------------------------------------------------------------------------------------------

    def may_begin(self, state: CampaignState, request: RunRequest) -> bool:
        """Whether a run may be started now."""
        if state.phase in (CampaignPhase.PAUSED, CampaignPhase.DRAINING) or state.stop_mode:
            return False
        now = self.parts.clock()
        deadline = state.spec.rules.deadline
        if deadline is not None and deadline - now < scheduler.expected_run_s(state):
            return False
        return request.why != "first" or not self.stand(state).met

    def stand(self, state: CampaignState, *, conceived: bool = False) -> Stand:
        """The stop rules; `conceived`: with the ideas that wait to be begun, to see whether another is needed."""
        waiting = sum(not i.attempted and i.slug not in state.unwanted for i in state.ideas) if conceived else 0
        facts = scheduler.facts(state, self.parts.clock(), conceived=waiting)
        return stand(state.spec.rules, facts, state.spec.objective)

    def look_for_reasons(self, state: CampaignState) -> None:
        """Pause it where going on would only waste time."""
        if not self.stand(state).met and (why := scheduler.tripped(state, self._since())):
            self.pause(state, f"circuit breaker: {why}")
        elif scheduler.baseline_failed(state):
            why = progress.why_none(state)
            self.pause(state, f"no run of the baseline printed {self.spec.objective.metric}: {why}")

    def _since(self) -> float:
        """When the campaign last went on after a pause: older deaths are forgiven."""
        times = [line["t"] for line in self.history.state().timeline if line.get("do") == "state"]
        return max(times, default=0.0)

    def look_at_queues(self, state: CampaignState) -> None:
        """Say which entries of a queue cannot be tried as they are, and when that changes."""
        found = [str(finding) for finding in in_order(self.sources.faults(state))[:MOST_FAULTS]]
        if found == state.queue_faults:
            return
        for fault in found:
            if fault not in state.queue_faults:
                self.say(f"cannot be tried as it is: {fault}")
        self.note("queue", faults=found)

    # -- its journal ---------------------------------------------------------------------------------------------

    def begin_round(self, number: int, candidates: tuple[int, ...], each: int, baseline: int) -> None:
        """Write down what a round of confirmation will be, before its first run."""
        self.withdraw_ready()
        self.note("confirming", round=number, candidates=list(candidates), each=each, baseline=baseline)

    def pause(self, state: CampaignState, reason: str) -> None:
        """Begin nothing more until somebody says `resume`; what runs goes on."""
        self.set_phase(state, CampaignPhase.PAUSED, reason)
        self.say(f"paused: {reason}; go on with: autoresearch campaign resume {self.spec.name}")

    def set_phase(self, state: CampaignState, phase: CampaignPhase, reason: str = "") -> None:
        """Write down what the campaign is doing now, if that is news."""
        if (state.phase, state.reason) != (phase, reason) or not state.timeline:
            self.note("state", state=phase.value, reason=reason)

    def note(self, do: str, **fields: object) -> None:
        """Add a line to the journal."""
        campaign_records.add(self.campaign_dir.journal, do, t=self.parts.clock(), **fields)
