"""progress.png, the picture to share. The only file of the report that knows Pillow.

Shapes are drawn larger than the picture and made smaller, which smooths their edges; words are written on that.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.lab.campaign_report.formatting import number, plain
from autoresearch.lab.campaign_report.plot_data import Point, Progress
from autoresearch.lab.campaign_report.summary import KEPT, IdeaStatus
from autoresearch.records.rundir import write_atomically
from autoresearch.values import dataclass

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

WIDTH, HEIGHT, FINE = 1760, 880, 2
INK, SOFT, BASE, BLUE, GREEN, ORANGE, RED = "#1c1f23", "#5b626b", "#4a4f57", "#0072b2", "#00805d", "#b35900", "#c0392b"
GREY, PALE, GRID, EDGE, BAND = "#8a8f98", "#c9cdd2", "#eceef0", "#c3c7cd", "#edeeee"
# from back to front: marker, radius, face, edge, words; the colours are those of the page, which all eyes tell apart
STYLES: dict[IdeaStatus, tuple[str, float, str | None, str | None, str]] = {
    IdeaStatus.SMOKE: ("square", 4.7, None, EDGE, "smoke run"),
    IdeaStatus.DISCARDED: ("circle", 6.1, PALE, None, "discarded"),
    IdeaStatus.OUT: ("circle", 6.1, PALE, None, "out"),
    IdeaStatus.ASIDE: ("circle", 6.1, PALE, SOFT, "set aside"),
    IdeaStatus.IN_TIP: ("circle", 7, PALE, GREEN, "in the tip: one run"),
    IdeaStatus.PENDING: ("circle", 7, None, BLUE, "pending"),
    IdeaStatus.DEMOTED: ("triangle", 8.6, None, ORANGE, "demoted"),
    IdeaStatus.NOT_TRIED: ("cross", 6.1, None, SOFT, "not tried, at the edge"),
    IdeaStatus.CRASHED: ("cross", 6.1, None, RED, "crashed, at the edge"),
    IdeaStatus.BASELINE: ("square", 8.3, BASE, None, "baseline ± sd of one run"),
    IdeaStatus.KEPT: ("circle", 10, BLUE, "white", "kept: search mean"),
    IdeaStatus.CONFIRMED: ("star", 18, GREEN, "white", "confirmed: fresh runs, with interval"),
}
CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((-1, -1), (1, -1), (0, 1)),
    "star": tuple((r * math.sin(n * math.pi / 5), -r * math.cos(n * math.pi / 5)) for n in range(10)
                  for r in (0.4 if n % 2 else 1.0,)),
}  # fmt: skip
LONGEST = 52  # characters of a label
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels
Sample = Callable[["_Pen", float, float], None]


@dataclass(frozen=True)
class _Pen:
    """Draws shapes, in pixels of the picture."""

    on: ImageDraw

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1) -> None:
        self.on.line([(FINE * x, FINE * y) for x, y in points], colour, round(FINE * width), joint="curve")

    def box(self, box: Box, colour: str) -> None:
        self.on.rectangle(tuple(FINE * edge for edge in box), colour)

    def dashes(self, left: float, right: float, y: float, colour: str, dash: float, width: float) -> None:
        """A level line with gaps."""
        for n in range(int((right - left) / (dash + 4)) + 1):
            start = left + (dash + 4) * n
            self.line([(start, y), (min(start + dash, right), y)], colour, width)

    def mark(self, marker: str, x: float, y: float, radius: float, face: str | None, edge: str | None) -> None:
        if marker == "cross":
            for slope in (-radius, radius):
                self.line([(x - radius, y - slope), (x + radius, y + slope)], edge or INK, 2.5)
            return
        width = round(FINE * 2.5) if edge else 0
        if marker == "circle":
            around = (x - radius, y - radius, x + radius, y + radius)
            self.on.ellipse(tuple(FINE * one for one in around), face, edge, width)
        else:
            corners = [(FINE * (x + radius * dx), FINE * (y + radius * dy)) for dx, dy in CORNERS[marker]]
            self.on.polygon(corners, face, edge, width)


@dataclass(frozen=True, slots=True)
class _Words:
    """A text at a place; `anchor` says which of its points that is, as Pillow has it."""

    text: str
    x: float
    y: float
    size: int
    colour: str
    anchor: str = "lm"
    bold: bool = False
    backed: bool = False  # by a white that lets what is below it shine through

    @property
    def width(self) -> float:
        return _font(self.size, self.bold).getlength(self.text)


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where the numbers are: the box of the plot in pixels, and the numbers at its edges."""

    box: Box
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        left, _, right, _ = self.box
        return left + (right - left) * (value - 0.4) / (self.last + 0.2)

    def y(self, value: float) -> float:
        """Of what is beyond an edge, that edge."""
        _, top, _, bottom = self.box
        return bottom - (bottom - top) * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


@cache
def _font(size: int, bold: bool) -> FreeTypeFont | ImageFont:
    """The host's DejaVu, which has most letters, or what Pillow brings; a letter that it lacks is drawn as a box."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype(f"DejaVuSans{'-Bold' if bold else ''}.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def write_png(path: Path, progress: Progress) -> None:
    """Draw and replace the picture."""
    from PIL import Image, ImageDraw

    large = Image.new("RGB", (FINE * WIDTH, FINE * HEIGHT), "white")
    texts = _draw(_Pen(ImageDraw.Draw(large)), progress)
    image = large.reduce(FINE)
    on = ImageDraw.Draw(image, "RGBA")
    for one in texts:
        font = _font(one.size, one.bold)
        if one.backed:
            left, top, right, bottom = on.textbbox((one.x, one.y), one.text, font, one.anchor)
            on.rectangle((left - 3, top - 3, right + 3, bottom + 3), (255, 255, 255, 191))
        on.text((one.x, one.y), one.text, one.colour, font, one.anchor)
    upright = Image.new("RGB", (HEIGHT, 30), "white")  # along the axis, turned afterwards
    along = plain(f"{progress.metric} ({progress.better})")
    ImageDraw.Draw(upright).text((HEIGHT / 2, 15), along, SOFT, _font(23, False), "mm")
    strip = upright.rotate(90, expand=True)
    image.paste(strip, (4, 0), strip.convert("L").point(lambda grey: 255 if grey < 255 else 0))
    picture = io.BytesIO()
    image.save(picture, format="png")
    write_atomically(path, picture.getvalue(), durable=False)


def _draw(pen: _Pen, progress: Progress) -> list[_Words]:
    """All shapes; the words that belong to them."""
    last = max([p.x for p in progress.points] + [x for x, _ in progress.path] + [2])
    steps = _ticks(progress.low, progress.high, 9)
    legend = [*_legend(progress)]
    rows = math.ceil(len(legend) / 4)
    left = 52 + max(_Words(text, 0, 0, 22, SOFT).width for text, _ in steps)
    axes = _Axes((left, 70, WIDTH - 8, HEIGHT - 84 - 32 * rows), last, progress.low, progress.high)
    _, _, right, bottom = axes.box
    texts = [_Words(plain(progress.title), left, 22, 31, INK, "lm", bold=True)]
    if progress.band:
        mean, sd = progress.band.mean, progress.band.sd or 0.0
        pen.box((left, axes.y(mean + sd), right, axes.y(mean - sd)), BAND)
    for text, value in steps:
        pen.line([(left, axes.y(value)), (right, axes.y(value))], GRID, 1.5)
        texts.append(_Words(text, left - 9, axes.y(value), 22, SOFT, "rm"))
    pen.line([(left, bottom), (right, bottom)], EDGE, 1.5)
    for text, value in _ticks(0.4, last + 0.6, 9, whole=True):
        texts.append(_Words(text, axes.x(value), bottom + 20, 22, SOFT, "mm"))
    middle = (left + right) / 2
    texts.append(_Words("idea, in the order of the attempts", middle, bottom + 52, 23, SOFT, "mm"))
    _lines(pen, axes, progress)
    texts += [*_labels(pen, axes, progress), *_placed(pen, legend, rows, bottom + 92)]
    _points(pen, axes, progress)
    return texts


def _ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[tuple[str, float]]:
    """Round numbers of this range, with their texts."""
    rough = max((high - low) / most, 1.0 if whole else 0.0)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(n * unit for n in (1, 2, 2.5, 5, 10) if n * unit >= rough and not (whole and n * unit % 1))
    values = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    texts = [f"{value:.10g}" for value in values]
    if not any("e" in text for text in texts):
        places = max(len(text.partition(".")[2]) for text in texts)
        texts = [f"{value:.{places}f}" for value in values]
    return [*zip(texts, values, strict=True)]


def _lines(pen: _Pen, axes: _Axes, progress: Progress) -> None:
    left, _, right, _ = axes.box
    if progress.band:
        pen.dashes(left, right, axes.y(progress.band.mean), BASE, 7, 2)
    if _target_shown(progress):
        pen.dashes(left, right, axes.y(progress.target or 0.0), ORANGE, 3, 2)
    if progress.path:
        xs, ys = [axes.x(x) for x, _ in progress.path], [axes.y(y) for _, y in progress.path]
        corners = [(xs[0], ys[0])]
        for x, y in zip([*xs[1:], right], [*ys[1:], ys[-1]], strict=True):
            corners += [(x, corners[-1][1]), (x, y)]
        pen.line(corners, BLUE, 4)


def _target_shown(progress: Progress) -> bool:
    return progress.target is not None and progress.low <= progress.target <= progress.high


def _points(pen: _Pen, axes: _Axes, progress: Progress) -> None:
    for p in progress.points:
        for value in p.replicates if len(p.replicates) > 1 else ():
            if progress.low <= value <= progress.high:
                pen.mark("circle", axes.x(p.x), axes.y(value), 2.9, "#b9bcc1", None)
    for p in progress.points:
        if p.selected is not None:
            pen.mark("circle", axes.x(p.x), axes.y(p.selected), 9, None, SOFT)
        if p.low is not None and p.high is not None:
            _, _, face, line, _ = STYLES[_drawn_as(p)]
            pen.line([(axes.x(p.x), axes.y(p.low)), (axes.x(p.x), axes.y(p.high))], face or line or INK, 4.5)
    for standing, style in STYLES.items():
        for p in progress.points:
            if _drawn_as(p) is standing:
                pen.mark(style[0], axes.x(p.x), _height(axes, progress, p), *style[1:4])


def _height(axes: _Axes, progress: Progress, point: Point) -> float:
    edge = progress.low if progress.maximize else progress.high
    return axes.y(edge if point.y is None else point.y)


def _drawn_as(point: Point) -> IdeaStatus:
    """Whatever has no number is at the edge, as what crashed is."""
    return IdeaStatus.CRASHED if point.y is None and point.standing is not IdeaStatus.NOT_TRIED else point.standing


def _legend(progress: Progress) -> Iterator[tuple[str, Sample]]:
    """What is explained below the plot: the words, and how a sample is drawn; nothing before the first row."""
    if _target_shown(progress):
        yield f"target {progress.target:g}", lambda pen, x, y: pen.dashes(x - 23, x + 23, y, ORANGE, 3, 2)
    if progress.path:
        yield "best search mean so far", lambda pen, x, y: pen.line([(x - 23, y), (x + 23, y)], BLUE, 4)
    if any(p.selected is not None for p in progress.points):
        yield "search mean (selected)", lambda pen, x, y: pen.mark("circle", x, y, 9, None, SOFT)
    there = {_drawn_as(p) for p in progress.points}
    for marker, radius, face, edge, words in (style for standing, style in STYLES.items() if standing in there):
        look = (marker, radius, face, edge)
        yield words, lambda pen, x, y, look=look: pen.mark(look[0], x, y, *look[1:])  # type: ignore[misc]


def _placed(pen: _Pen, legend: Sequence[tuple[str, Sample]], rows: int, top: float) -> Iterator[_Words]:
    """Columns of samples, drawn, and their words."""
    x = 40.0
    for first in range(0, len(legend), rows or 1):
        column = legend[first : first + rows]
        texts = [_Words(words, x + 38, top + 32 * n, 21, SOFT) for n, (words, _) in enumerate(column)]
        for (_, sample), text in zip(column, texts, strict=True):
            sample(pen, x, text.y)
        yield from texts
        x += 38 + max(text.width for text in texts) + 60


def _labels(pen: _Pen, axes: _Axes, progress: Progress) -> Iterator[_Words]:
    """The names of kept ideas, each at the first free place near its mark, a confirmed one with what it gained."""
    kept = [p for p in progress.points if p.standing in KEPT and p.y is not None]
    marks = [(p, axes.x(p.x), axes.y(p.y or 0.0), axes.y((p.y or 0.0) if p.high is None else p.high)) for p in kept]
    taken: list[Box] = [(x - 14, min(y, top) - 14, x + 14, y + 14) for _, x, y, top in marks]
    for point, x, y, top in sorted(marks, key=lambda mark: (mark[0].standing is not IdeaStatus.CONFIRMED, -mark[0].x)):
        sure = point.standing is IdeaStatus.CONFIRMED
        size, colour = (22, GREEN) if sure else (20, INK)
        width = _Words(text := plain(_label(point)), x, y, size, colour, bold=sure).width
        if spot := _free((x, y, top), width + 10, size + 10, axes.box, taken):
            half = width / 2
            if not top - 50 < spot[1] < y + 50 or abs(spot[0] - x) > half + 14:
                end = (min(max(x, spot[0] - half), spot[0] + half), spot[1])  # the label's end that is nearer
                pen.line([(x, y), end], GREY, 1.5)
            yield _Words(text, *spot, size, colour, "mm", bold=sure, backed=True)


def _free(
    mark: tuple[float, float, float], width: float, height: float, inside: Box, taken: list[Box]
) -> tuple[float, float] | None:
    """The middle of the nearest box of this size that overlaps none of those taken, and takes it.

    `mark`: x, and y of its middle and its top.
    """
    x, middle, top = mark
    first = 16 + height / 2
    for y in (side for n in range(24) for side in (top - first - height * n, middle + first + height * n)):
        for centre in (x, x + width / 2 + 8, x - width / 2 - 8):
            box = (centre - width / 2, y - height / 2, centre + width / 2, y + height / 2)
            within = box[0] >= inside[0] and box[1] >= inside[1] and box[2] <= inside[2] and box[3] <= inside[3]
            if within and not any(box[0] < b[2] and box[2] > b[0] and box[1] < b[3] and box[3] > b[1] for b in taken):
                taken.append(box)
                return centre, y
    return None


def _label(point: Point) -> str:
    name = point.name if len(point.name) <= LONGEST else f"{point.name[: LONGEST - 1]}…"
    if point.low is None or point.high is None:
        return name
    return f"{name}: {number(point.y)} [{number(point.low)}, {number(point.high)}]"
