"""Sources of a campaign's ideas; ideas added by a person go before those of the proposer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT, HYBRID, OPTIMISER
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer
from autoresearch.core.campaign.space import read_space
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.agent_schedule import waiting
from autoresearch.core.controller.scheduler import attempts
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.proposers.registry import ProposerInputs, proposer
from autoresearch.records.campaign_records import CampaignDir

# Proposers backed by a coding agent: its prepared hypotheses alone, or mixed with another proposer's.


class AgentProposer(Proposer):
    """Hands out what is ready, oldest first; never waits for a turn."""

    name = AGENT

    def __init__(self, state: Callable[[], CampaignState]) -> None:
        self._state = state

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first proposal that needs no edit any more; None: none is ready at present."""
        return next((one.hypothesis for one in waiting(self._state()) if one.made), None)


class MixedProposer:
    """Numbers from an optimiser, ideas from an agent, in the share that the spec names.

    Who is behind his share is asked first, so that it is kept in the long run; where he has nothing ready, the
    other one is asked, so that no GPU waits for a turn.
    """

    name = HYBRID

    def __init__(self, shelf: AgentProposer, optimiser: Proposer, share: float) -> None:
        self._shelf, self._optimiser, self._share = shelf, optimiser, share

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea of the one who is behind, else of the other."""
        mine = sum(one.hypothesis.proposer == AGENT for one in attempts)
        every = sum(one.hypothesis.proposer in (AGENT, self._optimiser.name) for one in attempts)
        behind = mine < self._share * (every + 1)
        order: list[Proposer] = [self._shelf, self._optimiser] if behind else [self._optimiser, self._shelf]
        for one in order if 0.0 < self._share < 1.0 else order[:1]:
            if (found := one.ask(attempts)) is not None:
                return found
        return None

    def tell(self, attempt: Attempt) -> None:
        """The optimiser learns of its own."""
        if attempt.hypothesis.proposer in ("", self._optimiser.name) or attempt.hypothesis.is_baseline:
            self._optimiser.tell(attempt)

    def close(self) -> None:
        """Free what the optimiser holds."""
        self._optimiser.close()


ADDED = "added.yaml"


def waiting_names(campaign_dir: CampaignDir, campaign_spec: CampaignSpec) -> set[str]:
    """The names of the entries in the campaign's queues."""
    paths = [
        campaign_dir.queue / ADDED,
        *([Path(campaign_spec.proposer.queue)] if campaign_spec.proposer.queue else []),
    ]
    return {name for path in paths if path.exists() for name in Queue(path, parse_any).slugs()}


class IdeaSources:
    """The queue of `campaign add`, then the campaign's own proposer."""

    def __init__(self, context: CampaignContext) -> None:
        self.spec, self.campaign_dir, self.builder = context.spec, context.campaign_dir, context.builder
        self.agent_proposer = AgentProposer(context.history.state)
        self._added: Queue | None = None
        self._queue: Queue | None = None
        self._own: Proposer | None = None
        self._checked: dict[int, tuple[object, int, dict[str, list[Finding]]]] = {}  # per queue, last findings

    def _proposers(self) -> list[Proposer]:
        added = self.campaign_dir.queue / ADDED
        if self._added is None and added.exists():
            self._added = Queue(added, parse_any, line_numbers)
        if self._own is None:
            self._own = self._made()
        if self._queue is None and self.spec.proposer.queue:  # a person's queue beside another proposer goes first
            own = self._own if isinstance(self._own, Queue) else proposer(QUEUE, self._proposer_inputs())
            self._queue = own if isinstance(own, Queue) else None
        queues = [one for one in (self._added, self._queue) if one is not None and one is not self._own]
        return [*queues, self._own]

    def _made(self) -> Proposer:
        name = self.spec.proposer.name
        if name == AGENT:
            return self.agent_proposer
        if name == HYBRID:
            optimiser = proposer(OPTIMISER, self._proposer_inputs())
            return MixedProposer(self.agent_proposer, optimiser, self.spec.research.share)
        return proposer(name, self._proposer_inputs())

    def _proposer_inputs(self) -> ProposerInputs:
        mine = self.spec.proposer
        baseline: Mapping[str, Any] = {}
        if mine.space or f"proposers.{mine.name}" in self.spec.plugins:
            baseline = self.builder.whole(self.spec.base_commit) if self.builder.recipe_path == self.spec.recipe else {}
        return ProposerInputs(
            objective=self.spec.objective,
            read_yaml=parse_any,
            lines=line_numbers,
            space=read_space(mine.space) if mine.space else None,
            queue=Path(mine.queue) if mine.queue else None,
            baseline=baseline,
            seed=mine.seed,
        )

    def open(self) -> None:
        """Create the proposers now, so that anything missing is reported before a run starts."""
        self._proposers()

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea; None if there is none at present."""
        for one in self._proposers():
            if (found := one.ask(attempts)) is not None:
                return found
        return None

    def tell(self, attempt: Attempt) -> None:
        """Report the outcome of an idea to its proposer."""
        for one in self._proposers():
            if attempt.hypothesis.proposer in ("", one.name) or attempt.hypothesis.is_baseline or one.name == HYBRID:
                one.tell(attempt)

    def reconcile(self, state: CampaignState) -> None:
        """After a crash: report every settled attempt again; repeating a report changes nothing."""
        for attempt in attempts(state):
            if attempt.settled:
                self.tell(attempt)

    def queues(self) -> list[Queue]:
        """The queues that people fill: the one of `campaign add`, and the campaign's own."""
        self._proposers()
        return [one for one in (self._added, self._queue) if one is not None]

    def faults(self, state: CampaignState) -> dict[str, list[Finding]]:
        """Findings on entries waiting in a queue, by token; a queue is checked again only after a change.

        More ideas can only mend what is wrong with an entry: one without a fault is not looked at for each of them.
        """
        known = [idea.slug for idea in state.ideas]
        tokens = {idea.hypothesis.token for idea in state.ideas if idea.hypothesis.proposer == QUEUE}
        tokens |= {one.token for one, _ in state.skipped if one.proposer == QUEUE}
        found: dict[str, list[Finding]] = {}
        for n, queue in enumerate(self.queues()):
            signature, count = queue.signature(), len(known) + len(tokens)
            before = self._checked.get(n)
            if before is None or before[0] != signature or (before[2] and before[1] != count):
                queue.check(known, gone=tokens)
                self._checked[n] = signature, count, queue.by_entry()
            found = {**found, **queue.by_entry(), **self._checked[n][2]}
        return found

    def close(self) -> None:
        """Release the resources of the proposers."""
        for one in (self._added, self._queue, self._own):
            if one is not None:
                one.close()
