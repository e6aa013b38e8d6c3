"""Shelf and Hybrid: who is asked for the next idea."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.lab.ideas.idea_sources import MixedProposer


class Source:
    """Ideas of one name, as many as there are."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.left, self.told = name, count, list[str]()

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        if not self.left:
            return None
        self.left -= 1
        return Hypothesis(f"{self.name}-{self.left}", "an idea", proposer=self.name)

    def tell(self, attempt: Attempt) -> None:
        self.told.append(attempt.hypothesis.slug)

    def close(self) -> None:
        self.left = 0


def sources(share: float, agent: int, optimiser: int, asks: int) -> list[str]:
    """Who gave each of so many ideas."""
    hybrid = MixedProposer(Source("agent", agent), Source("tpe", optimiser), share)  # type: ignore[arg-type]
    attempts: list[Attempt] = []
    for index in range(asks):
        found = hybrid.ask(attempts)
        if found is None:
            break
        attempts.append(Attempt(index + 2, found))
    return [one.hypothesis.proposer for one in attempts]


@pytest.mark.parametrize(("share", "mine"), [(0.5, 10), (0.25, 5), (0.75, 15), (0.1, 2)])
def test_the_share_is_kept(share: float, mine: int) -> None:
    assert sources(share, 99, 99, 20).count("agent") == mine


def test_nobody_waits_for_the_one_that_has_nothing_ready() -> None:
    assert sources(0.5, 2, 99, 6) == ["agent", "tpe", "agent", "tpe", "tpe", "tpe"]
    assert sources(0.5, 99, 1, 4) == ["agent", "tpe", "agent", "agent"]


def test_a_share_of_nothing_is_nothing() -> None:
    assert sources(0.0, 99, 3, 9) == ["tpe"] * 3
    assert sources(1.0, 3, 99, 9) == ["agent"] * 3


def test_the_optimiser_is_told_of_its_own_only() -> None:
    optimiser = Source("tpe", 1)
    hybrid = MixedProposer(Source("agent", 1), optimiser, 0.5)  # type: ignore[arg-type]
    for slug, proposer in (("a", "agent"), ("t", "tpe"), ("baseline", "campaign")):
        hybrid.tell(Attempt(1, Hypothesis(slug, "x", proposer=proposer), "keep", 1.0, 1))
    assert optimiser.told == ["t", "baseline"]
