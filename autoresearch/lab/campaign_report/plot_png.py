"""progress.png, the picture to share; the only file that knows matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from autoresearch.lab.campaign_report.plot_data import Progress
from autoresearch.lab.campaign_report.plot_svg import BAND, SELECTED
from autoresearch.lab.campaign_report.summary import IdeaStatus
from autoresearch.records.rundir import write_atomically

# marker, size, face, edge; the colours are those of the page (Okabe and Ito's, told apart by all eyes)
STYLES: dict[IdeaStatus, tuple[str, float, str, str]] = {
    IdeaStatus.SMOKE: ("s", 20, "none", "#8a8f98"),
    IdeaStatus.DISCARDED: ("o", 34, "none", "#8a8f98"),
    IdeaStatus.PENDING: ("o", 34, "none", "#0072b2"),
    IdeaStatus.DEMOTED: ("v", 60, "none", "#b35900"),
    IdeaStatus.BASELINE: ("s", 52, "#4a4f57", "#4a4f57"),
    IdeaStatus.KEPT: ("o", 58, "#0072b2", "#0072b2"),
    IdeaStatus.CONFIRMED: ("*", 190, "#00805d", "#00805d"),
}

WORDS = {IdeaStatus.KEPT: "kept, not confirmed: search mean", IdeaStatus.CONFIRMED: "confirmed: fresh runs"}


def write_png(path: Path, data: Progress, title: str) -> None:
    """Draw and replace the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 5), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _lines(axes, data)
    _points(axes, data)
    axes.set_ylim(data.low, data.high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("idea, in the order of the attempts")
    axes.set_ylabel(_safe(f"{data.metric} ({data.better})"))
    axes.set_title(_safe(title), loc="left", fontsize=11)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:  # nothing is drawn before the first row
        figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue(), durable=False)


def _lines(axes: Any, data: Progress) -> None:
    last = max([p.x for p in data.points] + [x for x, _ in data.path] + [1])
    if data.band:
        axes.axhline(data.band.mean, color="#4a4f57", linewidth=0.9, linestyle="--")
        if data.band.sd:
            low, high = data.band.mean - data.band.sd, data.band.mean + data.band.sd
            axes.axhspan(low, high, color="#4a4f57", alpha=0.12, linewidth=0, label=BAND)
    if data.target is not None and data.low <= data.target <= data.high:
        axes.axhline(data.target, color="#b35900", linewidth=0.9, linestyle=":", label=f"target {data.target:g}")
    if data.path:
        xs, ys = [*(x for x, _ in data.path), last], [*(y for _, y in data.path), data.path[-1][1]]
        axes.step(xs, ys, where="post", color="#0072b2", linewidth=1.6, label="best search mean so far")


def _points(axes: Any, data: Progress) -> None:
    edge = data.low if data.maximize else data.high
    small = [(p.x, v) for p in data.points if len(p.replicates) > 1 for v in p.replicates]
    if small:
        axes.scatter(*zip(*small, strict=True), s=6, color="#8a8f98", alpha=0.7, linewidths=0, zorder=2)
    for standing, colour in ((IdeaStatus.CONFIRMED, "#00805d"), (IdeaStatus.DEMOTED, "#b35900")):
        bars = [(p.x, _within(p.low, data), _within(p.high, data)) for p in data.points
                if p.standing is standing and p.low is not None and p.high is not None]  # fmt: skip
        if bars:
            xs, lows, highs = zip(*bars, strict=True)
            axes.vlines(xs, lows, highs, color=colour, linewidth=1.6, zorder=2, label=f"interval of it ({standing})")
    chosen = [(p.x, _within(p.selected, data)) for p in data.points if p.selected is not None]
    if chosen:
        xs, ys = zip(*chosen, strict=True)
        look = {"s": 48, "facecolors": "none", "edgecolors": "#5b626b", "linewidths": 1.1, "label": SELECTED}
        axes.scatter(xs, ys, **look, zorder=2)
    for standing, (marker, size, face, colour) in STYLES.items():
        found = [(p.x, _within(p.y, data)) for p in data.points if p.standing is standing and p.y is not None]
        if found:
            word = WORDS.get(standing, str(standing))
            xs, ys = zip(*found, strict=True)
            look = {"s": size, "marker": marker, "facecolors": face, "edgecolors": colour, "label": word}
            axes.scatter(xs, ys, **look, clip_on=False, zorder=3)
    lost = [p.x for p in data.points if p.y is None]
    if lost:
        at_edge = [edge] * len(lost)
        axes.scatter(lost, at_edge, marker="x", s=36, color="#c0392b", label="crashed", clip_on=False, zorder=3)


def _within(value: float, data: Progress) -> float:
    return min(max(value, data.low), data.high)


def _safe(text: str) -> str:
    """A dollar sign would begin a formula."""
    return text.replace("$", r"\$")
