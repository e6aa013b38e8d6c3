"""The tip: what a campaign believes is best, and edits next; and when that belief is put to the test.

Greedy search builds on what one idea after the other has proved alone, and so drops most of what its runs showed: an
idea that gains half a standard deviation is seldom kept by itself. With `search: tip` an idea runs once. All runs of
the campaign together say what each edit is worth, by the model

    value of a run = baseline + sum of the effects of its edits and of its pairs of edits + noise

where a pair is two edits that were made apart, neither on the other: their gains need not add up. The noise of a run
has variance 1, and an effect, before any run, a t distribution of TAIL degrees of freedom and scale PRIOR around 0:
most are small, and one of 50 sd, as of a rate at which nothing is learnt any more, is put down to that edit, or pair,
alone. The tip is the merge of the edits whose effect is above SURE posterior standard deviations, the best first,
without those that would make it worse, as they do not go with a better one; an edit leaves it when later runs speak
against it. New ideas are edited on the tip. Now and then the tip itself is judged against the best idea, by the rule
that judges every idea of other campaigns (`core.campaign.decision`): only a tip can be kept.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from autoresearch.core.metrics.objective import Direction
from autoresearch.core.statistics.noise import mean
from autoresearch.core.statistics.student_t import t_quantile

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState, Idea

PRIOR = 0.4  # scale of an edit's effect before any run of it, squared, in variances of a run
TAIL = 4  # degrees of freedom of that
ROUNDS = 8
COVERED = 0.9  # by the interval of a change
SURELY = 0.975  # the quantile of Student's t at its upper end: wider than 0.95, as some ideas scatter more than others
WIDE = 1e6  # the same of the baseline's level
SURE = 0.3  # posterior standard deviations by which the effect of an edit in the tip is above 0
CHANCE = 2.0  # posterior standard deviations by which two edits are said to ruin each other
EVERY = 8  # decided ideas between two proofs
PROMISE = 1.5  # sd of a run by which the tip is expected to be better than the best, for a proof on the way
LAST_PROMISE = 0.2  # the same at the end, while a proof costs no idea any more
MOST_PROOFS = 2  # of one tip
MOST_LAST = 3  # proofs after the last idea


@dataclass(frozen=True, slots=True)
class Worth:
    """What an edit adds, as far as the runs show: a normal distribution, in sd of a run; positive is better."""

    mean: float
    sd: float


def edits_of(state: CampaignState, idea: Idea) -> frozenset[int]:
    """The ideas whose edits a run of this one trains, by index."""
    found = state.memo("edits", dict[int, frozenset[int]])
    line = [idea]  # with its ancestors: a parent is older than its children
    while line[-1].index not in found and (parent := state.by_slug(line[-1].parent)) and parent.index < line[-1].index:
        line.append(parent)
    edits = frozenset[int]()
    for one in reversed(line):
        if one.index not in found:
            merged = [part.index for part in map(state.by_slug, one.hypothesis.merges) if part]
            own = () if one.hypothesis.merges or one.hypothesis.is_baseline else (one.index,)
            found[one.index] = edits.union(merged, own)
        edits = found[one.index]
    return edits


def sd_of_run(state: CampaignState) -> float | None:
    """The standard deviation of a run, in the metric's unit; None while the noise is unknown."""
    from autoresearch.core.campaign.judgement import noise_without
    from autoresearch.core.campaign.state import Idea

    return noise_without(state, Idea(0, state.ideas[0].hypothesis)).sd if state.ideas else None


Term = tuple[int, ...]  # an edit, or two that were made apart, by the indices of their ideas; the lower one is first
_Groups = tuple[tuple[frozenset[Term], float, int], ...]


def effects(state: CampaignState) -> Mapping[int, Worth]:
    """The effect of each edit that some run trained, by the index of its idea; none while the noise is unknown."""
    return state.memo("effects", lambda: {term[0]: one for term, one in _worths(state).items() if len(term) == 1})


def _worths(state: CampaignState) -> Mapping[Term, Worth]:
    """The effects of edits and of pairs of them.

    By expectation maximisation: the prior of each effect is a normal one whose variance follows from the effect.
    """
    return state.memo("worths", lambda: _fitted(_groups(state)))


def _groups(state: CampaignState) -> _Groups:
    """Of each idea: what its runs train, their mean in sd of a run, and how many they are."""
    from autoresearch.core.campaign.judgement import search_values

    sd = sd_of_run(state)
    if not sd:
        return ()
    sign = 1.0 if state.spec.objective.direction is Direction.MAXIMIZE else -1.0
    below = {idea.index: edits_of(state, idea) for idea in state.ideas}
    known = dict[frozenset[int], frozenset[Term]]()

    def terms(edits: frozenset[int]) -> frozenset[Term]:
        if edits not in known:
            last = max(edits, default=0)
            if edits and below.get(last) == edits:  # an edit that was made on all others is in no pair
                known[edits] = terms(edits - {last}) | {(last,)}
            else:
                pairs = ((a, b) for a, b in combinations(sorted(edits), 2) if a not in below.get(b, ()))
                known[edits] = frozenset([*((edit,) for edit in edits), *pairs])
        return known[edits]

    runs = [(edits_of(state, idea), search_values(state, idea)) for idea in state.ideas]
    return tuple((terms(edits), mean(values) * sign / sd, len(values)) for edits, values in runs if values)


@lru_cache(maxsize=4)
def _unshrunk(groups: _Groups) -> Mapping[Term, Worth]:
    """Those of edits by least squares: what the search expects is drawn towards 0, and covers too seldom.

    Pairs keep their prior: where one of them explains a run, that says little of its edits.
    """
    spread = {term: _variance(one) if len(term) > 1 else WIDE for term, one in _fitted(groups).items()}
    return _posterior(groups, _bundles(groups), spread)


@lru_cache(maxsize=4)  # a journal grows by several lines for each row, and only rows change anything here
def _fitted(groups: _Groups) -> Mapping[Term, Worth]:
    found, spread, bundles = dict[Term, Worth](), dict[Term, float](), _bundles(groups)
    for _ in range(ROUNDS):
        found = _posterior(groups, bundles, spread)
        spread = {term: _variance(one) for term, one in found.items()}
    return found


def _variance(worth: Worth) -> float:
    """That of the normal prior of an effect, in the next round."""
    return (TAIL * PRIOR + worth.mean**2 + worth.sd**2) / (TAIL + 1)


@lru_cache(maxsize=4)
def _bundles(groups: _Groups) -> Mapping[tuple[int, ...], tuple[Term, ...]]:
    """The terms that are in the same groups, as the pairs of one tip, by the numbers of those groups."""
    uses = defaultdict[Term, list[int]](list)
    for n, (terms, _, _) in enumerate(groups):
        for term in terms:
            uses[term].append(n)
    bundles = defaultdict[tuple[int, ...], list[Term]](list)
    for term in sorted(uses):
        bundles[tuple(uses[term])].append(term)
    return {users: tuple(terms) for users, terms in bundles.items()}


def _posterior(
    groups: _Groups, bundles: Mapping[tuple[int, ...], tuple[Term, ...]], spread: Mapping[Term, float]
) -> dict[Term, Worth]:
    """The effects by the means of groups of runs, each of its terms and so many runs; `spread`: variances before them.

    With the covariance P and the mean m of all effects, a mean y of k runs of the terms x changes them by
    `P x (y - x m) / (x P x + 1/k)` and `-P x x P / (x P x + 1/k)`. Terms that are in the same groups are one column,
    their sum. Most are in one group only; those are scatter of its mean to all others, and get what these leave of it.
    Groups of the same columns are one mean: the time grows with the tips, and with the square of the columns.
    """
    level = groups[0][1] if groups else 0.0  # near all values: squares of what is left lose no digits
    variance = {users: sum([spread.get(term, PRIOR) for term in terms]) for users, terms in bundles.items()}
    column_of = {users: n for n, users in enumerate((users for users in sorted(bundles) if len(users) > 1), 1)}
    own = {users[0]: variance[users] for users in bundles if len(users) == 1}
    trained: list[list[int]] = [[0] for _ in groups]
    effect = [0.0] * (len(column_of) + 1)
    covariance = [[0.0] * len(effect) for _ in effect]
    covariance[0][0] = WIDE
    for users, n in column_of.items():
        covariance[n][n] = variance[users]
        for group in users:
            trained[group].append(n)
    alike = defaultdict[tuple[int, ...], list[tuple[float, float]]](list)
    for group, (_, value, runs) in enumerate(groups):
        alike[tuple(trained[group])].append((value - level, 1 / (own.get(group, 0.0) + 1 / runs)))
    for columns, values in alike.items():
        precision = sum(weight for _, weight in values)
        column = [sum([row[n] for n in columns]) for row in covariance]
        total = sum(column[n] for n in columns) + 1 / precision
        surprise = sum(value * weight for value, weight in values) / precision - sum(effect[n] for n in columns)
        while not column[-1]:
            column.pop()  # no group so far says anything of these
        for n, size in enumerate(column):
            share, row = size / total, covariance[n]
            effect[n] += share * surprise
            row[: len(column)] = [one - share * other for one, other in zip(row, column, strict=False)]
    unsure_of = {columns: sum([covariance[n][m] for n in columns for m in columns]) for columns in alike}
    found = dict[Term, Worth]()
    for users, terms in bundles.items():
        if n := column_of.get(users, 0):
            whole, unsure = effect[n], covariance[n][n]
        else:
            columns, (_, value, runs) = tuple(trained[users[0]]), groups[users[0]]
            share = variance[users] / (variance[users] + 1 / runs)
            whole = share * (value - level - sum([effect[n] for n in columns]))
            unsure = variance[users] * (1 - share) + share**2 * unsure_of[columns]
        for term in terms:
            before = spread.get(term, PRIOR)
            share = before / variance[users]
            found[term] = Worth(share * whole, math.sqrt(max(0.0, before * (1 - share) + share**2 * unsure)))
    return found


def good_edits(state: CampaignState) -> tuple[int, ...]:
    """The edits that belong in the tip now, the best first."""
    sure = [(-one.mean, edit) for edit, one in effects(state).items() if one.mean > SURE * one.sd]
    able, good = {idea.index for idea in state.ideas if _may_join(state, idea)}, list[int]()
    for worth, edit in sorted(sure):
        if edit in able and -worth + _of_pairs(state, edit, good) > 0:
            good.append(edit)
    return tuple(good)


def _of_pairs(state: CampaignState, edit: int, others: Iterable[int]) -> float:
    """What an edit loses or gains beside others, in sd of a run."""
    known, pairs = _worths(state), ((min(edit, other), max(edit, other)) for other in others)
    return math.fsum(known[pair].mean for pair in pairs if pair in known)


def _may_join(state: CampaignState, idea: Idea) -> bool:
    if idea.hypothesis.blueprint or idea.hypothesis.smoke or idea.slug in state.unwanted:
        return False
    return bool(idea.values) and not (idea.broken or state.distrusted(idea))


class Place(StrEnum):
    """Where the edit of an idea that ran once stands now."""

    IN_TIP = "in the tip"
    ASIDE = "set aside"  # it may be good, but is not sure enough, or does not fit
    OUT = "out"


def place_of(state: CampaignState, idea: Idea) -> Place:
    """Where an edit stands: in what new ideas are edited on, or not."""
    base = state.base
    if base is not None and idea.index in edits_of(state, base):
        return Place.IN_TIP
    effect = effects(state).get(idea.index)
    return Place.ASIDE if effect is not None and effect.mean > 0 else Place.OUT


def change_by(state: CampaignState, idea: Idea) -> tuple[float, float, float] | None:
    """What an edit changes in the metric, with its interval (COVERED), as all runs show; None while that is unknown.

    That is so, too, where every run of it trains another edit that has no run without it.
    """
    from autoresearch.core.campaign.judgement import shown_noise

    noise = shown_noise(state)
    sd, effect = noise.shown_sd, _unshrunk(_groups(state)).get((idea.index,))
    if effect is None or sd is None or effect.sd**2 > WIDE / 10:
        return None
    middle = state.spec.objective.change(effect.mean * sd)
    half = t_quantile(SURELY, noise.df) * effect.sd * sd
    return middle, middle - half, middle + half


def worth_words(worth: tuple[float, float, float]) -> str:
    """`worth -0.012 (90 % interval -0.03 to +0.006)`."""
    return f"worth {worth[0]:+.3g} ({100 * COVERED:.0f} % interval {worth[1]:+.3g} to {worth[2]:+.3g})"


def promise(state: CampaignState, idea: Idea) -> float:
    """By how much an idea is expected to be better than the best one, in sd of a run."""
    best = state.best
    below = edits_of(state, best) if best else frozenset()
    return _sum(state, edits_of(state, idea)) - _sum(state, below)


def _sum(state: CampaignState, edits: Iterable[int]) -> float:
    known, all_edits = _worths(state), sorted(edits)
    terms = (*((edit,) for edit in all_edits), *combinations(all_edits, 2))
    return math.fsum(known[term].mean for term in terms if term in known)


def does_not_go_with(state: CampaignState, idea: Idea) -> list[Idea]:
    """The ideas beside which an edit is worse than the better one of both alone, beyond chance."""
    known, both = effects(state), list[int]()
    for pair, worth in _worths(state).items():
        if len(pair) == 2 and idea.index in pair:
            alone = [known[edit].mean if edit in known else 0.0 for edit in pair]
            if worth.mean + min(alone) < 0 and worth.mean + CHANCE * worth.sd < 0:
                both.append(pair[pair[0] == idea.index])
    return [one for one in state.ideas if one.index in both]


def clash_words(state: CampaignState, idea: Idea) -> str:
    """`; does not go with #4 and #7`."""
    others = [f"#{one.index}" for one in does_not_go_with(state, idea)]
    return f"; does not go with {' and '.join(others)}" if others else ""


def needs_merge(state: CampaignState) -> bool:
    """Whether the tip is no longer the merge of the edits that seem good."""
    if not state.searches_by_tip:
        return False
    made, now = state.made_tip, good_edits(state)
    return made.good_edits != now if made.left else set(made.good_edits) != set(now)


def proof_due(state: CampaignState, *, last: bool) -> Idea | None:
    """The tip that is to be judged now, against the best; `last`: no idea comes any more."""
    from autoresearch.core.campaign.judgement import rule_of

    tip, best = state.tip, state.best
    if tip is None or best is None or tip.confirmed == "demoted" or edits_of(state, tip) == edits_of(state, best):
        return None
    proofs = sum(run.why == "proof" for run in tip.runs)
    if tip.slug in state.unwanted or proofs >= MOST_PROOFS or len(tip.judged) >= rule_of(state).most:
        return None
    if not tip.runs and any(idea.broken and idea.parent == tip.slug for idea in state.ideas):
        return tip  # it may be the tip that breaks a constraint, and then all that is edited on it would
    early = not tip.runs and _reaches_target(state, tip)
    if not (last or early) and decided_since_proof(state) < EVERY:
        return None
    if last and _proofs_since_idea(state) >= MOST_LAST:
        return None
    return tip if promise(state, tip) >= (LAST_PROMISE if last or early else PROMISE) else None


def tip_words(state: CampaignState) -> str:
    """`#7 The tip of #2 and #5: loss -0.03 against the best is expected; proved after 3 more ideas`; "" if none is."""
    tip, sd = state.tip, sd_of_run(state)
    if tip is None or not sd:
        return ""
    if tip is state.best:
        return f"{tip.name}: proved and kept, the best so far"
    change = state.spec.objective.change(promise(state, tip) * sd)
    expected = f"{tip.name}: {state.spec.objective.metric} {change:+.3g} against the best is expected"
    if any(run.why == "proof" and run.run not in tip.done for run in tip.runs):
        return f"{expected}; its proof goes on"
    if tip.judged:
        return f"{expected}; put to the proof, and not kept so far"
    left = EVERY - decided_since_proof(state)
    return f"{expected}; proved {f'after {left} more ideas' if left > 1 else 'next'} or at the end, if that is enough"


def _reaches_target(state: CampaignState, idea: Idea) -> bool:
    """Whether it is expected to reach the target of the campaign, which only what is kept can."""
    target, start, sd = state.spec.rules.target, state.baseline.value if state.baseline else None, sd_of_run(state)
    if target is None or start is None or sd is None:
        return False
    expected = start + state.spec.objective.change(_sum(state, edits_of(state, idea)) * sd)
    return not state.spec.objective.better(target, expected)


def most_proofs(ideas: int) -> int:
    """Proofs in a campaign of so many ideas, at most."""
    return ideas // EVERY + MOST_LAST


def _proofs_since_idea(state: CampaignState) -> int:
    since = max((idea.decided for idea in state.ideas if state.runs_once(idea)), default=0.0)
    proved = {run.run for idea in state.ideas for run in idea.runs if run.why == "proof"}
    return sum(row.run_id in proved and (row.ended or 0.0) > since for row in state.rows)


def decided_since_proof(state: CampaignState) -> int:
    """Ideas that were decided since the last proof began."""
    merged = [row.ended or 0.0 for idea in state.ideas if idea.hypothesis.merges for row in idea.rows]
    since = max(merged, default=0.0)
    return sum(state.runs_once(idea) and idea.decided > since for idea in state.ideas)
