"""Proposers backed by a coding agent: its prepared hypotheses alone, or mixed with another proposer's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.agent_schedule import HYBRID, waiting


class AgentProposer:
    """Hands out what is ready, oldest first; never waits for a turn."""

    name = AGENT

    def __init__(self, state: Callable[[], CampaignState]) -> None:
        self._state = state

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The first proposal that needs no edit any more; None: none is ready at present."""
        return next((one.hypothesis for one in waiting(self._state()) if one.made), None)

    def tell(self, attempt: Attempt) -> None:
        """The next prompt is made from the campaign's records."""

    def close(self) -> None:
        """Nothing is held open."""


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
