"""Constraint: a limit on another metric than the objective, which no idea may break to be kept: `memory_gb <= 40`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoresearch.core.metrics.objective import ExpressionError, Objective, parse
from autoresearch.core.metrics.signal import nearest_lines
from autoresearch.core.run.ending import CONSTRAINT_BROKEN, CONSTRAINT_UNREAD
from autoresearch.core.text.regex import later

MEMORY = "memory_gb"
"""What the Runner measures of any run (10**9 bytes): the peak of its GPUs, or of its processes where it has none."""
NOTATION = "write it like 'memory_gb <= 40' or 'val/toxicity < 0.1'"
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_METRIC = r"""(?=\S)(?:"[^"]*"|[^<>"])+?"""
_TEXT = later(rf"\s*(?P<metric>{_METRIC})\s*(?P<sign><=|>=|<|>)\s*(?P<bound>{_NUMBER})\s*\Z")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint. Its metric is a key or an expression, as that of an objective; its last value counts."""

    metric: str
    sign: str  # one of <=, >=, <, >
    bound: float

    def __str__(self) -> str:
        short = f"{self.bound:g}"
        return f"{self.metric} {self.sign} {short if float(short) == self.bound else repr(self.bound)}"

    @property
    def key(self) -> str:
        """The metric to read."""
        return Objective(self.metric).key

    @property
    def upper(self) -> bool:
        """Whether lower values are the better ones."""
        return self.sign.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound; NaN never is."""
        return _SIGNS[self.sign](value, self.bound)


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a run is judged like a crash: the first constraint that it broke, or that it does not show to be kept."""

    failure: str  # CONSTRAINT_BROKEN or CONSTRAINT_UNREAD
    reason: str


def parse_constraint(text: str) -> Constraint:
    """Parse `memory_gb <= 40`. ValueError, with one clause, for anything else."""
    found = _TEXT.match(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no constraint: {NOTATION}")
    try:
        parse(found["metric"])
    except ExpressionError as error:
        raise ValueError(f"{text[:80]!r}: {error}") from None
    bound = float(found["bound"])
    if not math.isfinite(bound):
        raise ValueError(f"{text[:80]!r}: {found['bound']} is no number that can be reached")
    return Constraint(found["metric"], found["sign"], bound)


def parsed(texts: Iterable[str]) -> tuple[Constraint, ...]:
    """Those of a spec, which were parsed before it was written; what else somebody wrote there is left out."""
    found = []
    for text in texts:
        try:
            found.append(parse_constraint(text))
        except ValueError:
            continue
    return tuple(found)


def breach(constraints: Sequence[Constraint], values: Mapping[str, float], logged: Collection[str]) -> Breach | None:
    """The first constraint that a run broke, else the first whose metric it did not log; None if it kept all.

    values: by the metric of each constraint. logged: the names of all metrics of the run.
    """
    for one in constraints:
        value = values.get(one.metric)
        if value is not None and not one.holds(value):
            return Breach(CONSTRAINT_BROKEN, f"{one.metric} is {value:.6g}, and the constraint is {one}")
    for one in constraints:
        if one.metric not in values:
            near = "".join(nearest_lines([one.key], sorted(logged), 1))
            most_like = f"; the nearest name that was logged is {near}" if near else ""
            return Breach(CONSTRAINT_UNREAD, f"{one.metric} was not logged, so {one} may be broken{most_like}")
    return None


def constraint_words(texts: Sequence[str]) -> str:
    """The constraints of a spec as a plan shows them, with what is meant by `memory_gb`; "" without any."""
    measured = any(one.metric == MEMORY for one in parsed(texts))
    what = f" ({MEMORY}: the peak of a run's GPUs, or of its processes where it has none)" if measured else ""
    return "; ".join(texts) + what


def as_cell(values: Mapping[str, float]) -> str:
    """The values of a run as its row in the ledger holds them: `memory_gb=12.3; val/toxicity=0.05`."""
    return "; ".join(f"{metric}={value!r}" for metric, value in values.items())


def of_cell(cell: str) -> dict[str, float]:
    """The same read back; what somebody wrote there by hand and is no number is left out."""
    found = dict[str, float]()
    for part in cell.split("; "):
        metric, _, text = part.rpartition("=")
        try:
            found[metric] = float(text)
        except ValueError:
            continue
    return found
