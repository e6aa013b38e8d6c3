"""What the plots of a campaign show, as numbers: the same for the page and for the picture to share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoresearch.core.campaign.shown_value import Basis
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.metrics.objective import Direction
from autoresearch.lab.campaign_report import formatting, summary
from autoresearch.lab.campaign_report.summary import Band, IdeaLine, IdeaStatus

FAR = 2.0  # worse than what counts by more than so many spans of it is far out
USUAL = 0.85  # unless so large a share of all ideas would be
ABSURD = 50.0  # spans of best line and band: no metric that means anything lies further out


@dataclass(frozen=True, slots=True)
class Point:
    """One attempted idea. `y` None: it has no metric, and is drawn at the edge where worse values lie."""

    x: int
    y: float | None
    standing: IdeaStatus
    slug: str
    title: str
    replicates: tuple[float, ...] = ()
    best: bool = False  # it moved the best-so-far line
    low: float | None = None  # the interval of `y`, where that is an estimate from fresh runs
    high: float | None = None
    selected: float | None = None  # the search mean, where `y` is such an estimate


@dataclass(frozen=True, slots=True)
class Progress:
    """The objective over ideas."""

    metric: str
    better: str  # "higher is better"
    maximize: bool
    points: tuple[Point, ...]
    path: tuple[tuple[int, float], ...]  # best search mean so far
    band: Band | None
    target: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """One budget over wall time: (seconds since the epoch, share of it that is left, 0 to 1)."""

    name: str
    whole: str  # how much it is, in words
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """The objective over the steps of one run."""

    run: str
    index: int
    slug: str
    standing: IdeaStatus
    points: tuple[tuple[int, float], ...]


def progress_of(state: CampaignState, idea_lines: Sequence[IdeaLine]) -> Progress:
    """Every attempt as a point, the best-so-far line, the band; the range of the axis."""
    objective = state.spec.objective
    band = summary.band_of(state)
    values = summary.best_path(state)
    path = tuple((line.index, v) for line, v in zip(idea_lines, values, strict=True) if v is not None)
    moved = {x for n, (x, v) in enumerate(path) if n == 0 or v != path[n - 1][1]}
    points = tuple(
        _point(line, best=line.index in moved)
        for line in idea_lines
        if line.standing not in (IdeaStatus.RUNNING, IdeaStatus.PREPARED)
    )
    maximize = objective.direction is Direction.MAXIMIZE
    target = state.spec.rules.target
    low, high = _range(points, path, band, target, 1.0 if maximize else -1.0)
    return Progress(objective.metric, objective.better_words, maximize, points, path, band, target, low, high)


def _point(idea_line: IdeaLine, *, best: bool) -> Point:
    """An idea at the number to show of it, which is its estimate if fresh runs gave one."""
    shown = idea_line.shown
    words = f"{idea_line.standing}, {shown.words}" if shown.basis is Basis.SEARCH else shown.words
    text = f"{idea_line.index} {shown.slug}: {words}. {idea_line.sentence} {idea_line.why}"
    if idea_line.standing is IdeaStatus.SMOKE:  # its runs judge nothing
        text = f"{idea_line.index} {shown.slug}: smoke, {formatting.number(idea_line.mean)}. {idea_line.sentence}"
    estimated = shown.change is not None
    y = idea_line.mean if idea_line.standing is IdeaStatus.SMOKE else shown.value
    return Point(
        x=idea_line.index,
        y=y,
        standing=idea_line.standing,
        slug=idea_line.slug,
        title=formatting.plain(text, 400),
        replicates=(*idea_line.values, *idea_line.confirming) if shown.basis is Basis.BASELINE
        else idea_line.confirming if estimated else idea_line.values,
        best=best,
        low=shown.low,
        high=shown.high,
        selected=shown.search_mean if estimated else None,
    )  # fmt: skip


def _range(
    points: Sequence[Point], path: Sequence[tuple[int, float]], band: Band | None, target: float | None, sign: float
) -> tuple[float, float]:
    """Wide enough for what counts (best line, band, whatever is better), and for most of what is worse.

    A few that lie far out on the worse side would flatten all others: they are drawn at the edge.
    """
    core = [v for _, v in path]
    if band:
        core += [band.mean - (band.sd or 0.0), band.mean + (band.sd or 0.0)]
    core += [v for p in points for v in (p.low, p.high) if v is not None and math.isfinite(v)]
    values = [v for p in points if p.y is not None for v in (p.y, *p.replicates)]
    core = core or values or [0.0, 1.0]
    floor, top = min(v * sign for v in core), max(v * sign for v in core)
    most = ABSURD * (top - floor or abs(top) or 1.0)
    shown = [v for v in values if floor <= v * sign <= top + most] + core
    span = max(v * sign for v in shown) - floor or abs(floor) or 1.0
    short = sorted(max(0.0, floor - p.y * sign) for p in points if p.y is not None)
    usual = short[math.ceil(USUAL * len(short)) - 1] if short else 0.0
    depth = min(max(FAR * span, FAR * usual), most)
    shown += [v for v in values if floor - depth <= v * sign < floor]
    if target is not None and floor - depth <= target * sign <= floor + FAR * span:
        shown.append(target)
    low, high = min(shown), max(shown)
    pad = 0.08 * (high - low or abs(high) or 1.0)
    return low - pad, high + pad


def budgets_of(state: CampaignState, now: float) -> list[BudgetCurve]:
    """Ideas, time and GPU hours that are left, over wall time; those that have a rule."""
    spec, rules = state.spec, state.spec.rules
    rows = sorted((row for row in state.rows if row.ended is not None), key=lambda row: row.ended or 0.0)
    end = max([now if not rows else rows[-1].ended or now, spec.created])
    found = []
    if rules.count:
        begun = sorted(_begun(state))
        steps = [(spec.created, 1.0)]
        for n, t in enumerate(begun, 1):
            steps += [(t, steps[-1][1]), (t, max(0.0, 1 - n / rules.count))]
        found.append(BudgetCurve("ideas", f"{rules.count} ideas", (*steps, (max(end, steps[-1][0]), steps[-1][1]))))
    if rules.deadline is not None and rules.deadline > spec.created:
        left = max(0.0, 1 - (end - spec.created) / (rules.deadline - spec.created))
        found.append(
            BudgetCurve("time", f"until {formatting.stamp(rules.deadline)}", ((spec.created, 1.0), (end, left)))
        )
    if rules.budget_gpu_hours:
        spent, points = 0.0, [(spec.created, 1.0)]
        for row in rows:
            spent += (row.elapsed_min or 0.0) / 60 * spec.gpus_per_run
            points.append((row.ended or end, max(0.0, 1 - spent / rules.budget_gpu_hours)))
        found.append(BudgetCurve("GPU hours", f"{rules.budget_gpu_hours:g} GPU hours", (*points, (end, points[-1][1]))))
    return found


def _begun(state: CampaignState) -> Iterable[float]:
    """When the first run of each idea began, as far as its rows say so."""
    for idea in state.ideas:
        times = [row.started for row in idea.rows if row.started is not None]
        if times:
            yield min(times)


def thinned(points: Sequence[tuple[int, float]], most: int = 120) -> tuple[tuple[int, float], ...]:
    """At most so many finite points of a curve, the last one always among them."""
    finite = [p for p in points if math.isfinite(p[1])]
    stride = max(1, math.ceil(len(finite) / most))
    kept = finite[::stride]
    return tuple(kept if not finite or kept[-1] == finite[-1] else [*kept, finite[-1]])
