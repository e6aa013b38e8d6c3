"""Where the ideas of a campaign come from, those added by a person before those of the proposer, and how hypotheses
become ideas: what can be tried is committed, and of the rest is recorded why it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT, HYBRID, OPTIMISER
from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.hypothesis import Hypothesis, baseline_hypothesis, idea_name, renamed
from autoresearch.core.campaign.proposer import Attempt, Proposer, ProposerInputs
from autoresearch.core.campaign.space import read_space
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.core.controller.agent_schedule import waiting
from autoresearch.core.controller.runs_and_retries import attempts
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas import idea_commit
from autoresearch.lab.ideas.commit_builder import RECIPE, CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.run_commit import repair
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue, in_order
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_entry
from autoresearch.proposers.registry import proposer
from autoresearch.records.campaign_records import CampaignDir

MOST_REFUSED = 20  # proposals in a row that could not be tried
MOST_FAULTS = 50  # of a queue, that are recorded

# Proposers backed by a coding agent: its prepared hypotheses alone, or mixed with another proposer's.


class AgentProposer(Proposer):
    """Hands out what is ready, oldest first; never waits for a turn."""

    name = AGENT

    def __init__(self, state: Callable[[], CampaignState]) -> None:
        self._state = state

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first proposal that needs no edit any more; None: none is ready at present."""
        return next((one.hypothesis for one in waiting(self._state()) if one.made), None)


class MixedProposer(Proposer):
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
        for one in order:
            if (found := one.ask(attempts)) is not None:
                return found
        return None


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
        self._context, self.spec = context, context.spec
        self.agent_proposer = AgentProposer(context.history.state)
        self._added: Queue | None = None
        self._queue: Queue | None = None
        self._own: Proposer | None = None
        self._checked: dict[int, tuple[object, int, dict[str, list[Finding]]]] = {}  # per queue, last findings

    def _proposers(self) -> list[Proposer]:
        added = self._context.campaign_dir.queue / ADDED
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
        builder = self._context.builder
        known = mine.name not in (QUEUE, AGENT) and builder.recipe_path != RECIPE
        baseline = builder.whole(self.spec.base_commit) if known else {}
        return ProposerInputs(
            objective=self.spec.objective,
            read_yaml=parse_any,
            lines=line_numbers,
            space=read_space(mine.space) if mine.space else None,
            queue=mine.queue,
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

    def faults(self, state: CampaignState) -> dict[str, list[Finding]]:
        """Findings on entries waiting in a queue, by token; a queue is checked again only after a change.

        More ideas can only mend what is wrong with an entry: one without a fault is not looked at for each of them.
        """
        known = [idea.slug for idea in state.ideas]
        tokens = {idea.hypothesis.token for idea in state.ideas if idea.hypothesis.proposer == QUEUE}
        tokens |= {one.token for one, _ in state.skipped if one.proposer == QUEUE}
        found: dict[str, list[Finding]] = {}
        self._proposers()
        for n, queue in enumerate(one for one in (self._added, self._queue) if one is not None):
            signature, count = queue.signature(), len(known) + len(tokens)
            before = self._checked.get(n)
            if before is None or before[0] != signature or (before[2] and before[1] != count):
                queue.check(known, gone=tokens)
                self._checked[n] = signature, count, queue.by_entry()
            found = {**found, **queue.by_entry(), **self._checked[n][2]}
        return found

    # -- from hypotheses to ideas --------------------------------------------------------------------------------

    def commit_baseline(self) -> None:
        """Commit the baseline on its branch. Raises IdeaRefused if it cannot be tried."""
        self._commit(Attempt(1, baseline_hypothesis()))

    def propose(self) -> bool | None:
        """Ask until one of the ideas can be tried, and commit it; False if none could, None if there is none."""
        for _ in range(MOST_REFUSED):
            state = self._context.state
            hypothesis = self.ask(attempts(state))
            self.check_queues()
            if hypothesis is None:
                return None
            taken = {idea.slug for idea in state.ideas}
            index = 1 + max((idea.index for idea in state.ideas), default=0)
            if self._commit(Attempt(index, renamed(hypothesis, taken))):
                return True
        return False

    def _commit(self, attempt: Attempt) -> bool:
        """Make an idea of a hypothesis; False if it is refused, which is recorded."""
        context, hypothesis = self._context, attempt.hypothesis
        try:
            draft = idea_commit.conceive(context.builder, context.state, hypothesis, attempt.index)
            idea_commit.record_idea(context, draft)
        except IdeaRefused as refused:
            if hypothesis.is_baseline:
                raise
            context.note("skipped", hypothesis=hypothesis.to_json(), reason=refused.message)
            context.say(f"{idea_name(0, hypothesis)}: skipped: {refused.message}")
            return False
        return True

    def check_queues(self) -> bool:
        """Say which entries of a queue cannot be tried as they are; returns whether that changed."""
        context, state = self._context, self._context.state
        found = [str(finding) for finding in in_order(self.faults(state))[:MOST_FAULTS]]
        if found == state.queue_faults:
            return False
        for fault in found:
            if fault not in state.queue_faults:
                context.say(f"cannot be tried as it is: {fault}")
        context.note("queue", faults=found)
        return True


def repair_idea(builder: CommitBuilder, idea: Idea, entry: Any, note: str) -> tuple[ControllerAction, ...]:
    """Commit a person's follow-up fix on the idea's branch; the idea then runs again."""
    try:
        commit = repair(builder, idea, from_entry(entry, Path("/")), note)
    except (IdeaRefused, Broken) as error:
        return (Say(f"{idea.name}: not repaired: {error}"),)
    fields = {"index": idea.index, "slug": idea.slug, "commit": commit, "note": note}
    return Note("fixed", fields), Say(f"{idea.name}: repaired ({note}); it runs again")
