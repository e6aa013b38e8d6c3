"""Trust: why a person has to approve what an agent's edit has reached, where the edited code measures itself.

How far is too far is asked twice. Nothing is built on an idea that is far better than what it was edited on: honest
training seldom gains so much by one edit. Many smaller edits may lead as far, and the search goes on; but their result
is not claimed before a person has looked, as none of them was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.agents.suspicion import SETS_OBJECTIVE
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import mean, noise_of
from autoresearch.values import dataclass

FLAT = "flat: "
"""Begins the flag of a run whose objective is the same at every step, and the baseline's is not."""
FAR = 10.0
"""Standard deviations of the baseline's runs; a gain of more is rarely one of training."""


@dataclass(frozen=True, slots=True)
class MeasuredIdea:
    """What trust asks of an idea: what it was made of, and what its runs showed."""

    index: int
    made_of: tuple[int, ...]  # what it was edited on, then what it is the merge of; all older
    merge: bool
    edited: bool  # it trains code that an agent wrote
    approved: bool  # by a person
    values: Sequence[float]
    flags: tuple[str, ...] = ()  # of its edits and its rows


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a person must approve an idea, as clauses; "" where nobody has to."""

    step: str = ""  # before anything is built on it
    whole: str = ""  # before it is claimed
    gains: bool = False  # whether it is better than what it was edited on


def doubts(objective: Objective, measured_ideas: Sequence[MeasuredIdea]) -> dict[int, Doubt]:
    """The doubt about each edited idea that nobody approved, by its index. The baseline is first, then the oldest."""
    baseline = measured_ideas[0].values if measured_ideas else ()
    start = mean(baseline) if baseline else 0.0
    found = dict[int, Doubt]()
    below, shown, approved = dict[int, float](), dict[int, float](), dict[int, float]()
    for one in measured_ideas:
        parent, *parts = one.made_of or (0,)
        level = shown.get(parent, start)  # what it would measure if its own edit did nothing
        if one.merge:  # ... or if the gains of its parts add
            level += sum(shown[part] - below[part] for part in parts if part != parent)
        value = mean(one.values) if one.values else level
        checked = start
        for other in one.made_of:
            checked = approved[other] if objective.better(approved[other], checked) else checked
        below[one.index], shown[one.index] = level, value
        approved[one.index] = value if one.approved else checked
        if one.edited and not one.approved:
            step = _alone(objective, one.values, one.flags, baseline, level)
            step = step or next((found[n].step for n in one.made_of if n in found and found[n].step), "")
            whole = step or _too_far(objective, one.values, baseline, checked, "what a person approved")
            found[one.index] = Doubt(step, whole, bool(one.values) and objective.better(value, level))
    return found


def _alone(
    objective: Objective, values: Sequence[float], flags: Sequence[str], baseline: Sequence[float], level: float
) -> str:
    """What makes a result doubtful, whatever it is made of, as a clause; "" if nothing does."""
    for flag in flags:
        if SETS_OBJECTIVE in flag or flag.startswith(FLAT):
            return flag
    if len(values) > 1 and min(values) == max(values) and noise_of([baseline]).sd:
        return f"all its {len(values)} runs are equal ({values[0]:.4g}), and those of the baseline are not"
    return _too_far(objective, values, baseline, level, "what it was edited on")


def _too_far(objective: Objective, values: Sequence[float], baseline: Sequence[float], level: float, words: str) -> str:
    """That runs are far better than that level, or than the baseline where this is the better one; else ""."""
    sd = noise_of([baseline]).sd
    if not sd or not values:
        return ""
    start, ours = mean(baseline), mean(values)
    best, than = (level, words) if objective.better(level, start) else (start, "the baseline")
    far = abs(ours - best) / sd if objective.better(ours, best) else 0.0
    return f"it is {far:.0f} standard deviations better than {than}" if far > FAR else ""
