"""A campaign as small as a proposer can tell: it asks, measures, tells, and remembers the attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from autoresearch.core.campaign.hypothesis import BASELINE, Hypothesis
from autoresearch.core.campaign.proposer import Attempt, Proposer
from autoresearch.errors import BlueprintError

Score = Callable[[dict[str, Any]], float | None]


class Campaign:
    """Runs ideas at once; `score` gives None for a crash. Ideas without a score are left running."""

    def __init__(self, score: Score | None = None, baseline: dict[str, Any] | None = None) -> None:
        self.score, self.baseline = score, baseline or {}
        self.attempts = [Attempt(1, Hypothesis(BASELINE, "as it is"))]
        if score is not None:
            self.attempts[0] = Attempt(1, Hypothesis(BASELINE, "as it is"), "keep", score(self.baseline), 3)

    @property
    def ideas(self) -> list[Hypothesis]:
        return [a.hypothesis for a in self.attempts[1:]]

    def step(self, proposer: Proposer) -> Hypothesis | None:
        idea = proposer.ask(self.attempts)
        if idea is not None:
            assert idea.slug not in {a.hypothesis.slug for a in self.attempts}
            assert Hypothesis.from_json(idea.to_json()) == idea, "a journal line holds it"
            attempt = Attempt(len(self.attempts) + 1, idea)
            self.attempts.append(attempt)
            if self.score is not None:
                self.settle(len(self.attempts) - 1, self.score({**self.baseline, **idea.overrides}))
        return idea

    def settle(self, place: int, value: float | None) -> None:
        was = self.attempts[place]
        status = "crash" if value is None else "keep"
        self.attempts[place] = Attempt(was.index, was.hypothesis, status, value, 1)

    def run(self, proposer: Proposer, ideas: int) -> list[Hypothesis]:
        for _ in range(ideas):
            if self.step(proposer) is None:
                break
        return self.ideas


@pytest.fixture
def campaign() -> type[Campaign]:
    return Campaign


@pytest.fixture
def read_yaml() -> Callable[[bytes, str], object]:
    def read(data: bytes, name: str) -> object:
        try:
            return yaml.safe_load(data)
        except yaml.YAMLError as bad:
            raise BlueprintError(f"{name}: not YAML", code="bad_yaml") from bad

    return read
