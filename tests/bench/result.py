"""One line of the benchmark table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MORE = 0.2  # than what was reached: that much is noise


@dataclass(frozen=True)
class Result:
    """Samples of one comparison, in pairs, or bare values where the goal is about `ours` alone.

    `theirs` empty: there is nothing to compare with. `absolute`: `theirs` is shown, but the goal is about
    `ours`. `goal` is an upper bound of the median, or a lower bound where `at_least`; with `worst` it is one
    of the worst sample. `unit` is that of the samples; a ratio has none. `reached` is what the last published
    measurement came to, in the goal's unit: being more than a fifth worse fails `make bench`, and is all that
    a row without a goal is for.
    """

    what: str
    compared: str
    ours: Sequence[float]
    theirs: Sequence[float]
    goal: float | None
    unit: str = "ms"
    at_least: bool = False
    absolute: bool = False
    worst: bool = False
    note: str = ""
    reached: float | None = None

    @property
    def values(self) -> list[float]:
        """What the goal is about: the ratio of each pair, or the samples themselves."""
        if self.absolute or not self.theirs:
            return list(self.ours)
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def value(self) -> float:
        """What is compared with the goal."""
        if self.worst:
            return min(self.values) if self.at_least else max(self.values)
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        """Whether the goal is met, if there is one."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def fell_back(self) -> bool:
        """Whether it is worse than what was reached, by more than a fifth."""
        if self.reached is None:
            return False
        if self.at_least:
            return self.value < self.reached * (1 - MORE)
        return self.value > self.reached * (1 + MORE)

    @property
    def _own_unit(self) -> str:
        return f" {self.unit}" if self.unit and (self.absolute or not self.theirs) else ""

    def _spread(self) -> str:
        v = self.values
        spread = f" ({_shown(min(v))} to {_shown(max(v))})" if len(v) > 1 else ""
        return f"{_shown(statistics.median(v))}{self._own_unit}{spread}"

    def _side(self, values: Sequence[float]) -> str:
        return f"{_shown(statistics.median(values))} {self.unit}".rstrip() if values else ""

    def _bound(self) -> str:
        if self.goal is None:
            return ""
        return f"{'>=' if self.at_least else '<='} {_shown(self.goal)}{self._own_unit}"

    def _reached(self) -> str:
        return "" if self.reached is None else _shown(self.reached)

    def short(self) -> str:
        """What it is, what it came to, and what that is measured by."""
        return f"{self.what} / {self.compared or '-'}: {_shown(self.value)}, goal {self._bound() or '-'}, " + (
            f"reached {self._reached() or '-'}"
        )

    def line(self) -> str:
        """For the terminal."""
        theirs = f"; theirs {self._side(self.theirs)}" if self.theirs else ""
        note = f"  ({self.note})" if self.note else ""
        state = "BACK" if self.fell_back else "ok  " if self.met else "MISS"
        return (
            f"{state} {self.what} / {self.compared or '-'}: {self._spread()}, goal {self._bound() or '-'}, "
            f"reached {self._reached() or '-'}  [ours {self._side(self.ours)}{theirs}; n={len(self.ours)}]{note}"
        )

    def _is_met(self) -> str:
        return "" if self.goal is None else "yes" if self.met else "**no**"

    def row(self) -> str:
        """For the document: a row of a markdown table."""
        cells = (self.what, self.compared or "-", self._spread(), self._bound(), self._is_met())
        return f"| {' | '.join(cells)} |\n"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
