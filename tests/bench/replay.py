"""What a rule of early stopping would have done to runs that are over."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import Curve, MedianRule, Stop


@dataclass(frozen=True, slots=True)
class Replay:
    """The effect that a rule would have had on past runs."""

    stopped: dict[int, Stop]  # number of the run, in the order given
    winner: int | None  # the run with the best last value; None if none has one
    best_left: int | None  # the best of the runs that would have finished
    lost: float  # how much better the winner is than `best_left`; 0 if they are the same
    saved: float  # share of all steps that would not have been run

    @property
    def kills_winner(self) -> bool:
        """Whether the run that won in the end would have been stopped."""
        return self.winner in self.stopped

    def sentence(self) -> str:
        """The result as a sentence."""
        begins = f"would have ended {len(self.stopped)} runs and saved {self.saved:.0%} of the steps"
        if self.winner is None:
            return f"{begins}; no run has a result"
        if not self.kills_winner:
            return f"{begins}; the winner would have lived"
        return f"{begins}, but ended the winner ({self.stopped[self.winner]}), a loss of {self.lost:.4g}"


def replay(
    median_rule: MedianRule, curves: Sequence[Curve], objective: Objective, *, spared: Collection[int] = ()
) -> Replay:
    """Apply a rule to past runs in the order in which they ran, each compared with the (cut) curves of earlier ones.

    `spared` are the numbers of runs that are never stopped, such as the baseline's; others are compared with them.
    """
    stopped: dict[int, Stop] = {}
    seen: list[Curve] = []
    for number, curve in enumerate(curves):
        length, stop = (len(curve), None) if number in spared else first_stop(median_rule, curve, seen, objective)
        if stop is not None:
            stopped[number] = stop
        seen.append(curve[:length])
    winner = _winner(curves, range(len(curves)), objective)
    left = _winner(curves, [n for n in range(len(curves)) if n not in stopped], objective)
    lost = math.nan if winner is None or left is None else abs(curves[winner][-1][1] - curves[left][-1][1])
    steps, run = (sum(curve[-1][0] for curve in some if curve) for some in (curves, seen))
    return Replay(stopped, winner, left, lost, 1 - run / steps if steps else 0.0)


def first_stop(
    median_rule: MedianRule, curve: Curve, others: Sequence[Curve], objective: Objective
) -> tuple[int, Stop | None]:
    """The number of validations of a complete curve that would have been run, and the reason for stopping, if any.

    The last one is never judged: nothing could be saved.
    """
    for length in range(1, len(curve)):
        stop = median_rule.judge(curve[:length], others, objective)
        if stop is not None:
            return length, stop
    return len(curve), None


def _winner(curves: Sequence[Curve], numbers: Sequence[int], objective: Objective) -> int | None:
    """The first run with the best last value."""
    best: int | None = None
    for number in numbers:
        if objective.last(curves[number]) is None:
            continue
        if best is None or objective.better(curves[number][-1][1], curves[best][-1][1]):
            best = number
    return best
