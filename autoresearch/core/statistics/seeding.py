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
    f"to let the seed vary, let the training read ${VARIABLE}, or name the seed that it takes (`- seed: KEY` in the "
    "notes); `- seed: random` says that each run draws anew, `- seed: none` that nothing is random"
)
"""The advice if the seed has no effect."""

TIMES = 10.0
FEW, FEW_TIMES = 3, 20.0
ALIKE = 5
LONG = 9  # values of a curve by which copies are told from replicates
NEARLY = 5.0
CERTAIN = 100.0
MOST = math.log(1000.0)
BOUNDS = (0.0, 1.0, 100.0)  # that shares and percentages cannot exceed

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
    early: float = 1.0  # `times` of the first third
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
            return f"runs with the same seed are equal, and another seed changes {values} by {units}"
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


def differs(seeded_runs: Sequence[SeededRun], baseline_runs: Sequence[SeededRun]) -> Effect | None:
    """The effect of other seeds in runs of an idea, which may itself fix a seed. None if there is nothing to compare.

    A small spread is no sign of copies: an idea may be steadier than the baseline, or near the best value there is. So
    runs are copies only where they differ no more than the baseline's runs of one seed do. The effect is seen

    - by the rule in the module docstring, against baseline runs of one seed, in the objective,
    - if the idea's runs differ nearly as much as the baseline's runs of several seeds do,
    - by the same rule in those other logged metrics in which the baseline's runs show their seed,
    - where nothing but one or two values is logged: if the baseline's runs of one seed are equal and the idea's are
      not, or all are equal to a bound, such as an accuracy of 1, which any seed may reach.
    """
    within, between = _objective(baseline_runs)
    own = _objective(seeded_runs)[1]
    if not (within and between and own):
        return None
    changed, beside = _compared(within, own), _compared(between, own)
    alike = bool(beside.values) and min(beside.times, beside.early) >= 1 / NEARLY
    alike = alike and _differing(own) >= _differing(between) / NEARLY  # coarse numbers are equal by chance now and then
    if changed.seen or alike:
        return replace(changed, seen=True)
    if logged := _logged(seeded_runs, baseline_runs):
        return logged if logged.seen or changed.values <= logged.values else changed
    few = max(len(run.series) for run in seeded_runs) < FEW
    bounded = not changed.values and all(value in BOUNDS for pair in own for run in pair for value in run.values())
    return replace(changed, seen=few and (bounded or (changed.exact and changed.values > 0)))


def scatters(seeded_runs: Sequence[SeededRun], baseline_runs: Sequence[SeededRun]) -> Effect | None:
    """The same where every run of the baseline is a replicate: whether an idea's differ nearly as much as those do."""
    own, theirs = (
        _objective([replace(run, seed=n) for n, run in enumerate(runs)])[1] for runs in (seeded_runs, baseline_runs)
    )
    if not (own and theirs):
        return None
    found = _compared(theirs, own)
    return replace(found, seen=bool(found.values) and max(found.times, found.early) >= 1 / CERTAIN)


def changed_nothing(seeded_run: SeededRun, parents: Sequence[SeededRun], baseline_runs: Sequence[SeededRun]) -> bool:
    """Whether a run of an idea logs what a run of its parent with the same seed does, in every value at every step.

    Times, throughput and memory apart. That says something only where another seed changes ALIKE of these values or
    more, at FEW steps or more: what no seed changes, or what is written too coarsely, is equal whatever an idea does.
    """
    own = _whole(seeded_run)
    if not any(one.seed == seeded_run.seed and _whole(one) == own for one in parents):
        return False
    for one in (*parents, *baseline_runs):
        other = _whole(one)
        apart = [at for at in own.keys() & other.keys() if own[at] != other[at]]
        if one.seed != seeded_run.seed and len(apart) >= ALIKE and len({step for step, _ in apart}) >= FEW:
            return True
    return False


def _whole(seeded_run: SeededRun) -> _Run:
    return _by_step({"": seeded_run.series, **_trained(seeded_run.others)})


def copied(seeded_runs: Sequence[SeededRun], baseline_runs: Sequence[SeededRun]) -> str:
    """What shows for certain that runs of an idea with several seeds are copies, as a clause; "" if nothing does.

    In ALIKE values or more, their differences are no larger than those of the baseline's runs of one seed, and in the
    geometric mean CERTAIN times less than those of its runs with several seeds. Values that are too few, or written too
    coarsely to differ by so much, prove nothing: accuracies on 200 questions are equal by chance now and then.
    """
    own = _objective(seeded_runs)[1]
    within, between = _objective(baseline_runs)
    if not (own and within and between):
        return ""
    jitter, beside = _compared(within, own), _compared(between, own)
    if jitter.seen or (jitter.exact and jitter.values) or beside.values < ALIKE or beside.times > 1 / CERTAIN:
        return ""
    times = "1,000 times or more" if beside.times < 1 / 999 else f"{1 / beside.times:.3g} times"
    return f"its runs differ {times} less than those of the baseline with other seeds, in {beside.values} values"


def _logged(seeded_runs: Sequence[SeededRun], baseline_runs: Sequence[SeededRun]) -> Effect | None:
    """The effect of other seeds on what else an idea logs, where that shows the seed in the baseline; None without."""
    ours, theirs = ([(run.seed, _trained(run.others)) for run in runs] for runs in (seeded_runs, baseline_runs))
    series = ({key for key, values in metrics.items() if len(values) >= FEW} for _, metrics in (*ours, *theirs))
    telling = {key for key in set.intersection(*series) if _shows_seed(key, theirs)}
    if not telling:
        return None

    def only(runs: Sequence[tuple[int, Mapping[str, Series]]]) -> tuple[list[_Pair], list[_Pair]]:
        return _pairs((seed, {key: metrics[key] for key in sorted(telling)}) for seed, metrics in runs)

    within, own = only(theirs)[0], only(ours)[1]
    return replace(_compared(within, own), others=True) if within and own else None


def _shows_seed(key: str, runs: Sequence[tuple[int, Mapping[str, Series]]]) -> bool:
    within, between = _pairs((seed, {key: metrics[key]}) for seed, metrics in runs)
    return bool(within and between) and _compared(within, between).seen


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
    quotients: list[float] = []
    exact = True
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
    return Effect(seen, math.exp(whole), n, exact, math.exp(early))


_Values = list[tuple[float, float]]


def _steps(within: Sequence[_Pair], between: Sequence[_Pair]) -> Iterable[tuple[_Values, _Values]]:
    """The pairs of values at each step that all runs have; paired by position if they have no step in common."""
    pairs = (*within, *between)
    shared = sorted(set.intersection(*({*a} & {*b} for a, b in pairs)))
    rows = {id(one): [one[at] for at in shared] or list(one.values()) for pair in pairs for one in pair}
    for n in range(min(map(len, rows.values()))):
        alike, apart = ([(rows[id(a)][n], rows[id(b)][n]) for a, b in side] for side in (within, between))
        yield alike, apart


def _differing(pairs: Sequence[_Pair]) -> float:
    """The share of values in which two runs differ."""
    unequal = [a[at] != b[at] for a, b in pairs for at in a.keys() & b.keys()]
    return sum(unequal) / len(unequal) if unequal else 0.0


def _mean_log(pairs: _Values, unit: float) -> float:
    return math.fsum(math.log(max(abs(a - b), unit)) for a, b in pairs) / len(pairs)


def last_digit(values: Iterable[float]) -> float:
    """The smallest unit of the last digit among finite values: 0.51 is known to 0.01 only; infinity without any."""
    from decimal import Decimal  # takes milliseconds to import

    return min((10.0 ** int(Decimal(repr(value)).as_tuple().exponent) for value in values), default=math.inf)
