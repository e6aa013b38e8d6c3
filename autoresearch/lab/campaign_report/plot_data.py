"""What the plots of a campaign show, as numbers: one model for the page and for the picture to share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.proposer import points
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.standing import KEPT, Basis, Word, tally
from autoresearch.core.metrics.objective import Direction
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.history import read_file
from autoresearch.lab.campaign_report import summary
from autoresearch.lab.campaign_report.summary import Band, IdeaLine
from autoresearch.lab.yaml_files import parse_mapping

FAR = 2.0  # worse than what counts by more than so many spans of it is far out
USUAL = 0.85  # unless so large a share of all ideas would be
ABSURD = 50.0  # spans of best line and band: no metric that means anything lies further out


@dataclass(frozen=True, slots=True)
class Point:
    """One attempted idea. `y` None: it has no metric, and is drawn at the edge where worse values lie."""

    x: int
    y: float | None
    standing: Word
    name: str  # as people read it: `#7 lr=4.4e-3`
    words: str  # the number in words, with its interval and its runs
    replicates: tuple[float, ...] = ()
    low: float | None = None  # the interval of `y`, where that is an estimate from fresh runs
    high: float | None = None
    selected: float | None = None  # the search mean, where `y` is such an estimate


@dataclass(frozen=True, slots=True)
class Progress:
    """The objective over ideas."""

    title: str  # `24 ideas, 3 kept, 1 confirmed`
    metric: str
    better: str  # "higher is better"
    maximize: bool
    points: tuple[Point, ...]
    path: tuple[tuple[int, float], ...]  # the best idea so far
    band: Band | None
    target: float | None
    low: float
    high: float


def progress_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> Progress:
    """Every attempt as a point, the best-so-far line, the band; the range of the axis."""
    objective = state.spec.objective
    band = summary.band_of(state)
    path = tuple(_best_path(state, idea_lines))
    marks = tuple(_point(line) for line in idea_lines if line.word not in (Word.RUNNING, Word.PREPARED))
    maximize = objective.direction is Direction.MAXIMIZE
    target = state.spec.rules.target
    low, high = _range(marks, path, band, target, 1.0 if maximize else -1.0)
    title = tally(state, (line.stands for line in idea_lines))
    return Progress(title, objective.metric, objective.better_words, maximize, marks, path, band, target, low, high)


def _best_path(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> Iterator[tuple[int, float]]:
    """The best idea so far, at the number that is shown of it: what is confirmed goes before what was only picked."""
    best: tuple[bool, float] | None = None
    for line in idea_lines:
        sure, value = line.word is Word.CONFIRMED, line.stands.value
        if line.word in (*KEPT, Word.BASELINE) and value is not None and math.isfinite(value):
            better = best is None or state.spec.objective.better(value, best[1])
            if best is None or sure > best[0] or (sure == best[0] and better):
                best = sure, value
        if best is not None:
            yield line.idea.index, best[1]


def _point(idea_line: IdeaLine) -> Point:
    """An idea at the number to show of it, which is that of its fresh runs if there are some."""
    one, replicates = idea_line.stands, idea_line.replicates
    selected = one.search_mean if one.basis is Basis.FRESH else None
    return Point(one.index, one.value, one.word, one.name, one.words, replicates, one.low, one.high, selected)


def _range(
    marks: Sequence[Point], path: Sequence[tuple[int, float]], band: Band | None, target: float | None, sign: float
) -> tuple[float, float]:
    """Wide enough for what counts (best line, band, whatever is better), and for most of what is worse.

    A few that lie far out on the worse side would flatten all others: they are drawn at the edge.
    """
    core = [v for _, v in path]
    if band:
        core += [band.mean - (band.sd or 0.0), band.mean + (band.sd or 0.0)]
    core += [v for p in marks for v in (p.low, p.high) if v is not None and math.isfinite(v)]
    values = [v for p in marks if p.y is not None for v in (p.y, *p.replicates)]
    core = core or values or [0.0, 1.0]
    floor, top = min(v * sign for v in core), max(v * sign for v in core)
    most = ABSURD * (top - floor or abs(top) or 1.0)
    shown = [v for v in values if floor <= v * sign <= top + most] + core
    span = max(v * sign for v in shown) - floor or abs(floor) or 1.0
    short = sorted(max(0.0, floor - p.y * sign) for p in marks if p.y is not None)
    usual = short[math.ceil(USUAL * len(short)) - 1] if short else 0.0
    depth = min(max(FAR * span, FAR * usual), most)
    shown += [v for v in values if floor - depth <= v * sign < floor]
    if target is not None and floor - depth <= target * sign <= floor + FAR * span:
        shown.append(target)
    low, high = min(shown), max(shown)
    pad = 0.08 * (high - low or abs(high) or 1.0)
    return low - pad, high + pad


Settings = list[tuple[dict[str, object], float]]  # of ideas, with the value of each


def settings_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> tuple[Settings, Settings]:
    """Those of each measured idea that was kept, then of the others, newest first; the recipe's where it changes none.

    Ideas of code are left out: no setting says what they are.
    """
    base = _recipe(state)
    changes = points(state.attempts())
    kept: Settings = []
    others: Settings = []
    for line in reversed(idea_lines):
        value, slug = line.stands.value, line.idea.slug
        if slug in changes and value is not None and math.isfinite(value):
            found = kept if line.word in (*KEPT, Word.BASELINE) else others
            found.append(({**base, **changes[slug]}, value))
    return kept, others


def _recipe(state: CampaignState) -> dict[str, object]:
    """The recipe's values at the base commit, as far as it can be read."""
    spec = state.spec
    try:
        text = read_file(Path(spec.repository), spec.base_commit, spec.recipe)
        return {**flatten(parse_mapping(text, spec.recipe)), **spec.flags}
    except (OSError, AutoresearchError):
        return dict(spec.flags)
