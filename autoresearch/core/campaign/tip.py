"""The tip: what a campaign believes is best, and edits next; and when that belief is put to the test.

Greedy search builds on what one idea after the other has proved alone, and so drops most of what its runs showed: an
idea that gains half a standard deviation is seldom kept by itself. With `search: tip` an idea runs once. All runs of
the campaign together say what each edit is worth, by the model

    value of a run = baseline + sum of the effects of its edits + noise

where the noise of a run has variance 1, and an effect, before any run, a t distribution of TAIL degrees of freedom and
scale PRIOR around 0: most are small, and one of 50 sd, as of a rate at which nothing is learnt any more, is put down to
that edit alone. The tip is the merge of the edits whose effect is above SURE posterior standard deviations, the best
first; an edit leaves it when later runs speak against it. New ideas are edited on the tip. Now and then the tip itself
is judged against the best idea, by the rule that judges every idea of other campaigns (`core.campaign.decision`): only
a tip can be kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
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


def effects(state: CampaignState) -> Mapping[int, Worth]:
    """The effect of each edit that some run trained, by the index of its idea; none while the noise is unknown.

    By expectation maximisation: the prior of each effect is a normal one whose variance follows from the effect.
    """
    return state.memo("effects", lambda: _fitted(_groups(state)))


_Groups = tuple[tuple[frozenset[int], float, int], ...]


def _groups(state: CampaignState) -> _Groups:
    """Of each idea: the edits that its runs train, their mean in sd of a run, and how many they are."""
    from autoresearch.core.campaign.judgement import search_values

    sd = sd_of_run(state)
    if not sd:
        return ()
    sign = 1.0 if state.spec.objective.direction is Direction.MAXIMIZE else -1.0
    runs = [(edits_of(state, idea), search_values(state, idea)) for idea in state.ideas]
    return tuple((edits, mean(values) * sign / sd, len(values)) for edits, values in runs if values)


@lru_cache(maxsize=4)
def _unshrunk(groups: _Groups) -> Mapping[int, Worth]:
    """The effects by least squares: what the search expects of an edit is drawn towards 0, and covers too seldom."""
    return _posterior(groups, {edit: WIDE for edits, _, _ in groups for edit in edits})


@lru_cache(maxsize=4)  # a journal grows by several lines for each row, and only rows change anything here
def _fitted(groups: _Groups) -> Mapping[int, Worth]:
    found, spread = dict[int, Worth](), dict[int, float]()
    for _ in range(ROUNDS):
        found = _posterior(groups, spread)
        spread = {e: (TAIL * PRIOR + one.mean**2 + one.sd**2) / (TAIL + 1) for e, one in found.items()}
    return found


def _posterior(groups: Sequence[tuple[frozenset[int], float, int]], spread: Mapping[int, float]) -> dict[int, Worth]:
    """The effects by the means of groups of runs, each of its edits and so many runs; `spread`: variances before them.

    Group by group: with the covariance P and the mean m of all effects, a mean y of k runs of the edits x changes them
    by `P x (y - x m) / (x P x + 1/k)` and `-P x x P / (x P x + 1/k)`. Most edits are in one group only; those are
    scatter of its mean to all others, and get what these leave of it: the time grows with the square of the others.
    """
    level = groups[0][1] if groups else 0.0  # near all values: squares of what is left lose no digits
    uses = Counter(edit for edits, _, _ in groups for edit in edits)
    variance = {edit: spread.get(edit, PRIOR) for edit in uses}
    place = {edit: n for n, edit in enumerate(sorted(edit for edit, count in uses.items() if count > 1), 1)}
    effect = [0.0] * (len(place) + 1)
    covariance = [[0.0] * len(effect) for _ in effect]
    covariance[0][0] = WIDE
    for edit, n in place.items():
        covariance[n][n] = variance[edit]
    split = []
    for edits, value, runs in groups:
        trained, own = [0, *(place[edit] for edit in edits if edit in place)], sorted(edits - place.keys())
        scatter = sum(variance[edit] for edit in own) + 1 / runs
        split.append((trained, own, value, scatter))
        column = [sum(row[n] for n in trained) for row in covariance]
        total = sum(column[n] for n in trained) + scatter
        surprise = (value - level - sum(effect[n] for n in trained)) / total
        moved = [(n, size) for n, size in enumerate(column) if size]
        for n, size in moved:
            effect[n] += size * surprise
            row, share = covariance[n], size / total
            for other, size_other in moved:
                row[other] -= share * size_other
    found = {edit: Worth(effect[n], math.sqrt(max(0.0, covariance[n][n]))) for edit, n in place.items()}
    for trained, own, value, scatter in split:
        left = value - level - sum(effect[n] for n in trained)
        unsure = sum(covariance[n][other] for n in trained for other in trained) if own else 0.0
        for edit in own:
            share = variance[edit] / scatter
            found[edit] = Worth(share * left, math.sqrt(max(0.0, variance[edit] * (1 - share) + share**2 * unsure)))
    return found


def good_edits(state: CampaignState) -> tuple[int, ...]:
    """The edits that belong in the tip now, the best first."""
    sure = [(-one.mean, edit) for edit, one in effects(state).items() if one.mean > SURE * one.sd]
    able = {idea.index for idea in state.ideas if _may_join(state, idea)}
    return tuple(edit for _, edit in sorted(sure) if edit in able)


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
    sd, effect = noise.shown_sd, _unshrunk(_groups(state)).get(idea.index)
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
    known = effects(state)
    return math.fsum(known[edit].mean for edit in edits if edit in known)


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
