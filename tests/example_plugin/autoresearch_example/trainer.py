"""A trainer that prints `[dice] turn=3 score=0.5`, and writes the same numbers to scores.txt."""

from __future__ import annotations

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.trainer import Recipe, Source, Trainer


class Dice(Trainer):
    name = "dice"

    def signals(self) -> tuple[SignalPattern, ...]:
        # The Runner watches for this; it runs without this package, on other hosts too.
        line = r"\[dice\] turn=(?P<step>\d{1,9}) score=(?P<score>\S+)"
        return (SignalPattern(SignalKind.STEP, line, needles=("[dice] turn=",), whole=True),)

    def objective(self, recipe: Recipe) -> Objective:
        return Objective("score", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        return (Source("scores", "scores.txt"),)
