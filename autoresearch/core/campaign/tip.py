"""The tip: what a campaign believes is best, and edits next; and when that belief is put to the test.

Greedy search builds on what one idea after the other has proved alone, and so drops most of what its runs showed: an
idea that gains half a standard deviation is seldom kept by itself. With `search: tip` an idea runs once. All runs of
the campaign together say what each edit is worth, and each pair of edits that were made apart, neither on the other:
their gains need not add up (`core.statistics.effects`). The tip is the merge of the edits whose effect is above SURE
posterior standard deviations, the best first, without those that would make it worse, as they do not go with a better
one; an edit leaves it when later runs speak against it. New ideas are edited on the tip. Now and then the tip itself
is judged against the best idea, by the rule that judges every idea of other campaigns (`core.campaign.decision`): only
a tip can be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import combinations

from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.judgement import noise_of_all, rule_of, search_values, shown_noise
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.effects import WIDE, Groups, Term, Worth, fitted, unshrunk
from autoresearch.core.statistics.noise import mean
from autoresearch.core.statistics.student_t import t_quantile

COVERED = 0.9  # by the interval of a change
SURELY = 0.975  # the quantile of Student's t at its upper end: wider than 0.95, as some ideas scatter more than others
SURE = 0.3  # posterior standard deviations by which the effect of an edit in the tip is above 0
CHANCE = 2.0  # posterior standard deviations by which two edits are said to ruin each other
EVERY = 8  # decided ideas between two proofs
PROMISE = 1.5  # sd of a run by which the tip is expected to be better than the best, for a proof on the way; or a
# single run measured to be, for one after the last idea
LAST_PROMISE = 0.2  # the same at the end, while a proof costs no idea any more
MOST_PROOFS = 2  # of one tip
MOST_LAST = 3  # proofs after the last idea


def edits_of(state: CampaignState, idea: Idea) -> frozenset[int]:
    """The ideas whose edits a run of this one trains, by index.

    Not an edit of settings all of which it sets again; and those of an earlier idea whose runs equal its own.
    """
    found = state.memo("edits", dict[int, frozenset[int]])
    line = [idea]  # with its ancestors: a parent is older than its children
    while line[-1].index not in found and (parent := state.by_slug(line[-1].parent)) and parent.index < line[-1].index:
        line.append(parent)
    edits = frozenset[int]()
    for one in reversed(line):
        if one.index not in found:
            parts = [part for part in map(state.by_slug, one.hypothesis.merges) if part]
            parts = parts or ([] if one.hypothesis.is_baseline else [one])
            every = edits.union(part.index for part in parts)
            found[one.index] = every.difference(*(_set_again(state, part, every) for part in parts))
            if twin := _by_index(state).get(one.equal_to):
                found[one.index] = edits_of(state, twin)
        edits = found[one.index]
    return edits


def _by_index(state: CampaignState) -> Mapping[int, Idea]:
    return state.memo("by index", lambda: {idea.index: idea for idea in state.ideas})


def _set_again(state: CampaignState, idea: Idea, edits: frozenset[int]) -> frozenset[int]:
    """Those of the edits that are nothing but settings which a later idea, made on them, sets, too."""
    if not (keys := idea.hypothesis.keys):
        return frozenset()
    below = [_by_index(state)[edit] for edit in edits if edit < idea.index]
    return frozenset(one.index for one in below if _sets_only(one) and one.hypothesis.keys <= keys)


def _sets_only(idea: Idea) -> bool:
    return bool(idea.hypothesis.overrides) and idea.repaired < 0 and not idea.hypothesis.changes_code


def proved_edits(state: CampaignState) -> frozenset[int]:
    """The indices of the ideas whose edits are in something that was confirmed."""
    confirmed = (edits_of(state, idea) for idea in state.ideas if idea.confirmed == "confirmed")
    proved = frozenset[int]().union(*confirmed)
    return proved | {one.index for one in state.ideas if one.equal_to in proved and not changes_nothing(state, one)}


def may_be_equal(state: CampaignState, idea: Idea) -> list[tuple[Idea, LedgerRow, LedgerRow]]:
    """The earlier ideas of which a run has the seed and the value of one of its own, with these runs' rows."""
    earlier = [one for one in state.ideas if one.index < idea.index and not one.equal_to]
    own = _by_seed(idea) if state.searches_by_tip and not idea.equal_to else {}
    both = ((one, own[key], row) for one in earlier for key, row in _by_seed(one).items() if key in own)
    return list(both)


def _by_seed(idea: Idea) -> dict[tuple[int, float], LedgerRow]:
    """The rows of its runs that have the metric, by their seed and value."""
    seeds = {run.run: run.seed for run in idea.runs}
    known = ((seeds.get(row.run_id), measured(row), row) for row in idea.judged)
    return {(seed, value): row for seed, value, row in known if seed is not None and value is not None}


def changes_nothing(state: CampaignState, idea: Idea) -> bool:
    """Whether its run equals one of what it was edited on."""
    parent = state.by_slug(idea.parent) if idea.equal_to else None
    return parent is not None and edits_of(state, parent) == edits_of(state, idea)


def equal_words(state: CampaignState, idea: Idea, name: Callable[[Idea], str]) -> str:
    """`the same change as #2: equal runs`, or that it changes nothing; "" of one that equals no other."""
    first = idea.equal_to or idea.index
    if changes_nothing(state, idea):
        return f"it changes nothing: a run equal to that of {name(_by_index(state)[first])}"
    if idea.equal_to and _by_index(state)[first].hypothesis.is_baseline:
        return "it undoes what it is edited on: a run equal to the baseline's"
    alike = [one for one in state.ideas if first in (one.index, one.equal_to) and one is not idea]
    same = " and ".join(name(one) for one in alike if not changes_nothing(state, one))
    return same and f"the same change as {same}: equal runs"


def sd_of_run(state: CampaignState) -> float | None:
    """The standard deviation of a run, in the metric's unit; None while the noise is unknown."""
    return noise_of_all(state).sd


def effects(state: CampaignState) -> Mapping[int, Worth]:
    """The effect of each edit that some run trained, by the index of its idea; none while the noise is unknown."""
    return state.memo("effects", lambda: {term[0]: one for term, one in _worths(state).items() if len(term) == 1})


def _worths(state: CampaignState) -> Mapping[Term, Worth]:
    """The effects of edits and of pairs of them."""
    return state.memo("worths", lambda: fitted(_groups(state)))


def _groups(state: CampaignState) -> Groups:
    """Of each idea: what its runs train, their mean in sd of a run, and how many they are."""
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

    runs = [(edits_of(state, idea), search_values(state, idea)) for idea in state.ideas if not idea.equal_to]
    return tuple((terms(edits), mean(values) * sign / sd, len(values)) for edits, values in runs if values)


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
    if idea.hypothesis.blueprint or idea.slug in state.unwanted:
        return False
    return bool(idea.values) and not (idea.broken or state.distrusted(idea))


class Place(StrEnum):
    """Where the edit of an idea that ran once stands now."""

    IN_TIP = "in the tip"
    ASIDE = "set aside"  # it may be good, but is not sure enough, or does not fit
    OUT = "out"


def place_of(state: CampaignState, idea: Idea) -> Place:
    """Where an edit stands: in what new ideas are edited on, or not. Only its own runs say that it is out."""
    if changes_nothing(state, idea):
        return Place.OUT
    idea, base = _by_index(state).get(idea.equal_to, idea), state.base
    if base is not None and idea.index in edits_of(state, base):
        return Place.IN_TIP
    effect, parent = effects(state).get(idea.index), state.by_slug(idea.parent)
    ours, theirs = search_values(state, idea), search_values(state, parent) if parent else []
    ahead = bool(ours and theirs) and gain(state.spec.objective, ours, theirs) > 0
    return Place.ASIDE if ahead or (effect is not None and effect.mean > 0) else Place.OUT


def change_by(state: CampaignState, idea: Idea) -> tuple[float, float, float] | None:
    """What an edit changes in the metric, with its interval (COVERED), as all runs show; None while that is unknown.

    That is so, too, where every run of it trains another edit that has no run without it.
    """
    noise, known = shown_noise(state), state.memo("unshrunk", lambda: unshrunk(_groups(state)))
    sd, effect = noise.shown_sd, known.get((idea.equal_to or idea.index,))
    if changes_nothing(state, idea) or effect is None or sd is None or effect.sd**2 > WIDE / 10:
        return None
    middle = state.spec.objective.change(effect.mean * sd)
    half = t_quantile(SURELY, noise.df) * effect.sd * sd
    return middle, middle - half, middle + half


def worth_words(state: CampaignState, idea: Idea) -> str:
    """`worth -0.01 (90 % interval -0.03 to +0.01 if effects add; measured only on tip-2)`; "" while that is unknown."""
    if (worth := change_by(state, idea)) is None:
        return ""
    parent = state.by_slug(idea.parent)
    where = f"; measured only on {parent.slug}" if parent and parent.hypothesis.merges else ""
    interval = f"{100 * COVERED:.0f} % interval {worth[1]:+.3g} to {worth[2]:+.3g}"
    return f"worth {worth[0]:+.3g} ({interval} if effects add{where})"


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
    """The ideas beside which an edit is worse than the better one of both alone, beyond chance; [] without a tip."""
    if not state.searches_by_tip:
        return []
    known, both = effects(state), list[int]()
    for pair, worth in _worths(state).items():
        if len(pair) == 2 and idea.index in pair:
            alone = [known[edit].mean if edit in known else 0.0 for edit in pair]
            if worth.mean + min(alone) < 0 and worth.mean + CHANCE * worth.sd < 0:
                both.append(pair[pair[0] == idea.index])
    return [one for one in state.ideas if one.index in both]


def beside_words(state: CampaignState, idea: Idea, name: Callable[[Idea], str] = "#{0.index}".format) -> str:
    """`; the same change as #2: equal runs; does not go with #4 and #7`."""
    same, clashing = equal_words(state, idea, name), " and ".join(map(name, does_not_go_with(state, idea)))
    return f"{same and f'; {same}'}{clashing and f'; does not go with {clashing}'}"


def needs_merge(state: CampaignState) -> bool:
    """Whether the tip is no longer the merge of the edits that seem good."""
    if not state.searches_by_tip:
        return False
    made, now = state.made_tip, good_edits(state)
    return made.good_edits != now if made.left else set(made.good_edits) != set(now)


def proof_due(state: CampaignState, *, last: bool) -> Idea | None:
    """What is to be judged now, against the best: the tip, and after the last idea (`last`) its rival, too."""
    if state.best is None or (last and _proofs_since_idea(state) >= MOST_LAST):
        return None
    if state.tip is not None and _is_due(state, state.tip, state.best, last):
        return state.tip
    return _rival(state, state.best) if last else None


def _is_due(state: CampaignState, tip: Idea, best: Idea, last: bool) -> bool:
    if tip.confirmed == "demoted" or edits_of(state, tip) == edits_of(state, best):
        return False
    proofs = sum(run.why == "proof" for run in tip.runs)
    if tip.slug in state.unwanted or proofs >= MOST_PROOFS or len(tip.judged) >= rule_of(state).most:
        return False
    if not tip.runs and any(idea.broken and idea.parent == tip.slug for idea in state.ideas):
        return True  # it may be the tip that breaks a constraint, and then all that is edited on it would
    early = not tip.runs and _reaches_target(state, tip)
    if not (last or early) and decided_since_proof(state) < EVERY:
        return False
    return promise(state, tip) >= (LAST_PROMISE if last or early else PROMISE)


def _rival(state: CampaignState, best: Idea) -> Idea | None:
    """The idea whose own run is the best of all, if it is far better than the best one: a merge may have lost that."""
    sd, theirs, objective = sd_of_run(state), search_values(state, best), state.spec.objective
    able = [idea for idea in state.ideas if state.runs_once(idea) and _may_join(state, idea)]
    able = [idea for idea in able if edits_of(state, idea) != edits_of(state, best)]
    if not (sd and able and theirs):
        return None
    ahead = {idea.index: gain(objective, search_values(state, idea), theirs) for idea in able}
    rival = max(able, key=lambda idea: ahead[idea.index])
    return rival if ahead[rival.index] > PROMISE * sd else None


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
