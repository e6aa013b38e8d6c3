"""progress.png, the picture to share. The only file of the report that knows matplotlib."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from autoresearch.core.controller.standing import KEPT, Word
from autoresearch.lab.campaign_report.formatting import number
from autoresearch.lab.campaign_report.plot_data import Point, Progress
from autoresearch.records.rundir import write_atomically

INK, SOFT, BASE, BLUE, GREEN, ORANGE, RED = "#1c1f23", "#5b626b", "#4a4f57", "#0072b2", "#00805d", "#b35900", "#c0392b"
# from back to front: marker, size, face, edge, words; the colours are those of the page, which all eyes tell apart
STYLES: dict[Word, tuple[str, float, str, str, str]] = {
    Word.SMOKE: ("s", 18, "none", "#c3c7cd", "smoke run"),
    Word.DISCARDED: ("o", 30, "#c9cdd2", "none", "discarded"),
    Word.BETTER: ("o", 30, "none", BASE, Word.BETTER.value),
    Word.OUT: ("o", 30, "#c9cdd2", "none", "out"),
    Word.ASIDE: ("o", 30, "#c9cdd2", SOFT, "set aside"),
    Word.IN_TIP: ("o", 40, "#c9cdd2", GREEN, "in the tip: one run"),
    Word.PENDING: ("o", 40, "none", BLUE, "pending"),
    Word.DEMOTED: ("v", 60, "none", ORANGE, "demoted"),
    Word.NOT_TRIED: ("x", 30, SOFT, "face", "not tried, at the edge"),
    Word.UNMEASURED: ("x", 30, ORANGE, "face", "unmeasured, at the edge"),
    Word.CRASHED: ("x", 30, RED, "face", "crashed, at the edge"),
    Word.BASELINE: ("s", 56, BASE, BASE, "baseline ± sd of one run"),
    Word.KEPT: ("o", 70, BLUE, "white", "kept: search mean"),
    Word.CONFIRMED: ("*", 260, GREEN, "white", "confirmed: fresh runs, with interval"),
}
LONGEST = 52  # characters of a label
Box = tuple[float, float, float, float]  # left, right, bottom, top in pixels


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
    own = point.y is not None or point.standing in (Word.NOT_TRIED, Word.UNMEASURED)
    return point.standing if own else Word.CRASHED


def _labels(axes: Any, progress: Progress) -> None:
    """The names of kept ideas, each at the first free place near its mark, a confirmed one with what it gained."""
    figure = axes.figure
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")  # a second pass would move the axes away from where the labels point
    kept = [p for p in progress.points if p.standing in KEPT and p.y is not None]
    inside, pixels = axes.get_window_extent(), axes.transData.transform
    marks = [(p, *pixels((p.x, p.y)), pixels((p.x, p.y if p.high is None else p.high))[1]) for p in kept]
    taken: list[Box] = [(x - 14, x + 14, y - 14, max(y, top) + 14) for _, x, y, top in marks]
    for point, x, y, top in sorted(marks, key=lambda mark: (mark[0].standing is not Word.CONFIRMED, -mark[0].x)):
        sure = point.standing is Word.CONFIRMED
        text = axes.annotate(
            plain(_label(point)), (x, y), (x, y), xycoords="figure pixels", ha="center", va="center",
            fontsize=10 if sure else 9, color=GREEN if sure else INK, fontweight="bold" if sure else "normal", zorder=6,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )  # fmt: skip
        text.set_in_layout(False)
        box = text.get_window_extent()
        spot = _free((x, y, top), box.width + 10, box.height + 6, inside, taken)
        if spot is None:
            text.remove()
            continue
        text.set_position(spot)
        half = box.width / 2
        if not y - 50 < spot[1] < top + 50 or abs(spot[0] - x) > half + 14:
            end = (min(max(x, spot[0] - half), spot[0] + half), spot[1])  # the label's end that is nearer
            axes.annotate("", (x, y), end, xycoords="figure pixels", textcoords="figure pixels", zorder=5,
                          arrowprops={"arrowstyle": "-", "color": "#8a8f98", "linewidth": 0.7, "shrinkA": 5,
                                      "shrinkB": 7}).set_in_layout(False)  # fmt: skip


def _free(
    mark: tuple[float, float, float], width: float, height: float, inside: Any, taken: list[Box]
) -> tuple[float, float] | None:
    """The middle of the nearest box of this size that overlaps none of those taken, and takes it.

    `mark`: x, and y of its middle and its top.
    """
    x, middle, top = mark
    first = 16 + height / 2
    for y in (side for n in range(24) for side in (top + first + height * n, middle - first - height * n)):
        for centre in (x, x + width / 2 + 8, x - width / 2 - 8):
            box = (centre - width / 2, centre + width / 2, y - height / 2, y + height / 2)
            within = box[0] >= inside.x0 and box[1] <= inside.x1 and box[2] >= inside.y0 and box[3] <= inside.y1
            if within and not any(box[0] < b[1] and box[1] > b[0] and box[2] < b[3] and box[3] > b[2] for b in taken):
                taken.append(box)
                return centre, y
    return None


def _label(point: Point) -> str:
    name = point.name if len(point.name) <= LONGEST else f"{point.name[: LONGEST - 1]}…"
    if point.low is None or point.high is None:
        return name
    return f"{name}: {number(point.y)} [{number(point.low)}, {number(point.high)}]"


def plain(text: str) -> str:
    """A dollar sign would begin a formula."""
    return text.replace("$", r"\$")
