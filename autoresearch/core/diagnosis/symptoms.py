"""Symptoms: what goes wrong in training, as the metrics show it; the rows stand in symptoms.yaml.

A row's sign is one of the functions below: it returns what it found, in numbers, or "". It compares medians of parts of
a series, so that a single outlier neither triggers nor hides it, and needs enough points for that. The rows that apply
are shown to the agent with their numbers, with hypotheses and with what would disprove them. A symptom is a reason for
an experiment, never a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Any

from autoresearch.core.diagnosis.families import package_data
from autoresearch.core.metrics.expression import Point
from autoresearch.core.metrics.metric_keys import GRADIENT_KEYS, REWARD_KEYS
from autoresearch.core.metrics.objective import Objective
from autoresearch.runner.line_patterns import KL_KEYS

LEAST = 6  # points that a series must have to be divided into parts
VALIDATIONS = 4  # ... that a series of validations must have
_TRUE_KL = KL_KEYS[: KL_KEYS.index("actor/ppo_kl")]  # the distance to the reference
Keys = Sequence[str]  # alternatives, one per framework


@dataclass(frozen=True, slots=True)
class SymptomEvidence:
    """The metrics of a run by name, each in the order of its steps."""

    objective: Objective
    series: Mapping[str, Sequence[Point]] = field(default_factory=dict)

    def of(self, keys: Keys) -> tuple[str, list[float]]:
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


@dataclass(frozen=True, slots=True)
class Symptom:
    """One row of the table. tries: hypotheses in a clause, each with the knobs that it changes."""

    name: str
    sign: Callable[[SymptomEvidence], str]
    causes: str
    tries: Mapping[str, Sequence[str]]
    disproof: str
    keys: frozenset[str] = frozenset()  # the metrics that its sign looks at; empty: the objective, or all of them


@dataclass(frozen=True, slots=True)
class DetectedSymptom:
    """A symptom that the evidence shows, with its numbers."""

    symptom: Symptom
    numbers: str

    def lines(self, trainer: str = "") -> list[str]:
        """Lines for a prompt: the symptom with its numbers, possible causes, what to try, what would disprove it."""
        lines = [f"{self.symptom.name}: {self.numbers}", f"  may come from: {self.symptom.causes}"]
        for text, knobs in self.symptom.tries.items():
            keys = ", ".join(key for knob in knobs if (key := key_of(knob, trainer)))
            lines.append(f"  try: {text}" + (f" [{keys}]" if keys else ""))
        return [*lines, f"  disproved if: {self.symptom.disproof}"]


@cache
def symptoms(*, by_reward: bool = True) -> tuple[Symptom, ...]:
    """The rows of the table that apply to training by a reward, or to any other."""
    data = package_data("symptoms.yaml")
    keys = {**data["keys"], "true_kl": _TRUE_KL, "reward": REWARD_KEYS, "gradient": GRADIENT_KEYS}
    rows = data["symptoms"] if by_reward else [row | row["elsewhere"] for row in data["symptoms"] if "elsewhere" in row]
    return tuple(
        Symptom(
            row["name"],
            _sign(row["sign"], keys),
            row["causes"],
            {text: (knobs or "").split() for text, knobs in row["try"].items()},
            row["disproof"],
            frozenset(_keys_of(row["sign"], keys)),
        )
        for row in rows
    )


def _keys_of(words: Sequence[Any], keys: Mapping[str, Keys]) -> Iterator[str]:
    for word in words[1:]:
        if isinstance(word, list):
            yield from _keys_of(word, keys)
        elif isinstance(word, str):
            yield from keys.get(word, ())


def trained_by_reward(trainer: str, recorded: Collection[str]) -> bool:
    """Whether a campaign's runs learn by reinforcement, as far as their trainer and their metrics tell.

    A trainer that can also do without is believed as long as nothing was recorded.
    """
    if any(key in recorded for key in (*REWARD_KEYS, *_TRUE_KL)):
        return True
    named = trainer.startswith("agentjet") or trainer in package_data("symptoms.yaml")["knobs"]["lr"]
    return named and not any(key.rpartition("/")[2] in ("loss", "train_loss", "eval_loss") for key in recorded)


def key_of(knob: str, trainer: str) -> str:
    """The recipe key of a knob in a framework; "" where it has none that we know."""
    name = "agentjet" if trainer.startswith("agentjet") else trainer
    return str(package_data("symptoms.yaml")["knobs"].get(knob, {}).get(name, ""))


def symptoms_of(metrics: SymptomEvidence, *, by_reward: bool = True) -> list[DetectedSymptom]:
    """The symptoms that the metrics show, in the order of the table."""
    rows = symptoms(by_reward=by_reward)
    return [DetectedSymptom(symptom, numbers) for symptom in rows if (numbers := symptom.sign(metrics))]


def _sign(words: Sequence[Any], keys: Mapping[str, Keys]) -> Callable[[SymptomEvidence], str]:
    """The sign of a row: `[function, keys, numbers]`, or `both` or `either` of several."""
    name, *arguments = words
    if name in ("both", "either"):
        parts = [_sign(one, keys) for one in arguments]
        return lambda metrics: _combined([part(metrics) for part in parts], needs_all=name == "both")
    function = _SIGNS[name]
    values = [keys.get(one, one) if isinstance(one, str) else one for one in arguments]
    return lambda metrics: function(metrics, *values)


def _combined(numbers: Sequence[str], *, needs_all: bool) -> str:
    if needs_all:
        return "; ".join(numbers) if all(numbers) else ""
    return next(filter(None, numbers), "")


def _fell(metrics: SymptomEvidence, keys: Keys, share: float, least: float = 0.0) -> str:
    """The metric fell from above `least` to at most `share` of its initial value."""
    key, first, last = _ends(metrics, keys)
    return f"{key} {first:.3g} -> {last:.3g}" if key and first > least and last <= share * first else ""


def _rose(metrics: SymptomEvidence, keys: Keys, factor: float, least: float = 0.0) -> str:
    """The metric rose to at least `factor` times its initial value, and to at least `least`."""
    key, first, last = _ends(metrics, keys)
    return f"{key} {first:.3g} -> {last:.3g}" if key and last >= least and last >= factor * max(first, 0.0) else ""


def _above(metrics: SymptomEvidence, keys: Keys, level: float) -> str:
    """The median of the last third is above `level`."""
    key, last = _last_third(metrics, keys)
    return f"{key} is {last:.3g} in the last third" if key and last > level else ""


def _below(metrics: SymptomEvidence, keys: Keys, level: float) -> str:
    """The median of the last third is below `level`."""
    key, last = _last_third(metrics, keys)
    return f"{key} is {last:.3g} in the last third" if key and last < level else ""


def _away_from(metrics: SymptomEvidence, keys: Keys, middle: float, by: float) -> str:
    """The median of the last third differs from `middle` by more than `by`."""
    return _above(metrics, keys, middle + by) or _below(metrics, keys, middle - by)


def _spikes(metrics: SymptomEvidence, keys: Keys, factor: float) -> str:
    """After the first tenth, at least two values are `factor` times the median or more."""
    key, values = metrics.of(keys)
    values = values[len(values) // 10 :]
    if len(values) < LEAST:
        return ""
    middle = median(values)
    high = [value for value in values if middle > 0 and value >= factor * middle]
    if len(high) < 2 or len(high) > len(values) // 4:  # too many to be spikes
        return ""
    return f"{key} has {len(high)} spikes up to {max(high):.3g}, median {middle:.3g}"


def _plateau(metrics: SymptomEvidence, keys: Keys, part: float = 0.08) -> str:
    """The metric rose and then flattened: the last third adds at most `part` of the total gain."""
    told, gained, added, jitter = _gains(metrics, keys)
    return f"{told}: flat at the end" if gained > max(0.02, 2 * jitter) and abs(added) <= part * gained else ""


def _still_rising(metrics: SymptomEvidence, keys: Keys, part: float = 0.2) -> str:
    """The last third adds more than `part` of the total gain."""
    told, gained, added, jitter = _gains(metrics, keys)
    return f"{told}: still rising" if gained > 0.02 and added > max(part * gained, jitter) else ""


def _gains(metrics: SymptomEvidence, keys: Keys) -> tuple[str, float, float, float]:
    """The metric by thirds in words, its total gain, that of the last third, its jitter; no gain for a short series."""
    key, values = metrics.of(keys)
    if len(values) < 2 * LEAST:
        return "", 0.0, 0.0, 0.0
    third = len(values) // 3
    first, middle, last = map(median, (values[:third], values[third : len(values) - third], values[-third:]))
    told = f"{key} {first:.3g} -> {middle:.3g} -> {last:.3g} by thirds"
    return told, max(middle, last) - _start(values), last - middle, _jitter(values)


def _never_moved(metrics: SymptomEvidence, keys: Keys) -> str:
    """The metric is constant throughout the run."""
    key, values = metrics.of(keys)
    still = len(values) >= LEAST and max(values) - min(values) <= 1e-9 * max(1.0, abs(values[0]))
    return f"{key} is {values[0]:.3g} in all {len(values)} steps" if still else ""


def _jagged(metrics: SymptomEvidence, keys: Keys, share: float) -> str:
    """The median change from step to step is larger than `share` of the whole range."""
    key, values = metrics.of(keys)
    spread = max(values, default=0.0) - min(values, default=0.0)
    if len(values) < 2 * LEAST or spread <= 1e-3 or (steps := _jitter(values)) <= share * spread:
        return ""
    return f"{key} moves by {steps:.3g} from step to step, in a range of {spread:.3g}"


def _part_of(metrics: SymptomEvidence, part: Keys, whole: Keys, share: float) -> str:
    """The median of one duration is more than `share` of the median of another."""
    (one, some), (all_, total) = metrics.of(part), metrics.of(whole)
    if len(some) < 3 or len(total) < 3 or median(total) <= 0:
        return ""
    ratio = median(some) / median(total)
    if not share < ratio <= 1.5:  # a larger ratio means that the two were not measured alike
        return ""
    return f"{one} is {ratio:.0%} of {all_} ({median(some):.3g} of {median(total):.3g} s)"


def _best_was_earlier(metrics: SymptomEvidence, part: float = 0.2) -> str:
    """The objective ended below its best by more than `part` of what it had gained."""
    values = metrics.validations
    if len(values) < VALIDATIONS:
        return ""
    best, gained = max(values), max(values) - values[0]
    lost = best - values[-1]
    if gained <= 0 or lost <= part * gained or values.index(best) >= len(values) - 2:
        return ""
    return f"{metrics.objective.metric} was {abs(best):.4g} and ended at {abs(values[-1]):.4g}"


def _apart(metrics: SymptomEvidence, keys: Keys, least: float = 0.05) -> str:
    """In the second half the training metric gains `least` or more, the objective at most a fifth of that."""
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


def _not_finite(metrics: SymptomEvidence) -> str:
    """Some metric is NaN or infinite at some step."""
    for key in sorted(metrics.series):
        if bad := [step for step, value in metrics.series[key] if not math.isfinite(value)]:
            return f"{key} is not finite from step {bad[0]} on"
    return ""


_SIGNS: Mapping[str, Callable[..., str]] = {
    function.__name__.lstrip("_"): function
    for function in (
        *(_fell, _rose, _above, _below, _away_from, _spikes, _plateau, _still_rising, _never_moved, _jagged),
        *(_part_of, _best_was_earlier, _apart, _not_finite),
    )
}


def _last_third(metrics: SymptomEvidence, keys: Keys) -> tuple[str, float]:
    """Key, and the median of the last third; ("", 0) if there are fewer than three points."""
    key, values = metrics.of(keys)
    return (key, median(values[-max(3, len(values) // 3) :])) if len(values) >= 3 else ("", 0.0)


def _ends(metrics: SymptomEvidence, keys: Keys) -> tuple[str, float, float]:
    """Key, and the medians of the first and the last fifth; ("", 0, 0) if there are fewer than LEAST points."""
    key, values = metrics.of(keys)
    if len(values) < LEAST:
        return "", 0.0, 0.0
    part = max(2, len(values) // 5)
    return key, median(values[:part]), median(values[-part:])


def _start(values: Sequence[float]) -> float:
    """The initial value of a series: the median of its first tenth, of at least three points."""
    return median(values[: max(3, len(values) // 10)])


def _jitter(values: Sequence[float]) -> float:
    """The median absolute change from one value to the next."""
    return median(abs(b - a) for a, b in pairwise(values))
