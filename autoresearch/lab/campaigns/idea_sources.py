"""Sources: where the ideas of a campaign come from; what a person added goes before what a program proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer
from autoresearch.core.campaign.space_file import read_space
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.view import CampaignView
from autoresearch.lab.agent_work.agent_proposer import HYBRID, AgentProposer, MixedProposer
from autoresearch.lab.campaigns.commit_builder import CommitBuilder
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.proposers.registry import Given, proposer
from autoresearch.records.campaign_records import CampaignDir

ADDED = "added.yaml"
OPTIMISER = "tpe"  # the other half of a hybrid


def waiting_names(place: CampaignDir, spec: CampaignSpec) -> set[str]:
    """What the entries of its queues are called."""
    paths = [place.queue / ADDED, *([Path(spec.proposer.queue)] if spec.proposer.queue else [])]
    return {name for path in paths if path.exists() for name in Queue(path, parse_any).slugs()}


class Sources:
    """The queue of `campaign add`, then the campaign's own proposer."""

    def __init__(self, spec: CampaignSpec, place: CampaignDir, shop: CommitBuilder, shelf: AgentProposer) -> None:
        self.spec, self.place, self.shop, self.shelf = spec, place, shop, shelf
        self._added: Queue | None = None
        self._queue: Queue | None = None
        self._own: Proposer | None = None
        self._checked: dict[int, tuple[object, dict[str, list[Finding]]]] = {}  # each queue when last looked at

    def _proposers(self) -> list[Proposer]:
        added = self.place.queue / ADDED
        if self._added is None and added.exists():
            self._added = Queue(added, parse_any, line_numbers)
        if self._own is None:
            self._own = self._made()
        if self._queue is None and self.spec.proposer.queue:  # beside another proposer: a person's ideas go first
            own = self._own if isinstance(self._own, Queue) else proposer(QUEUE, self._given())
            self._queue = own if isinstance(own, Queue) else None
        queues = [one for one in (self._added, self._queue) if one is not None and one is not self._own]
        return [*queues, self._own]

    def _made(self) -> Proposer:
        name = self.spec.proposer.name
        if name == AGENT:
            return self.shelf
        if name == HYBRID:
            return MixedProposer(self.shelf, proposer(OPTIMISER, self._given()), self.spec.research.share)
        return proposer(name, self._given())

    def _given(self) -> Given:
        mine = self.spec.proposer
        baseline: Mapping[str, Any] = {}
        if mine.space:
            baseline = self.shop.whole(self.spec.base_commit) if self.shop.recipe_path == self.spec.recipe else {}
        return Given(
            directory=self.place.path,
            objective=self.spec.objective,
            read_yaml=parse_any,
            lines=line_numbers,
            space=read_space(mine.space) if mine.space else None,
            queue=Path(mine.queue) if mine.queue else None,
            baseline=baseline,
            seed=mine.seed,
            parallel=self.spec.parallel + 1,  # one more is always being prepared
        )

    def open(self) -> None:
        """Make the proposers now: what one of them lacks is to be said before a run is begun."""
        self._proposers()

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea; None: dry at present."""
        for one in self._proposers():
            if (found := one.ask(attempts)) is not None:
                return found
        return None

    def tell(self, attempt: Attempt) -> None:
        """What became of an idea, to whoever proposed it."""
        for one in self._proposers():
            if attempt.hypothesis.proposer in ("", one.name) or attempt.hypothesis.is_baseline or one.name == HYBRID:
                one.tell(attempt)

    def reconcile(self, attempts: Sequence[Attempt]) -> None:
        """After a crash: tell again everything that is settled; telling twice changes nothing."""
        for attempt in attempts:
            if attempt.settled:
                self.tell(attempt)

    def queues(self) -> list[Queue]:
        """The queues of a person: what `campaign add` brought, and the campaign's own."""
        self._proposers()
        return [one for one in (self._added, self._queue) if one is not None]

    def faults(self, view: CampaignView) -> dict[str, list[Finding]]:
        """What is wrong with entries that wait in a queue, by their tokens; looked at where something changed."""
        known = [idea.slug for idea in view.ideas]
        tokens = {idea.hypothesis.token for idea in view.ideas if idea.hypothesis.proposer == QUEUE}
        tokens |= {one.token for one, _ in view.skipped if one.proposer == QUEUE}
        found: dict[str, list[Finding]] = {}
        for n, queue in enumerate(self.queues()):
            state = queue.signature(), len(known), len(tokens)
            if n not in self._checked or self._checked[n][0] != state:
                queue.check(known, gone=tokens)
                self._checked[n] = state, queue.by_entry()
            found = {**found, **queue.by_entry(), **self._checked[n][1]}
        return found

    def close(self) -> None:
        """Free what the proposers hold."""
        for one in (self._added, self._queue, self._own):
            if one is not None:
                one.close()
