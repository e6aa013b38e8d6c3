"""What each edit of a confirmed tip is worth, measured: the tip without it runs beside the tip, with fresh seeds.

The model of `core.campaign.tip` tells what edits are worth as far as effects add. Once a tip is confirmed, versions of
it that lack one edit each are made, those of the least sure edits first, as many as `confirm_runs` and the time left
allow. They and the tip run in turn, RUNS times each. An edit without which the tip is surely no worse by more than
LITTLE may be dropped: the version without the one that gains least is put to the proof, and wins if it is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.campaign.claim import Claim
from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.state import CampaignState, Idea, Round
from autoresearch.core.campaign.tip import effects
from autoresearch.core.controller import runs_and_retries
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.core.controller.runs_and_retries import RunRequest
from autoresearch.core.statistics.noise import measured, variance
from autoresearch.core.statistics.student_t import t_quantile

RUNS = 4  # of each version
LITTLE = 0.5  # standard deviations of a run: an edit that surely gains less may be dropped
SURE = 0.9  # how surely, by one side
COVERED = 0.9  # by the interval of what an edit gains
MOST_TRIES = 2  # times RUNS, of a version whose runs are ended by the machine


@dataclass(frozen=True, slots=True)
class EditWorth:
    """What the confirmed tip gains by one of its edits, in the metric's unit; positive is better."""

    edit: Idea
    version: Idea  # the tip without it
    gain: float
    low: float
    high: float
    runs: tuple[int, int]  # with and without
    lost: int  # further runs without it, which have no metric
    droppable: bool


def due(state: CampaignState, runs: float) -> tuple[Idea, list[Idea]] | None:
    """The confirmed tip whose edits are to be measured now, and those edits; None if there is none, or no room.

    `runs`: how many the time and the GPU hours left have room for.
    """
    if state.open_round or not state.spec.confirm or state.spec.prove or state.unseeded:
        return None
    room = int(min(state.spec.rules.confirm_runs, runs) // RUNS) - 1
    known = {index for one in state.rounds if one.of for index in (one.of, *one.candidates)}
    for idea in state.ideas:
        edits = [edit for edit in map(state.by_slug, idea.hypothesis.merges) if edit]
        if idea.confirmed == Claim.CONFIRMED and len(edits) > 1 and idea.index not in known and room > 0:
            return idea, sorted(edits, key=lambda edit: _sureness(state, edit))[:room]
    return None


def _sureness(state: CampaignState, idea: Idea) -> float:
    worth = effects(state).get(idea.index)
    return worth.mean / worth.sd if worth and worth.sd else 0.0


def next_number(state: CampaignState) -> int:
    """The number of the next ablation: below 0, as proofs count from 1, and 0 is the search."""
    return -1 - sum(bool(one.of) for one in state.rounds)


def owed(state: CampaignState, ongoing: Round) -> RunRequest | None:
    """The run that comes next: of the version with the fewest."""
    sides = (ongoing.of, *ongoing.candidates) if ongoing.candidates else ()
    for idea in sorted((one for one in state.ideas if one.index in sides), key=lambda one: _begun(one, ongoing)):
        tries = sum(run.round == ongoing.number for run in idea.runs)
        if _begun(idea, ongoing) < RUNS and tries < MOST_TRIES * RUNS:
            return RunRequest(idea, runs_and_retries.next_replicate(idea), "confirm")
    return None


def _begun(idea: Idea, ongoing: Round) -> int:
    live = sum(run.round == ongoing.number and run.run not in idea.done for run in idea.runs)
    return live + len(idea.fresh_values(ongoing.number))


def settle(state: CampaignState, ongoing: Round) -> tuple[ControllerAction, ...]:
    """End an ablation, and say what it shows."""
    return Note("confirmed_round", {"round": ongoing.number}), *(Say(words) for words in edit_words(state))


def edit_worths(state: CampaignState) -> list[EditWorth]:
    """What the last ablation has measured so far, the edit that gains least first."""
    last = next((one for one in reversed(state.rounds) if one.of), None)
    whole = next((idea for idea in state.ideas if last and idea.index == last.of), None)
    if last is None or whole is None:
        return []
    found = []
    ours = whole.fresh_values(last.number)
    for version in state.ideas:
        theirs = version.fresh_values(last.number) if version.index in last.candidates else []
        lacking = {*whole.hypothesis.merges} - {*version.hypothesis.merges}
        edit = next((idea for idea in state.ideas if idea.slug in lacking), None)
        if edit is not None and min(len(measured(ours)), len(measured(theirs))) > 1:
            found.append(_worth(state, edit, version, ours, theirs))
    return sorted(found, key=lambda one: one.gain)


def smaller(state: CampaignState) -> Idea | None:
    """The confirmed tip without the edit that gains least, if that may be dropped: it is to be confirmed by itself."""
    least = None if state.open_round else next(iter(edit_worths(state)), None)
    return least.version if least and least.droppable and not least.version.confirmed else None


def _worth(
    state: CampaignState, idea: Idea, version: Idea, with_it: Sequence[float | None], without: Sequence[float | None]
) -> EditWorth:
    """By Student's t, with the variance of both sides together. Runs that survive are the better ones: an edit without
    which more runs fail, or a constraint is broken, is not to be dropped.
    """
    ours, theirs = measured(with_it), measured(without)
    n, m = len(ours), len(theirs)
    sd = math.sqrt(((n - 1) * variance(ours) + (m - 1) * variance(theirs)) / (n + m - 2))
    error = sd * math.sqrt(1 / n + 1 / m)
    gains = gain(state.spec.objective, ours, theirs)
    half, least = (t_quantile(p, n + m - 2) * error for p in ((1 + COVERED) / 2, SURE))
    fails = version.broken or len(without) - m > len(with_it) - n
    droppable = gains + least < LITTLE * sd and not fails
    return EditWorth(idea, version, gains, gains - half, gains + half, (n, m), len(without) - m, droppable)


def edit_words(state: CampaignState) -> list[str]:
    """A sentence for each edit that was measured, in the metric's own sign."""
    words, objective = [], state.spec.objective
    for one in edit_worths(state):
        change, *ends = (objective.change(value) for value in (one.gain, one.low, one.high))
        low, high = sorted(ends)
        interval = f"{100 * COVERED:.0f} % interval {low:+.3g} to {high:+.3g}"
        runs = f"{one.runs[0]} fresh runs with it, {one.runs[1]} without"
        runs += f" and {one.lost} more that have no metric" if one.lost else ""
        text = f"{one.edit.name}: {objective.metric} {change:+.3g} by it ({interval}; {runs})"
        words.append(f"{text}; it may be dropped" if one.droppable else text)
    return words
