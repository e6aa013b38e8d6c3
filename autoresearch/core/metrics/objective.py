"""Objective: the metric, its direction, and how a series becomes one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from autoresearch.core.metrics import expression
from autoresearch.core.metrics.expression import Combined, Expression, ExpressionError, MetricKey, Point, parse
from autoresearch.core.metrics.signal import Reading
from autoresearch.core.text.regex import later

# Names that say which way is better, by words in small letters between blanks. A new kind of name is asked for instead.
_FALLS = later(
    r" (?:\w*(?:loss|error|perplexity|regret)|cross ?entropy|(?:misclass|fail|violat|collision)\w*"
    r"|costs?|gap|latency|bits per|(?:mc|[nrsw])*m(?:s|a|as|ap|sl)e|[cdetw]er|f[dnp]r|b?ce|xent|nll|kl|errs?|errors"
    r"|losses|ppl|bp[bcd]|fid|lpips|ece|brier|chamfer|hamming|levenshtein|edit distance|runtime|drawdown"
    r"|(?:time|distance|steps|episodes|epochs|samples) to)(?= )"
)
_RISES = later(
    r" (?:\w*(?:reward|return|accuracy|success|likelihood)s?|acc\d*|rew|ret|f1|auc|auroc|roc|bleu|rouge\w?|meteor"
    r"|prec(?:ision)?|recall|m?ap\d*|m?iou|dice|psnr|ssim|elo|ndcg|mrr|hits|em|exact match|top\d+|pass(?:ed)?"
    r"|win|winrate|solved|correct|fitness|throughput|fps|speedup|per sec(?:ond)?|mcc|kappa|r2|elbo|profit|sharpe)(?= )"
)
_SCORES = later(r" \w*scores?(?= )")  # of a Brier score, lower ones are better
STEADY, _LAST = 0.05, 20
_NEGATED = later(r" (?:neg|negative|minus|inv|inverse)(?= )")
_JOINED = later(r"(?<=[a-z])(?=[A-Z][a-z])|[\W_]+")  # where a name's words end: `valLoss`, `val/acc@1`


class Direction(StrEnum):
    """Which values are better; UNKNOWN where nobody said it, which is enough for a lone run."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a campaign optimises: the last value of `metric`, if finite, counts; the best is reported beside it.

    `metric` is a key, or an expression over keys (`core.metrics.expression`); if a recorded key has the same
    text as an expression, the key is used. The last value of an expression is its value over the whole run, its best
    the best value that it had at any step. "": nobody knows it before the first baseline runs of a campaign are over.
    """

    metric: str
    direction: Direction = Direction.MAXIMIZE

    def better(self, a: float, b: float) -> bool:
        """Whether a beats b; NaN never does, and nothing does where the direction is unknown."""
        if math.isnan(a) or not self.direction:
            return False
        if math.isnan(b):
            return True
        return a > b if self.direction is Direction.MAXIMIZE else a < b

    def change(self, gain: float) -> float:
        """The signed change of the metric that people read, for a gain (positive is better): a lower loss is negative.

        The same turns a change into a gain.
        """
        return gain if self.direction is Direction.MAXIMIZE else 0.0 - gain

    @property
    def good(self) -> str:
        """Which values are good, in a word: `high` or `low`."""
        return "high" if self.direction is Direction.MAXIMIZE else "low"

    @property
    def better_words(self) -> str:
        """`higher is better` or `lower is better`."""
        return f"{self.good}er is better"

    def __str__(self) -> str:
        """The metric and, if it is known, its direction: `val_loss, minimize`."""
        if not self.metric:
            return "chosen after the first baseline runs"
        return f"{self.metric}, {self.direction}" if self.direction else self.metric

    @property
    def keys(self) -> tuple[str, ...]:
        """The metrics to read: the one it names, or those of its expression."""
        return expression.keys(self._expression)

    def keys_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """The metrics to read, given the names that were recorded: `metric` itself if it is among them."""
        return (self.metric,) if self.metric in names else self.keys

    def series(self, readings: Iterable[Reading]) -> list[Point]:
        """(step, value) of the metric in reading order; for an expression, its value at each step."""
        read = tuple(readings)
        return _points(self.metric, read) or expression.curve(self._expression, _series_of(read))

    def value(self, readings: Iterable[Reading]) -> Point | None:
        """The number that counts and its step; None if there is none or if it is not finite."""
        read = tuple(readings)
        if plain := _points(self.metric, read):
            return self.last(plain)
        point = expression.value(self._expression, _series_of(read))
        return self.last([point]) if point else None

    def last(self, series: Sequence[Point]) -> Point | None:
        """The last point; None if there is none or if it is not finite (a diverged run has no result)."""
        return series[-1] if series and math.isfinite(series[-1][1]) else None

    def best(self, series: Sequence[Point]) -> Point | None:
        """The best finite point of a series; None where the direction is unknown."""
        if not self.direction:
            return None
        best: Point | None = None
        for point in series:
            if math.isfinite(point[1]) and (best is None or self.better(point[1], best[1])):
                best = point
        return best

    @property
    def _expression(self) -> Expression:
        try:
            return parse(self.metric)
        except ExpressionError:  # reported where it was declared; records of other origin may still contain it
            return MetricKey(self.metric)


def _points(key: str, readings: Sequence[Reading]) -> list[Point]:
    return [(r.step, r.metrics[key]) for r in readings if key in r.metrics]


def _series_of(readings: Sequence[Reading]) -> Callable[[str], list[Point]]:
    return lambda key: _points(key, readings)


def usual_direction(metric: str, usual: Objective | None) -> Direction:
    """The direction of a metric: the trainer's, if it is the trainer's metric, else what its name says.

    UNKNOWN for a name that says nothing, and for an expression of several parts. ExpressionError for a malformed one.
    """
    parsed = parse(metric)
    if usual and usual.metric == metric:
        return usual.direction
    if isinstance(parsed, Combined):
        return Direction.UNKNOWN
    key = expression.keys(parsed)[0]
    return usual.direction if usual and usual.metric == key else _by_name(key)


def _by_name(key: str) -> Direction:
    """What falls decides if it is said last, as in `reward_loss`; a name that says both otherwise decides nothing."""
    words = f" {_JOINED.sub(' ', key).strip().lower()} "
    rises = [match.start() for match in _RISES.finditer(words)]
    falls = [match.start() for match in _FALLS.finditer(words)]
    if _NEGATED.search(words):
        return Direction.MINIMIZE if rises and not falls else Direction.UNKNOWN
    if falls:
        return Direction.MINIMIZE if max(falls) > max(rises, default=-1) else Direction.UNKNOWN
    return Direction.MAXIMIZE if rises or _SCORES.search(words) else Direction.UNKNOWN


def steadier(metric: str, readings: Iterable[Reading]) -> str:
    """`mean(metric, last N)` for a key whose last values differ by more than the trend explains: a return; else "".

    These are the last fifth of at least 20 values, 20 at most. They do if they scatter about their own slope by more
    than STEADY of what the whole series gains.
    """
    values = [value for _, value in Objective(metric).series(readings)]
    count = min(len(values) // 5, _LAST)
    if len(values) < _LAST or not all(map(math.isfinite, values)) or not isinstance(parse(metric), MetricKey):
        return ""
    last, first = values[-count:], values[:count]
    slope = (last[-1] - last[0]) / (count - 1)
    bends = math.fsum((b - a - slope) ** 2 for a, b in pairwise(last)) / (count - 2)
    gained = abs(math.fsum(last) - math.fsum(first)) / count
    if math.sqrt(bends / 2) <= max(STEADY * gained, 1e-9 * abs(last[-1])):  # a difference has the error of two values
        return ""
    return f'mean("{metric}", last {count})' if "," in metric else f"mean({metric}, last {count})"


def same_metric(a: str, b: str) -> bool:
    """Whether two texts name the same metric, ignoring spaces in expressions. ExpressionError for a malformed one."""
    return a == b or parse(a) == parse(b)
