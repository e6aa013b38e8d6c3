"""What a loop that keeps whatever beats its best single run has shown: how much of it noise alone would give.

If no attempt changes anything, the measured values are draws of one distribution, and one is kept whenever it is the
best so far. The n-th of them is that with probability 1/n, independently of the others and of the distribution
(A. Renyi, "On the extreme elements of observations", 1962): so the number of keeps is known without knowing the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import noise_of

NEAR = 2.22  # sd of a normal distribution, by the lower quartile of the differences of two draws
LEAST_PAIRS = 10
SURE = 0.95


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One row of the loop's ledger, in its order."""

    name: str  # its commit, or what else it is called
    value: float | None  # None: it has none, or failed
    kept: bool
    words: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A kept attempt that is the best so far, the one that was it before, and the gain in the metric's unit."""

    attempt: LoopRow
    over: LoopRow
    gain: float


@dataclass(frozen=True, slots=True)
class Ratchet:
    """The loop as a whole."""

    measured: int  # attempts with a value, the first one among them
    kept: int
    steps: tuple[Step, ...]
    by_noise: float  # steps to expect if no attempt changes anything
    by_noise_at_most: int  # steps that noise exceeds in at most 5 of 100 such loops
    sd: float | None  # of one run
    replicated: bool  # it is from runs of the same code, else from how near attempts on the same code lie

    @property
    def more_than_noise(self) -> bool:
        """Whether noise alone would hardly give so many steps."""
        return len(self.steps) > self.by_noise_at_most

    def size(self, step: Step) -> float | None:
        """A gain in sd of the difference of two runs."""
        return step.gain / (self.sd * math.sqrt(2)) if self.sd else None


def ratchet(objective: Objective, loop_rows: Sequence[LoopRow]) -> Ratchet:
    """Look at a loop's attempts in their order; the first that was kept is its baseline."""
    measured = [one for one in loop_rows if one.value is not None]
    steps: list[Step] = []
    best: LoopRow | None = None
    for one in (one for one in measured if one.kept):
        if best is None or best.value is None or one.value is None:
            best = one
        elif objective.better(one.value, best.value):
            steps.append(Step(one, best, objective.change(one.value - best.value)))
            best = one
    chances = [1 / n for n in range(2, len(measured) + 1)]
    known = _replicated_sd(measured)
    sd = _sd_nearby(measured) if known is None else known
    kept = sum(one.kept for one in measured)
    return Ratchet(len(measured), kept, tuple(steps), math.fsum(chances), _at_most(chances), sd, known is not None)


def _at_most(chances: Sequence[float]) -> int:
    """The smallest number that the sum of such independent events does not exceed in SURE of all cases."""
    numbers = [1.0]  # probability of each count so far
    for chance in chances:
        numbers = [
            stays * (1 - chance) + more * chance for stays, more in zip([*numbers, 0.0], [0.0, *numbers], strict=True)
        ]
    total = 0.0
    for count, share in enumerate(numbers):
        total += share
        if total >= SURE:
            return count
    return len(chances)


def _replicated_sd(loop_rows: Sequence[LoopRow]) -> float | None:
    """From attempts of one name and in the same words, whose values differ, pooled; None without any."""
    runs: dict[tuple[str, str], list[float]] = {}
    for one in loop_rows:
        if one.value is not None:
            runs.setdefault((one.name, one.words), []).append(one.value)
    return noise_of(values for values in runs.values() if len(set(values)) > 1).sd


def _sd_nearby(loop_rows: Sequence[LoopRow]) -> float | None:
    """From attempts on the same code: those that change little lie as near to each other as two runs do.

    None for too few. Attempts that all change much make it too large.
    """
    together: list[list[float]] = [[]]
    for one in loop_rows:
        if one.kept:
            together.append([])
        elif one.value is not None:
            together[-1].append(one.value)
    apart = sorted(abs(a - b) for values in together for at, a in enumerate(values) for b in values[at + 1 :] if a != b)
    return NEAR * apart[len(apart) // 4] if len(apart) >= LEAST_PAIRS else None
