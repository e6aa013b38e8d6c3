"""One line of the benchmark table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Paired samples of one comparison, or bare values where there is nothing to compare with.

    `theirs` empty: the goal is about `ours` alone. `goal` is an upper bound of the median, or a lower
    bound where `at_least`.
    """

    what: str
    compared: str
    ours: Sequence[float]
    theirs: Sequence[float]
    goal: float
    unit: str = "ms"
    at_least: bool = False
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        return (
            [a / b for a, b in zip(self.ours, self.theirs, strict=True)] if self.theirs else list(self.ours)
        )

    @property
    def met(self) -> bool:
        middle = statistics.median(self.ratios)
        return middle >= self.goal if self.at_least else middle <= self.goal

    def _spread(self) -> str:
        r = self.ratios
        return f"{statistics.median(r):.3g} ({min(r):.3g} to {max(r):.3g})"

    def _side(self, values: Sequence[float]) -> str:
        return f"{statistics.median(values):.4g} {self.unit}" if values else ""

    def _bound(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.goal:g}{'' if self.theirs else ' ' + self.unit}"

    def line(self) -> str:
        return (
            f"{'ok  ' if self.met else 'MISS'} {self.what} / {self.compared or '-'}: {self._spread()} "
            f"goal {self._bound()}  [ours {self._side(self.ours)}{'; theirs ' + self._side(self.theirs) if self.theirs else ''}]"
            f"{'  ' + self.note if self.note else ''}"
        )

    def row(self) -> str:
        what = f"{self.what}{' — ' + self.note if self.note else ''}"
        return (
            f"| {what} | {self.compared or '-'} | {self._side(self.ours)} | {self._side(self.theirs)} "
            f"| {self._spread()} | {self._bound()} | {'yes' if self.met else '**no**'} |\n"
        )
