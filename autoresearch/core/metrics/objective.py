"""Objective: the metric, its direction, and how a series becomes one number.

A metric is a key, with any characters, unless its text begins like an expression over one:

    val-core/openai/gsm8k/acc/mean@1        the last point
    max(val/pass@1)                         max min mean first last of a key
    mean(reward, last 5)                    over its last five points
    mean("a, b", last 5)                    a key with a comma, or that looks like an expression, in quotes
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, pairwise

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.text.regex import later

WORDS = ("max", "min", "mean", "first", "last")
EXPRESSIONS = "a key as it is written, or max(key), mean(key, last 5); a key with a comma in quotes"
_FUNCTION = rf"(?:{'|'.join(WORDS)})\s*\("
# what begins as one of these, or as arithmetic on them, is no key: it is read, or refused
_STARTS = later(rf"\s*(?:[-+(]\s*|[\d.]+(?:e[-+]?\d+)?\s*[-+*/]\s*)*(?:{_FUNCTION}|[\"'])")
_KEY = rf"\"[^\"]+\"|'[^']+'|(?![\s\"']|{_FUNCTION})(?:[^(),]|\([^()]*\))+?"
_EXPRESSION = later(
    rf"\s*(?:(?P<word>{'|'.join(WORDS)})\s*\(\s*(?P<key>{_KEY})\s*(?:,\s*last\s+(?P<last>[1-9]\d{{0,8}})\s*)?\)"
    r"|(?P<quoted>\"[^\"]+\"|'[^']+'))\s*"
)

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


Point = tuple[int, float]  # step, value


class ExpressionError(ValueError):
    """A syntax error in an expression."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """One of `WORDS` over the points of one key, as in `max(reward, last 5)`; a key alone is its `last`."""

    word: str
    key: str
    last: int | None = None  # only so many points count

    def of(self, points: Sequence[Point]) -> Point | None:
        """Its value and the step at which it was reached; None without points.

        max and min skip values that are not finite; a mean over any such value is NaN.
        """
        points = points[-self.last :] if self.last else points
        if not points or self.word in ("first", "last"):
            return None if not points else points[0] if self.word == "first" else points[-1]
        finite = [point for point in points if math.isfinite(point[1])]
        if self.word == "mean":
            whole = len(finite) == len(points)
            return points[-1][0], math.fsum(v for _, v in points) / len(points) if whole else math.nan
        if not finite:
            return points[-1][0], math.nan
        return (max if self.word == "max" else min)(finite, key=lambda point: point[1])

    def curve(self, points: Sequence[Point]) -> list[Point]:
        """Its value at each of the points, from those up to it; the last equals `of` up to rounding."""
        return [(step, now) for (step, _), now in zip(points, self._running(points), strict=True)]

    def _running(self, points: Sequence[Point]) -> Iterator[float]:
        values = [v for _, v in points]
        if self.last is not None:
            for end in range(1, len(points) + 1):
                now = self.of(points[max(0, end - self.last) : end])
                yield now[1] if now else math.nan
        elif self.word == "last":
            yield from values
        elif self.word == "first":
            yield from values[:1] * len(values)
        elif self.word == "mean":
            yield from (total / n for n, total in enumerate(accumulate(values), 1))
        else:
            choose, worst = (max, -math.inf) if self.word == "max" else (min, math.inf)
            best = accumulate((v if math.isfinite(v) else worst for v in values), choose)
            yield from (v if math.isfinite(v) else math.nan for v in best)


@lru_cache(maxsize=256)
def parse(text: str) -> Reduced:
    """Parse a key or an expression. ExpressionError, with what can be written, for what only begins like one."""
    if not _STARTS.match(text):
        return Reduced("last", text)
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise ExpressionError(f"{text[:200]!r} is not understood: write {EXPRESSIONS}")
    key = (match["quoted"] or match["key"]).strip()
    last = int(match["last"]) if match["last"] else None
    return Reduced(match["word"] or "last", key[1:-1] if key[0] in "\"'" else key, last)


def near_miss(text: str) -> str:
    """The function that was probably meant by a key such as `avg(reward)`, here `mean(...)`; "" if there is none."""
    call = re.match(r"\s*(?P<word>[a-z_]{2,12})\s*\(.*\)\s*\Z", text, re.IGNORECASE)
    meant = {
        "avg": "mean", "average": "mean", "maximum": "max", "best": "max", "minimum": "min", "final": "last",
        "latest": "last", **{word.upper(): word for word in WORDS}, **{word.title(): word for word in WORDS},
    }  # fmt: skip
    word = call["word"] if call else ""
    return f"{meant[word]}(...)" if word in meant else ""


class Direction(StrEnum):
    """Which values are better; UNKNOWN where nobody said it, which is enough for a lone run."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a campaign optimises: the last value of `metric`, if finite, counts; the best is reported beside it.

    `metric` is a key, or an expression over one, as above; if a recorded key has the same text as an expression, the
    key is used. The last value of an expression is its value over the whole run, its best
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
    def key(self) -> str:
        """The metric to read: the one it names, or that of its expression."""
        return self._expression.key

    def key_among(self, names: Iterable[str]) -> str:
        """The metric to read, given the names that were recorded: `metric` itself if it is among them."""
        return self.metric if self.metric in names else self.key

    def series(self, readings: Iterable[Reading]) -> list[Point]:
        """(step, value) of the metric in reading order; for an expression, its value at each step."""
        read = tuple(readings)
        return _points(self.metric, read) or self._expression.curve(_points(self.key, read))

    def value(self, readings: Iterable[Reading]) -> Point | None:
        """The number that counts and its step; None if there is none or if it is not finite."""
        read = tuple(readings)
        if plain := _points(self.metric, read):
            return self.last(plain)
        point = self._expression.of(_points(self.key, read))
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
    def _expression(self) -> Reduced:
        try:
            return parse(self.metric)
        except ExpressionError:  # reported where it was declared; records of other origin may still contain it
            return Reduced("last", self.metric)


def _points(key: str, readings: Sequence[Reading]) -> list[Point]:
    return [(r.step, r.metrics[key]) for r in readings if key in r.metrics]


def usual_direction(metric: str, usual: Objective | None) -> Direction:
    """The direction of a metric: the trainer's, if it is the trainer's metric, else what its name says.

    UNKNOWN for a name that says nothing. ExpressionError for a malformed expression.
    """
    key = parse(metric).key
    return usual.direction if usual and usual.metric in (metric, key) else _by_name(key)


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
    key = Reduced("last", metric)
    if len(values) < _LAST or not all(map(math.isfinite, values)) or parse(metric) != key:
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
