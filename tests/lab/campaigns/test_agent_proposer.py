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
        self.name, self.left = name, count

    def ask(self, attempts: Sequence[Attempt]) -> Hypothesis | None:
        if not self.left:
            return None
        self.left -= 1
        return Hypothesis(f"{self.name}-{self.left}", "an idea", proposer=self.name)


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
