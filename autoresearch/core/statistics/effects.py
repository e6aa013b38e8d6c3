"""Effects: what each edit, and each pair of edits, adds to the value of a run, by all runs together.

    value of a run = baseline + sum of the effects of its edits and of its pairs of edits + noise

The noise of a run has variance 1, and an effect, before any run, a t distribution of TAIL degrees of freedom and scale
PRIOR around 0: most are small, and one of 50 sd, as of a rate at which nothing is learnt any more, is put down to that
edit, or pair, alone. It is fitted by expectation maximisation: the prior of each effect is a normal one whose variance
follows from the effect.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

PRIOR = 0.4  # scale of an edit's effect before any run of it, squared, in variances of a run
TAIL = 4  # degrees of freedom of that
ROUNDS = 8
START = 6.0  # variance of an effect in the first round: from wide ones, few rounds find what is large
WIDE = 1e6  # the same of the baseline's level
MANY = 80  # columns from which on numpy solves for them
BLOCK = 4


@dataclass(frozen=True, slots=True)
class Worth:
    """What an edit adds, as far as the runs show: a normal distribution, in sd of a run; positive is better."""

    mean: float
    sd: float


Term = tuple[int, ...]  # an edit, or two that were made apart, by the indices of their ideas; the lower one is first
Groups = tuple[tuple[frozenset[Term], float, int], ...]  # what some runs train, the mean of them, and how many they are


@lru_cache(maxsize=4)  # a journal grows by several lines for each row, and only rows change anything here
def fitted(groups: Groups) -> Mapping[Term, Worth]:
    """The effects that the search expects: drawn towards 0."""
    found, spread, layout = dict[Term, Worth](), dict[Term, float](), _layout(groups)
    for _ in range(ROUNDS):
        found = _posterior(groups, layout, spread)
        spread = {term: _variance(one) for term, one in found.items()}
    return found


@lru_cache(maxsize=4)
def unshrunk(groups: Groups) -> Mapping[Term, Worth]:
    """Those of edits by least squares: what the search expects is drawn towards 0, and covers too seldom.

    Pairs keep their prior: where one of them explains a run, that says little of its edits.
    """
    spread = {term: _variance(one) if len(term) > 1 else WIDE for term, one in fitted(groups).items()}
    return _posterior(groups, _layout(groups), spread)


def _variance(worth: Worth) -> float:
    """That of the normal prior of an effect, in the next round."""
    return (TAIL * PRIOR + worth.mean**2 + worth.sd**2) / (TAIL + 1)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Terms that are in the same groups, as the pairs of one tip: only their sum is seen."""

    terms: tuple[Term, ...]
    column: int  # from 1 on; 0 if it is in one group only, and so scatter of that group's mean to all others
    group: int  # the first one


_Columns = tuple[int, ...]  # of a group, in ascending order; 0 is the level of the baseline


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the groups have in common, which is the same in each round."""

    bundles: tuple[_Bundle, ...]  # those with a column first, in its order
    trained: tuple[_Columns, ...]  # of each group


def _layout(groups: Groups) -> _Layout:
    uses = defaultdict[Term, list[int]](list)
    for n, (terms, _, _) in enumerate(groups):
        for term in terms:
            uses[term].append(n)
    alike = defaultdict[tuple[int, ...], list[Term]](list)
    for term in sorted(uses):
        alike[tuple(uses[term])].append(term)
    bundles, trained = list[_Bundle](), [[0] for _ in groups]
    for column, users in enumerate(sorted(alike, key=lambda users: (len(users) == 1, users)), 1):
        bundles.append(_Bundle(tuple(alike[users]), column if len(users) > 1 else 0, users[0]))
        for group in users if len(users) > 1 else ():
            trained[group].append(column)
    return _Layout(tuple(bundles), tuple(map(tuple, trained)))


def _posterior(groups: Groups, layout: _Layout, spread: Mapping[Term, float]) -> dict[Term, Worth]:
    """The effects by the means of groups; `spread`: variances before them.

    Groups of the same columns are one mean. A bundle that is in one group only gets what the columns leave of its mean.
    """
    level = groups[0][1] if groups else 0.0  # near all values: squares of what is left lose no digits
    variances = [sum([spread.get(term, START) for term in bundle.terms]) for bundle in layout.bundles]
    both = list(zip(layout.bundles, variances, strict=True))
    own = {bundle.group: variance for bundle, variance in both if not bundle.column}
    alike = defaultdict[_Columns, list[tuple[float, float]]](list)
    for group, (_, value, runs) in enumerate(groups):
        alike[layout.trained[group]].append((value - level, 1 / (own.get(group, 0.0) + 1 / runs)))
    means = list[_Mean]()
    for columns, values in alike.items():
        precision = sum(weight for _, weight in values)
        means.append((columns, sum(value * weight for value, weight in values) / precision, precision))
    before = [WIDE, *(variance for bundle, variance in both if bundle.column)]
    solved = (_one_by_one if len(before) < MANY else _by_blocks)(before, means)
    found = dict[Term, Worth]()
    for bundle, variance in both:
        whole, unsure = solved.effect[bundle.column], solved.variance[bundle.column]
        if not bundle.column:
            (middle, around), (_, value, runs) = solved.sums[layout.trained[bundle.group]], groups[bundle.group]
            share = variance / (variance + 1 / runs)
            whole, unsure = share * (value - level - middle), variance * (1 - share) + share**2 * around
        for term in bundle.terms:
            alone = spread.get(term, START)
            share = alone / variance
            found[term] = Worth(share * whole, math.sqrt(max(0.0, alone * (1 - share) + share**2 * unsure)))
    return found


_Mean = tuple[_Columns, float, float]  # of the runs that train the same columns, and its precision


@dataclass(frozen=True, slots=True)
class _Solved:
    """The columns, and their sums in groups, each with its variance."""

    effect: Sequence[float]
    variance: Sequence[float]
    sums: Mapping[_Columns, tuple[float, float]]


def _one_by_one(before: Sequence[float], means: Sequence[_Mean]) -> _Solved:
    """The columns, whose variances are known before any run, by means of their sums.

    With the covariance P and the mean m of all columns, a mean y of the columns x with the precision k changes them by
    `P x (y - x m) / (x P x + 1/k)` and `-P x x P / (x P x + 1/k)`. The time grows with the square of the columns.
    """
    effect, covariance = [0.0] * len(before), [[0.0] * len(before) for _ in before]
    for n, variance in enumerate(before):
        covariance[n][n] = variance
    for columns, value, precision in means:
        column = list(map(sum, zip(*[covariance[n] for n in columns], strict=True)))  # it is symmetric
        total = sum([column[n] for n in columns]) + 1 / precision
        surprise = value - sum([effect[n] for n in columns])
        while not column[-1]:
            column.pop()  # no group so far says anything of these
        for n, size in enumerate(column):
            if size:
                share, row = size / total, covariance[n]
                effect[n] += share * surprise
                row[: len(column)] = [one - share * other for one, other in zip(row, column, strict=False)]
    sums = {
        columns: (sum([effect[n] for n in columns]), sum([covariance[n][m] for n in columns for m in columns]))
        for columns, _, _ in means
    }
    return _Solved(effect, [row[n] for n, row in enumerate(covariance)], sums)


def _by_blocks(before: Sequence[float], means: Sequence[_Mean]) -> _Solved:
    """The same by numpy, where that is worth its import, which takes as long as all of `status`.

    BLOCK means at a time, as it spreads larger products over threads, which on busy cores wait for one another.
    """
    import numpy

    effect, covariance = numpy.zeros(len(before)), numpy.diag(before)
    known, precision = numpy.zeros((len(means), len(before))), numpy.array([one for _, _, one in means])
    for n, (columns, _, _) in enumerate(means):
        known[n, columns] = 1
    values = numpy.array([value for _, value, _ in means])
    blocks = [slice(n, n + BLOCK) for n in range(0, len(means), BLOCK)]
    for block in blocks:
        x = known[block]
        shared = x @ covariance
        share = numpy.linalg.solve(shared @ x.T + numpy.diag(1 / precision[block]), shared)
        effect += (values[block] - x @ effect) @ share
        covariance -= shared.T @ share
    around = [one for block in blocks for one in ((known[block] @ covariance) * known[block]).sum(1).tolist()]
    sums = zip((known @ effect).tolist(), around, strict=True)
    return _Solved(
        effect.tolist(),
        covariance.diagonal().tolist(),
        dict(zip((columns for columns, _, _ in means), sums, strict=True)),
    )
