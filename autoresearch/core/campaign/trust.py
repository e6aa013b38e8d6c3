"""Trust: what makes the result of an agent's edit doubtful, where the edited code measures itself.

An edit that touches its own measurement waits for a person: nothing is built on it, and it is not claimed, before
somebody has looked. One that is only far better than the baseline is built on and proved as any other, and its claim
says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.agents.suspicion import SETS_OBJECTIVE
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.noise import mean, noise_of

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
    """What is doubtful about an idea, as clauses; "" for nothing."""

    waits: str = ""  # why a person must approve it before it is built on or claimed
    far: str = ""  # that it is better than training usually gets
    gains: bool = False  # whether it is better than what it was edited on


def doubts(objective: Objective, measured_ideas: Sequence[MeasuredIdea]) -> dict[int, Doubt]:
    """The doubt about each edited idea that nobody approved, by its index. The baseline is first, then the oldest."""
    baseline = measured_ideas[0].values if measured_ideas else ()
    start = mean(baseline) if baseline else 0.0
    found = dict[int, Doubt]()
    below, shown = dict[int, float](), dict[int, float]()
    for one in measured_ideas:
        parent, *parts = one.made_of or (0,)
        level = shown.get(parent, start)  # what it would measure if its own edit did nothing
        if one.merge:  # ... or if the gains of its parts add
            level += sum(shown[part] - below[part] for part in parts if part != parent)
        value = mean(one.values) if one.values else level
        below[one.index], shown[one.index] = level, value
        if one.edited and not one.approved:
            waits = _alone(one.values, one.flags, baseline)
            waits = waits or next((found[n].waits for n in one.made_of if n in found and found[n].waits), "")
            gains = bool(one.values) and objective.better(value, level)
            found[one.index] = Doubt(waits, _far(objective, one.values, baseline), gains)
    return found


def _alone(values: Sequence[float], flags: Sequence[str], baseline: Sequence[float]) -> str:
    """Why a person has to look at it, whatever it is made of, as a clause; "" for no reason."""
    for flag in flags:
        if SETS_OBJECTIVE in flag or flag.startswith(FLAT):
            return flag
    if len(values) > 1 and min(values) == max(values) and noise_of([baseline]).sd:
        return f"all its {len(values)} runs are equal ({values[0]:.4g}), and those of the baseline are not"
    return ""


def _far(objective: Objective, values: Sequence[float], baseline: Sequence[float]) -> str:
    """That runs are far better than the baseline's; else ""."""
    sd = noise_of([baseline]).shown_sd
    if not sd or not values or not objective.better(ours := mean(values), start := mean(baseline)):
        return ""
    far = abs(ours - start) / sd
    return f"{far:.0f} standard deviations better than the baseline" if far > FAR else ""
