"""Seeding: whether another seed really changes the results, tested on the runs themselves.

A script with a hard-coded seed gives every "replicate" the same numbers, up to the jitter of GPU kernels. Such
copies are not replicates: their spread does not measure chance, and any worthless difference passes a test against it.
So the baseline's second run repeats the first one's seed, its third takes another, and their whole series are compared.

At each step at which the runs differ at all, the difference between seeds is divided by that within one seed (a
difference counts as at least one unit of the last digit written; quotients are limited to 1/1,000 to 1,000). The seed
has an effect if the geometric mean of the quotients reaches TIMES, over the whole series or over its first third: on
GPUs, runs of one seed start alike and drift apart. A series of one or two such steps has to reach FEW_TIMES. The seed
also has an effect if runs of one seed are equal to the last digit and runs of different seeds are not, at five steps
or more.

An objective with one or two values, such as that of an evaluation, is not a series: then all other logged metrics are
compared in the same way, except times, throughput and memory.

Runs that no seed changes are copies, or replicates where nothing seeds them: `from_the_start` tells by their curves.
docs/seeds.md has the error rates. TIMES corresponds to a jitter of a tenth of the spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations

from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later

VARIABLE = "AUTORESEARCH_SEED"
"""Set for every run of a campaign, wherever else its seed is written."""

DECLARE = (
    f"to let the seed vary, let the training read ${VARIABLE}, or declare by a note, or by `prove --seed`, what is so: "
    "`- seed: KEY` takes it, `- seed: random` draws anew each time (as latencies do), `- seed: none`"
)
"""The advice if the seed has no effect."""

TIMES = 10.0
FEW, FEW_TIMES = 3, 20.0
ALIKE = 5
LONG = 9  # values of a curve by which copies are told from replicates
NEARLY = 5.0
MOST = math.log(1000.0)

_OF_THE_MACHINE = later(
    r"(?i)tim(?:e|ing)|elapsed|(?:^|[^a-z])eta(?:$|[^a-z])|second|sec\b|_s(?:$|/)|_ms\b|through|perf/|per_|speed|tokens"
    r"|tps|flops|mfu|mem|gpu|cpu|_gb|seed"
)


class Randomness(StrEnum):
    """Where the differences between runs of the same code come from."""

    SEED = "seed"  # the seed that a run is given reaches its training
    FIXED = "fixed"  # the training seeds itself: runs are copies, up to the jitter of kernels
    RANDOM = "random"  # nothing seeds it: every run is a replicate
    NONE = "none"  # it has no randomness, as is declared and as equal runs show
    UNKNOWN = "unknown"  # as fixed, until it is declared


UNSEEDED = (Randomness.RANDOM, Randomness.FIXED, Randomness.NONE)
"""What the notes may declare where no seed reaches the training."""


Series = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class SeedWay:
    """How a seed is passed to the training. `kind`: key, flag or variable."""

    kind: str
    name: str
    fixed: int | None = None  # the value that the blueprint itself sets

    @property
    def first(self) -> int:
        """The seed of the first run of every idea."""
        return self.fixed or 0

    def __str__(self) -> str:
        words = {"key": "recipe key", "flag": "flag", "variable": "variable"}
        return f"{words[self.kind]} {self.name}"


@dataclass(frozen=True, slots=True)
class SeededRun:
    """A finished run: its seed, its objective as a series of (step, value), and its other logged metrics."""

    seed: int
    series: Series
    others: Mapping[str, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of comparing runs. `values`: the number of values at which they differ at all."""

    seen: bool
    times: float  # geometric mean of the quotients; 1 if the runs do not differ
    values: int
    exact: bool  # runs of one seed are equal to the last digit
    others: bool = False  # computed from the other logged metrics, as the objective has too few values

    @property
    def reason(self) -> str:
        """The result as one clause with the numbers."""
        if not self.values:
            return f"runs with another seed are equal to the last digit{' of all that is logged' * self.others}"
        values = f"{counted(self.values, 'value')}{' of the other logged metrics' * self.others}"
        times = "1,000 or more" if self.times > 999 else f"{self.times:.3g}"
        if self.exact:
            units = f"{times} unit{'s' * (times != '1')} of the last digit"
            unsure = "" if self.seen else ", which may be chance: more digits, or values at more steps, would tell"
            return f"runs with the same seed are equal, and another seed changes {values} by {units}{unsure}"
        return f"another seed changes {values}, {times} times as much as repeating the same seed does"


@dataclass(frozen=True, slots=True)
class SeedCheck:
    """Result of the baseline's first runs: whether another seed changes the results."""

    seen: bool
    reason: str  # the numbers
    by: str  # how the seed is passed to the training
    runs: int  # baseline runs started by then
    values: int  # number of steps at which the runs differ at all
    exact: bool  # whether runs with the same seed agree to the last digit
    step: float | None = None  # one unit of the last digit in their series; None in older journals
    randomness: str = ""  # one of Randomness; "" in older journals: SEED if an effect was seen, else FIXED
    why: str = ""  # what tells it, where it is not the runs


def effect(seeded_runs: Sequence[SeededRun]) -> Effect | None:
    """The effect of the seed in runs of the same, unedited code.

    None unless there are both two measured runs of one seed and a run of another.
    """
    within, between = _objective(seeded_runs)
    if not (within and between):
        return None
    measured = _compared(within, between)
    if measured.seen or max(len(run.series) for run in seeded_runs) >= FEW:
        return measured
    within, between = _pairs([(run.seed, _trained(run.others)) for run in seeded_runs])
    rest = _compared(within, between) if within and between else measured
    return replace(rest, others=True) if rest.seen else measured


def from_the_start(seeded_runs: Sequence[SeededRun]) -> Randomness:
    """Whether runs that no seed changes are copies or replicates, by their curves; UNKNOWN without long ones.

    Copies start alike and drift apart, or differ by far less than each of them changes from value to value. Replicates
    differ from the first values on as much as later, and as much as they scatter.
    """
    found = [_from_the_start([_by_step({"": run.series}) for run in seeded_runs])]
    keys = set.intersection(*({*_trained(run.others)} for run in seeded_runs)) if seeded_runs else set()
    found += [_from_the_start([_by_step({key: run.others[key]}) for run in seeded_runs]) for key in sorted(keys)]
    known = [one for one in found if one is not Randomness.UNKNOWN]
    return max(known, key=known.count) if known else Randomness.UNKNOWN


def _from_the_start(runs: Sequence[_Run]) -> Randomness:
    steps = sorted(set.intersection(*({*run} for run in runs))) if len(runs) > 1 else []
    rows = [[run[step] for run in runs] for step in steps]
    if len(rows) < LONG:
        return Randomness.UNKNOWN
    unit = last_digit(value for row in rows for value in row)
    apart = [_mean_log(list(combinations(row, 2)), unit) for row in rows]
    scatter = [
        _mean_log([((a + c) / 2, b) for a, b, c in zip(*three, strict=True)], unit)  # how far each leaves its own line
        for three in zip(rows, rows[1:], rows[2:], strict=False)
    ]
    third = len(rows) // 3
    early, late, usual = (math.fsum(some) / len(some) for some in (apart[:third], apart[-third:], scatter))
    whole = math.fsum(apart) / len(apart)
    if early < late - math.log(TIMES) or whole < usual - math.log(TIMES):
        return Randomness.FIXED
    alike = early > late - math.log(NEARLY) and whole > usual - math.log(NEARLY)
    return Randomness.RANDOM if alike and math.exp(whole) > unit * NEARLY else Randomness.UNKNOWN


def same_trace(seeded_runs: Sequence[SeededRun]) -> bool:
    """Whether all that runs with several seeds log is equal to the last digit, as where the code fixes its own seed."""
    traces = list(map(_trace, seeded_runs))
    return len(traces) > 1 and all(trace == traces[0] for trace in traces)


def same_program(seeded_runs: Sequence[SeededRun], apart: SeededRun) -> bool:
    """Whether runs of one seed are of one program: they log the same, and not what `apart` does, a run of another seed.

    What all runs log alike, as a rate that follows a schedule, tells nothing: LONG values have to differ from its own.
    """
    third = _trace(apart)
    differ = (third.get(at, value) != value for at, value in _trace(seeded_runs[0]).items())
    return same_trace(seeded_runs) and sum(differ) >= LONG


def _trace(seeded_run: SeededRun) -> _Run:
    return _by_step({"": seeded_run.series, **_trained(seeded_run.others)})


def copies(runs: Sequence[tuple[str, int]]) -> list[str]:
    """The names of the runs whose seed was used by an earlier run in this list."""
    return [name for n, (name, seed) in enumerate(runs) if seed in (earlier for _, earlier in runs[:n])]


_Run = Mapping[tuple[int, str], float]
_Pair = tuple[_Run, _Run]


def _pairs(runs: Iterable[tuple[int, Mapping[str, Series]]]) -> tuple[list[_Pair], list[_Pair]]:
    """All pairs of runs: (with the same seed, with different seeds)."""
    measured = [(seed, steps) for seed, metrics in runs if (steps := _by_step(metrics))]
    pairs = [(seed == other, (a, b)) for (seed, a), (other, b) in combinations(measured, 2)]
    return [pair for alike, pair in pairs if alike], [pair for alike, pair in pairs if not alike]


def _objective(seeded_runs: Iterable[SeededRun]) -> tuple[list[_Pair], list[_Pair]]:
    """The pairs, of the objective alone."""
    return _pairs((run.seed, {"": run.series}) for run in seeded_runs)


def _by_step(metrics: Mapping[str, Series]) -> _Run:
    return {(n, key): value for key, series in metrics.items() for n, value in series if math.isfinite(value)}


def _trained(metrics: Mapping[str, Series]) -> dict[str, Series]:
    """Metrics of the training itself: without times, throughput, memory and the seed."""
    return {key: series for key, series in metrics.items() if not _OF_THE_MACHINE.search(key)}


def _compared(within: Sequence[_Pair], between: Sequence[_Pair]) -> Effect:
    quotients, exact = list[float](), True
    for alike, apart in _steps(within, between):
        if not any(a != b for a, b in (*alike, *apart)):
            continue
        unit = last_digit(value for pair in (*alike, *apart) for value in pair)
        exact = exact and all(a == b for a, b in alike)
        quotient = _mean_log(apart, unit) - _mean_log(alike, unit)
        quotients.append(min(MOST, max(-MOST, quotient)))
    n, third = len(quotients), len(quotients) // 3
    if not n:
        return Effect(False, 1.0, 0, exact)
    whole = math.fsum(quotients) / n
    early = math.fsum(quotients[:third]) / third if third >= FEW else whole
    needed = math.log(TIMES if n >= FEW else FEW_TIMES)
    seen = max(whole, early) >= needed or (exact and n >= ALIKE)
    return Effect(seen, math.exp(whole), n, exact)


_Values = list[tuple[float, float]]


def _steps(within: Sequence[_Pair], between: Sequence[_Pair]) -> Iterable[tuple[_Values, _Values]]:
    """The pairs of values at each step that all runs have; paired by position if they have no step in common."""
    pairs = (*within, *between)
    shared = sorted(set.intersection(*({*a} & {*b} for a, b in pairs)))
    rows = {id(one): [one[at] for at in shared] or list(one.values()) for pair in pairs for one in pair}
    for n in range(min(map(len, rows.values()))):
        alike, apart = ([(rows[id(a)][n], rows[id(b)][n]) for a, b in side] for side in (within, between))
        yield alike, apart


def _mean_log(pairs: _Values, unit: float) -> float:
    return math.fsum(math.log(max(abs(a - b), unit)) for a, b in pairs) / len(pairs)


def last_digit(values: Iterable[float]) -> float:
    """The smallest unit of the last digit among finite values: 0.51 is known to 0.01 only; infinity without any."""
    from decimal import Decimal  # takes milliseconds to import

    return min((10.0 ** int(Decimal(repr(value)).as_tuple().exponent) for value in values), default=math.inf)
