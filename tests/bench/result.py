"""One line of the benchmark table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Samples of one comparison, in pairs, or bare values where the goal is about `ours` alone.

    `theirs` empty: there is nothing to compare with. `absolute`: `theirs` is shown, but the goal is about
    `ours`. `goal` is an upper bound of the median, or a lower bound where `at_least`; with `worst` it is one
    of the worst sample. `unit` is that of the samples; a ratio has none.
    """

    what: str
    compared: str
    ours: Sequence[float]
    theirs: Sequence[float]
    goal: float
    unit: str = "ms"
    at_least: bool = False
    absolute: bool = False
    worst: bool = False
    note: str = ""

    @property
    def values(self) -> list[float]:
        """What the goal is about: the ratio of each pair, or the samples themselves."""
        if self.absolute or not self.theirs:
            return list(self.ours)
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        if self.worst:
            value = min(self.values) if self.at_least else max(self.values)
        else:
            value = statistics.median(self.values)
        return value >= self.goal if self.at_least else value <= self.goal

    @property
    def _own_unit(self) -> str:
        return f" {self.unit}" if self.unit and (self.absolute or not self.theirs) else ""

    def _spread(self) -> str:
        v = self.values
        return f"{statistics.median(v):.3g}{self._own_unit} ({min(v):.3g} to {max(v):.3g})"

    def _side(self, values: Sequence[float]) -> str:
        return f"{statistics.median(values):.4g} {self.unit}".rstrip() if values else ""

    def _bound(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.goal:g}{self._own_unit}"

    def line(self) -> str:
        """For the terminal."""
        theirs = f"; theirs {self._side(self.theirs)}" if self.theirs else ""
        note = f"  ({self.note})" if self.note else ""
        return (
            f"{'ok  ' if self.met else 'MISS'} {self.what} / {self.compared or '-'}: {self._spread()}, "
            f"goal {self._bound()}  [ours {self._side(self.ours)}{theirs}; n={len(self.ours)}]{note}"
        )

    def row(self) -> str:
        """For the document: a row of a markdown table."""
        what = f"{self.what} ({self.note})" if self.note else self.what
        return (
            f"| {what} | {self.compared or '-'} | {self._side(self.ours)} | {self._side(self.theirs)} "
            f"| {self._spread()} | {len(self.ours)} | {self._bound()} | {'yes' if self.met else '**no**'} |\n"
        )
