"""Landscape: what the objective did where each recipe key was varied, as far as a campaign has gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from autoresearch.core.campaign.judgement import search_mean
from autoresearch.core.campaign.overrides import canonical, flatten, shown
from autoresearch.core.campaign.state import CampaignState, Idea

MOST_VALUES = 8  # of one key; more are put into ranges


@dataclass(frozen=True, slots=True)
class Spot:
    """A value of a key, or a range of values, and the mean of the objective over so many ideas."""

    text: str
    mean: float
    ideas: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One key that was varied."""

    key: str
    spots: tuple[Spot, ...]  # by value


def landscape(state: CampaignState, baseline: Mapping[str, object]) -> list[Axis]:
    """Every key that some measured idea set, the most tried first; other keys differ too, so it is marginal."""
    means = ((idea, search_mean(state, idea)) for idea in state.ideas)
    measured = [(effective(state, idea), value) for idea, value in means if value is not None]
    axes = []
    for key in dict.fromkeys(key for settings, _ in measured for key in settings):
        points: list[tuple[object, float]] = [(s[key], value) for s, value in measured if key in s]
        as_before = [(baseline[key], value) for s, value in measured if key not in s] if key in baseline else []
        if axis := _axis(key, points, as_before):
            axes.append(axis)
    return sorted(axes, key=lambda axis: (-sum(spot.ideas for spot in axis.spots), axis.key))


def effective(state: CampaignState, idea: Idea) -> dict[str, object]:
    """What differs from the baseline's recipe: an idea's overrides over those of all that it was built on."""
    chain = [idea]
    while (above := state.by_slug(chain[-1].parent)) is not None and above not in chain and len(chain) < 1000:
        chain.append(above)
    settings: dict[str, object] = {}
    for one in reversed(chain):
        for merged in map(state.by_slug, one.hypothesis.merges):
            settings |= _own(merged) if merged else {}
        settings |= _own(one)
    return settings


def _own(idea: Idea) -> dict[str, object]:
    return {key.removeprefix("+"): value for key, value in flatten(idea.hypothesis.overrides).items()}


def _axis(key: str, points: Sequence[tuple[object, float]], as_before: list[tuple[object, float]]) -> Axis | None:
    """The points of the ideas that set a key, and of those that left it as the baseline has it."""
    by_value = {canonical(as_before[0][0]): as_before} if as_before else {}
    for value, mean in points:
        by_value.setdefault(canonical(value), []).append((value, mean))
    if len(by_value) < 2:
        return None
    groups = list(by_value.values())
    numbers = all(_is_number(value) for value, _ in (*points, *as_before[:1]))
    groups.sort(key=(lambda g: float(str(g[0][0]))) if numbers else (lambda g: canonical(g[0][0])))
    if numbers and len(groups) > MOST_VALUES:
        groups = _ranges(groups)
    spots = [_spot(group) for group in groups]
    return Axis(key, tuple(spots))


def _ranges(groups: list[list[tuple[object, float]]]) -> list[list[tuple[object, float]]]:
    """As many ranges as may be shown, with about as many values each."""
    size = -(-len(groups) // MOST_VALUES)
    return [[point for group in groups[at : at + size] for point in group] for at in range(0, len(groups), size)]


def _spot(points: Sequence[tuple[object, float]]) -> Spot:
    first, last = points[0][0], points[-1][0]
    text = shown(first) if canonical(first) == canonical(last) else f"{shown(first)} to {shown(last)}"
    return Spot(text, fmean(mean for _, mean in points), len(points))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
