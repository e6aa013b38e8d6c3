"""The plot of a campaign's objective over its ideas: its numbers, of which the page draws its own, and progress.png.

The only file of the report that knows matplotlib.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.standing import KEPT, Basis, Word, tally
from autoresearch.core.metrics.objective import Direction
from autoresearch.lab.campaign_report import summary
from autoresearch.lab.campaign_report.formatting import number
from autoresearch.lab.campaign_report.summary import Band, IdeaLine
from autoresearch.records.hostile import write_atomically

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


# ------------------------------------------------------------------------------------------ the picture

INK, SOFT, BASE, BLUE, GREEN, ORANGE, RED = "#1c1f23", "#5b626b", "#4a4f57", "#0072b2", "#00805d", "#b35900", "#c0392b"
# from back to front: marker, size, face, edge, words; the colours are those of the page, which all eyes tell apart
STYLES: dict[Word, tuple[str, float, str, str, str]] = {
    Word.NOT_JUDGED: ("s", 18, "none", "#c3c7cd", "not judged"),
    Word.DISCARDED: ("o", 30, "#c9cdd2", "none", "discarded"),
    Word.BETTER: ("o", 30, "none", BASE, Word.BETTER.value),
    Word.OUT: ("o", 30, "#c9cdd2", "none", "out"),
    Word.ASIDE: ("o", 30, "#c9cdd2", SOFT, "set aside"),
    Word.IN_TIP: ("o", 40, "#c9cdd2", GREEN, "in the tip: one run"),
    Word.PENDING: ("o", 40, "none", BLUE, "pending"),
    Word.DEMOTED: ("v", 60, "none", ORANGE, "demoted"),
    Word.NOT_TRIED: ("x", 30, SOFT, "face", "not tried, at the edge"),
    Word.SCREENED: ("x", 30, SOFT, "face", "screened, at the edge"),
    Word.UNMEASURED: ("x", 30, ORANGE, "face", "unmeasured, at the edge"),
    Word.CRASHED: ("x", 30, RED, "face", "crashed, at the edge"),
    Word.BASELINE: ("s", 56, BASE, BASE, "baseline ± sd of one run"),
    Word.KEPT: ("o", 70, BLUE, "white", "kept: search mean"),
    Word.CONFIRMED: ("*", 260, GREEN, "white", "confirmed: fresh runs, with interval"),
}
LONGEST = 52  # characters of a label


def write_png(path: Path, progress: Progress) -> None:
    """Draw and replace the picture: 1760 by 880 pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.5), dpi=160, layout="constrained", facecolor="white")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(plain(progress.title), loc="left", fontsize=14, fontweight="bold", color=INK, pad=12)
    axes.grid(axis="y", color="#eceef0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#c3c7cd")
    axes.tick_params(colors=SOFT, labelsize=10, length=0)
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        _draw(axes, progress)
        canvas.print_png(picture)  # `savefig` draws everything once more, for a layout that is done
    write_atomically(path, picture.getvalue(), durable=False)


def _draw(axes: Any, progress: Progress) -> None:
    last = max([p.x for p in progress.points] + [x for x, _ in progress.path] + [2])
    axes.set_xlim(0.4, last + 0.6)
    axes.set_ylim(progress.low, progress.high)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("idea, in the order of the attempts", color=SOFT, fontsize=10.5)
    axes.set_ylabel(plain(f"{progress.metric} ({progress.better})"), color=SOFT, fontsize=10.5)
    _lines(axes, progress, last + 0.6)
    _points(axes, progress)
    if axes.get_legend_handles_labels()[0]:  # nothing is drawn before the first row
        axes.figure.legend(loc="outside lower left", ncols=4, fontsize=9.5, frameon=False, labelcolor=SOFT)
    _labels(axes, progress)


def _lines(axes: Any, progress: Progress, end: float) -> None:
    if progress.band:
        mean, sd = progress.band.mean, progress.band.sd or 0.0
        axes.axhspan(mean - sd, mean + sd, color=BASE, alpha=0.10, linewidth=0)
        axes.axhline(mean, color=BASE, linewidth=1, linestyle="--")
    if progress.target is not None and progress.low <= progress.target <= progress.high:
        axes.axhline(progress.target, color=ORANGE, linewidth=1, linestyle=":", label=f"target {progress.target:g}")
    if progress.path:
        xs, ys = zip(*progress.path, (end, progress.path[-1][1]), strict=True)
        axes.step(xs, ys, where="post", color=BLUE, linewidth=1.8, label="best so far")


def _points(axes: Any, progress: Progress) -> None:
    low, high = progress.low, progress.high
    edge = low if progress.maximize else high
    several = [(p.x, v) for p in progress.points if len(p.replicates) > 1 for v in p.replicates if low <= v <= high]
    if several:
        axes.scatter(*zip(*several, strict=True), s=7, color="#8a8f98", alpha=0.6, linewidths=0, zorder=2)
    chosen = [(p.x, min(max(p.selected, low), high)) for p in progress.points if p.selected is not None]
    if chosen:
        look = {"s": 50, "facecolors": "none", "edgecolors": SOFT, "linewidths": 1.1, "label": "search mean (selected)"}
        axes.scatter(*zip(*chosen, strict=True), **look, zorder=3)
    for standing, (marker, size, face, line, words) in STYLES.items():
        own = [p for p in progress.points if _drawn_as(p) is standing]
        if own:
            ys = [edge if p.y is None else min(max(p.y, low), high) for p in own]
            look = {"s": size, "marker": marker, "facecolors": face, "edgecolors": line, "label": words}
            axes.scatter([p.x for p in own], ys, **look, linewidths=1.2, clip_on=False, zorder=4)
        for p in own:
            if p.y is not None and not low <= p.y <= high:  # at the edge, with its number
                words, down = (f"▲ {number(p.y)}", -1) if p.y > high else (f"▼ {number(p.y)}", 1)
                axes.annotate(words, (p.x, min(max(p.y, low), high)), (0, 9 * down), textcoords="offset points",
                              ha="center", va="top" if down < 0 else "bottom", fontsize=8, color=SOFT)  # fmt: skip
            if p.low is not None and p.high is not None:
                colour = face if face != "none" else line
                axes.vlines(p.x, max(p.low, low), min(p.high, high), color=colour, linewidth=2, zorder=3)


def _drawn_as(point: Point) -> Word:
    """Whatever has no number is at the edge, as what crashed is."""
    own = point.y is not None or point.standing in (Word.NOT_TRIED, Word.SCREENED, Word.UNMEASURED)
    return point.standing if own else Word.CRASHED


def _labels(axes: Any, progress: Progress) -> None:
    """The names of kept ideas, above their marks and towards the middle; of a confirmed one also what it gained."""
    middle = sum(axes.get_xlim()) / 2
    for point in progress.points:
        if point.standing in KEPT and point.y is not None:
            sure = point.standing is Word.CONFIRMED
            top = min(max(point.y if point.high is None else point.high, progress.low), progress.high)
            axes.annotate(
                plain(_label(point)), (point.x, top), (0, 7), textcoords="offset points", zorder=6,
                ha="right" if point.x > middle else "left", va="bottom", fontsize=10 if sure else 9,
                color=GREEN if sure else INK, fontweight="bold" if sure else "normal",
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
            )  # fmt: skip


def _label(point: Point) -> str:
    name = point.name if len(point.name) <= LONGEST else f"{point.name[: LONGEST - 1]}…"
    if point.low is None or point.high is None:
        return name
    return f"{name}: {number(point.y)} [{number(point.low)}, {number(point.high)}]"


def plain(text: str) -> str:
    """A dollar sign would begin a formula."""
    return text.replace("$", r"\$")
