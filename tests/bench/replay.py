"""What a rule of early stopping would have done to runs that are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.pruning import Curve, MedianRule, Stop


@dataclass(frozen=True, slots=True)
class Replay:
    """The effect that a rule would have had on past runs."""

    kills_winner: bool  # whether the run with the best last value would have been stopped
    saved: float  # share of all steps that would not have been run


def replay(median_rule: MedianRule, curves: Sequence[Curve], objective: Objective) -> Replay:
    """Apply a rule to past runs in the order in which they ran, each compared with the (cut) curves of earlier ones."""
    stopped: set[int] = set()
    seen: list[Curve] = []
    for number, curve in enumerate(curves):
        length, stop = first_stop(median_rule, curve, seen, objective)
        if stop is not None:
            stopped.add(number)
        seen.append(curve[:length])
    steps, run = (sum(curve[-1][0] for curve in some if curve) for some in (curves, seen))
    return Replay(_winner(curves, objective) in stopped, 1 - run / steps if steps else 0.0)


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


def _winner(curves: Sequence[Curve], objective: Objective) -> int | None:
    """The first run with the best last value."""
    best: int | None = None
    for number, curve in enumerate(curves):
        if objective.last(curve) is None:
            continue
        if best is None or objective.better(curve[-1][1], curves[best][-1][1]):
            best = number
    return best
