"""Signs: tests for symptoms in the recorded metrics of a run; each returns what it found, in numbers, or "".

A sign compares medians of parts of a series, so that a single outlier neither triggers nor hides it; it needs
enough points for that. Keys are alternatives (one per framework): the first one that was recorded is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from autoresearch.core.metrics.expression import Point
from autoresearch.core.metrics.objective import Objective

LEAST = 6  # points that a series must have to be divided into parts
VALIDATIONS = 4  # ... that a series of validations must have


@dataclass(frozen=True, slots=True)
class SymptomEvidence:
    """The metrics of a run by name, each in the order of its steps; `failures` may cover several runs."""

    objective: Objective
    series: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)  # failure class -> runs

    def of(self, keys: Sequence[str]) -> tuple[str, list[float]]:
        """Name and finite values of the first of these metrics that has any; ("", []) if none has."""
        for key in keys:
            if values := [value for _, value in self.series.get(key, ()) if math.isfinite(value)]:
                return key, values
        return "", []

    @property
    def validations(self) -> list[float]:
        """The successive values of the objective, negated if it is minimised, so that larger is better."""
        sign = 1.0 if self.objective.better(1.0, 0.0) else -1.0
        return [sign * value for value in self.of((self.objective.metric, *self.objective.keys))[1]]


Sign = Callable[[SymptomEvidence], str]


def fell(keys: Sequence[str], share: float, least: float = 0.0) -> Sign:
    """The metric fell from above `least` to at most `share` of its initial value."""

    def sign(metrics: SymptomEvidence) -> str:
        key, first, last = _ends(metrics, keys)
        return _moved(key, first, last) if key and first > least and last <= share * first else ""

    return sign


def rose(keys: Sequence[str], factor: float, least: float = 0.0) -> Sign:
    """The metric rose to at least `factor` times its initial value, and to at least `least`."""

    def sign(metrics: SymptomEvidence) -> str:
        key, first, last = _ends(metrics, keys)
        return _moved(key, first, last) if key and last >= least and last >= factor * max(first, 0.0) else ""

    return sign


def above(keys: Sequence[str], level: float, over: float | None = None) -> Sign:
    """The median of the last third is above `level`, or, if `over` is given, any single value is above `over`."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        if len(values) < 3:
            return ""
        if over is not None and max(values) > over:
            return f"{key} reached {max(values):.3g}"
        last = median(values[-max(3, len(values) // 3) :])
        return f"{key} is {last:.3g} in the last third" if last > level else ""

    return sign


def below(keys: Sequence[str], level: float) -> Sign:
    """The median of the last third is below `level`."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        if len(values) < 3:
            return ""
        last = median(values[-max(3, len(values) // 3) :])
        return f"{key} is {last:.3g} in the last third" if last < level else ""

    return sign


def away_from(keys: Sequence[str], middle: float, by: float) -> Sign:
    """The median of the last third differs from `middle` by more than `by`."""

    def sign(metrics: SymptomEvidence) -> str:
        return above(keys, middle + by)(metrics) or below(keys, middle - by)(metrics)

    return sign


def spikes(keys: Sequence[str], factor: float, times: int = 2) -> Sign:
    """After the first tenth, at least `times` values are `factor` times the median or more."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        values = values[len(values) // 10 :]
        if len(values) < LEAST:
            return ""
        middle = median(values)
        high = [value for value in values if middle > 0 and value >= factor * middle]
        if len(high) < times or len(high) > len(values) // 4:  # too many to be spikes
            return ""
        return f"{key} has {len(high)} spikes up to {max(high):.3g}, median {middle:.3g}"

    return sign


def plateau(keys: Sequence[str], part: float = 0.08) -> Sign:
    """The metric rose and then flattened: the last third adds at most `part` of the total gain."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        if len(values) < 2 * LEAST:
            return ""
        first, middle, last = _thirds(values)
        gained = max(middle, last) - _start(values)
        if gained <= 0.02 or gained <= 2 * _jitter(values) or abs(last - middle) > part * gained:
            return ""
        return f"{key} {first:.3g} -> {middle:.3g} -> {last:.3g} by thirds: flat at the end"

    return sign


def still_rising(keys: Sequence[str], part: float = 0.2) -> Sign:
    """The last third adds more than `part` of the total gain."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        if len(values) < 2 * LEAST:
            return ""
        first, middle, last = _thirds(values)
        gained = last - _start(values)
        if gained <= 0.02 or last - middle <= part * gained or last - middle <= _jitter(values):
            return ""
        return f"{key} {first:.3g} -> {middle:.3g} -> {last:.3g} by thirds: still rising"

    return sign


def never_moved(keys: Sequence[str]) -> Sign:
    """The metric is constant throughout the run."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        still = len(values) >= LEAST and max(values) - min(values) <= 1e-9 * max(1.0, abs(values[0]))
        return f"{key} is {values[0]:.3g} in all {len(values)} steps" if still else ""

    return sign


def jagged(keys: Sequence[str], share: float) -> Sign:
    """The median change from step to step is larger than `share` of the whole range."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        spread = max(values, default=0.0) - min(values, default=0.0)
        if len(values) < 2 * LEAST or spread <= 1e-3:
            return ""
        steps = _jitter(values)
        if steps <= share * spread:
            return ""
        return f"{key} moves by {steps:.3g} from step to step, in a range of {spread:.3g}"

    return sign


def part_of(part: Sequence[str], whole: Sequence[str], share: float) -> Sign:
    """The median of one duration is more than `share` of the median of another."""

    def sign(metrics: SymptomEvidence) -> str:
        (one, some), (all_, total) = metrics.of(part), metrics.of(whole)
        if len(some) < 3 or len(total) < 3 or median(total) <= 0:
            return ""
        ratio = median(some) / median(total)
        if not share < ratio <= 1.5:  # a larger ratio means that the two were not measured alike
            return ""
        return f"{one} is {ratio:.0%} of {all_} ({median(some):.3g} of {median(total):.3g} s)"

    return sign


def best_was_earlier(part: float = 0.2) -> Sign:
    """The objective ended below its best by more than `part` of what it had gained."""

    def sign(metrics: SymptomEvidence) -> str:
        values = metrics.validations
        if len(values) < VALIDATIONS:
            return ""
        best, gained = max(values), max(values) - values[0]
        lost = best - values[-1]
        if gained <= 0 or lost <= part * gained or values.index(best) >= len(values) - 2:
            return ""
        return f"{metrics.objective.metric} was {abs(best):.4g} and ended at {abs(values[-1]):.4g}"

    return sign


def apart(keys: Sequence[str], least: float = 0.05) -> Sign:
    """In the second half the training metric gains `least` or more, the objective at most a fifth of that."""

    def sign(metrics: SymptomEvidence) -> str:
        key, values = metrics.of(keys)
        ours = metrics.validations
        if len(values) < 2 * LEAST or len(ours) < VALIDATIONS or key == metrics.objective.metric:
            return ""
        half = len(values) // 2
        gained = median(values[-max(3, half // 2) :]) - median(values[half - 2 : half + 3])
        held_out = ours[-1] - ours[len(ours) // 2]
        if gained < least or held_out > 0.2 * gained:
            return ""
        return f"{key} gains {gained:+.3g} in the second half, {metrics.objective.metric} {held_out:+.3g}"

    return sign


def not_finite() -> Sign:
    """Some metric is NaN or infinite at some step."""

    def sign(metrics: SymptomEvidence) -> str:
        for key in sorted(metrics.series):
            bad = [step for step, value in metrics.series[key] if not math.isfinite(value)]
            if bad:
                return f"{key} is not finite from step {bad[0]} on"
        return ""

    return sign


def failed_with(*kinds: str) -> Sign:
    """Some runs ended with a failure of one of these classes."""

    def sign(metrics: SymptomEvidence) -> str:
        counts = [f"{kind} in {metrics.failures[kind]}" for kind in kinds if metrics.failures.get(kind)]
        return f"runs that failed: {', '.join(counts)}" if counts else ""

    return sign


def both(one: Sign, other: Sign) -> Sign:
    """Both signs are present."""

    def sign(metrics: SymptomEvidence) -> str:
        first = one(metrics)
        second = other(metrics) if first else ""
        return f"{first}; {second}" if second else ""

    return sign


def either(*signs: Sign) -> Sign:
    """The first of these signs that is present."""
    return lambda metrics: next((numbers for sign in signs if (numbers := sign(metrics))), "")


def _ends(metrics: SymptomEvidence, keys: Sequence[str]) -> tuple[str, float, float]:
    """Key, and the medians of the first and the last fifth; ("", 0, 0) if there are fewer than LEAST points."""
    key, values = metrics.of(keys)
    if len(values) < LEAST:
        return "", 0.0, 0.0
    part = max(2, len(values) // 5)
    return key, median(values[:part]), median(values[-part:])


def _moved(key: str, first: float, last: float) -> str:
    return f"{key} {first:.3g} -> {last:.3g}"


def _thirds(values: Sequence[float]) -> tuple[float, float, float]:
    third = len(values) // 3
    return median(values[:third]), median(values[third : len(values) - third]), median(values[-third:])


def _start(values: Sequence[float]) -> float:
    """The initial value of a series: the median of its first tenth, of at least three points."""
    return median(values[: max(3, len(values) // 10)])


def _jitter(values: Sequence[float]) -> float:
    """The median absolute change from one value to the next."""
    return median(abs(b - a) for a, b in pairwise(values))
