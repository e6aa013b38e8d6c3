"""Proposer: where hypotheses come from, as one narrow interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from autoresearch.core.campaign.hypothesis import Hypothesis


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempted idea of a campaign, as far as it is known now."""

    index: int  # the baseline is 1
    hypothesis: Hypothesis
    # keep, discard, crash; "" while its first run is under way; "skipped" where it never ran; "pruned" where its
    # curve ended it early
    status: str = ""
    value: float | None = None  # the mean of the objective over its runs; None where none was measured
    runs: int = 0  # that are over

    @property
    def settled(self) -> bool:
        """Whether its proposer can be told."""
        return self.status != ""


class Proposer(Protocol):
    """One source of hypotheses. What it must remember survives a kill at any instruction.

    The campaign writes a hypothesis to its journal before anything of it is started; one that was asked for
    and is in no `attempts` of a later life was lost in a crash and has to be forgotten by its proposer.
    """

    @property
    def name(self) -> str:
        """queue, grid, random, tpe ..."""

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        """The next idea, given every attempt so far (running ones have no status); None: dry at present."""

    def tell(self, attempt: Attempt) -> None:
        """An attempt is settled; telling it twice changes nothing."""

    def close(self) -> None:
        """Free what is held open."""
