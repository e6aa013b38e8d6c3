"""Proposer: the interface of all sources of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from autoresearch.core.campaign.hypothesis import Hypothesis


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempted idea of a campaign and its results so far."""

    index: int  # the baseline is 1
    hypothesis: Hypothesis
    # keep, discard, crash; "" while its first run is under way; "skipped" if it never ran; "pruned" if it was stopped
    # early because of its learning curve
    status: str = ""
    value: float | None = None  # mean of the objective over its runs; None if no run measured it
    runs: int = 0  # finished runs

    @property
    def settled(self) -> bool:
        """Whether its result is final enough to be reported to the proposer."""
        return self.status != ""


class Proposer(Protocol):
    """One source of hypotheses. Its state must survive a kill at any instruction.

    The campaign writes a hypothesis to its journal before it starts any run of it. A hypothesis that was asked for
    but is missing from `attempts` after a restart was lost in a crash; its proposer must discard it.
    """

    @property
    def name(self) -> str:
        """The proposer's name: queue, grid, random, tpe ..."""

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea, given all attempts so far (running ones have no status); None if there is none at present."""

    def tell(self, attempt: Attempt) -> None:
        """Report a settled attempt; repeated calls with the same attempt have no effect."""
        return

    def close(self) -> None:
        """Release open resources."""
        return
