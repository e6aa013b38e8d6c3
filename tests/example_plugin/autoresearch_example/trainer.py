"""A trainer that prints `[dice] turn=3 score=0.5`, and writes the same numbers to scores.txt."""

from __future__ import annotations

import re

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.trainer import Recipe, Source, Trainer

LINE = re.compile(r"\[dice\] turn=(\d+) score=(\S+)")


class Dice(Trainer):
    name = "dice"

    def recognises(self, command: str) -> bool:
        return "dice.py" in command

    def signals(self) -> tuple[SignalPattern, ...]:
        # The Runner watches for this; it runs without this package, on other hosts too.
        return (SignalPattern(SignalKind.STEP, r"\[dice\] turn=(?P<step>\d{1,9})", needles=("[dice] turn=",)),)

    def read_line(self, line: str) -> Reading | None:
        match = LINE.match(line)
        return Reading(SignalKind.STEP, int(match[1]), {"score": float(match[2])}) if match else None

    def objective(self, recipe: Recipe) -> Objective:
        return Objective("score", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        return (Source("scores", "scores.txt"),)
