"""Axes and marks as hand-written SVG: no script, no font, no network; colours come from the page's CSS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawing area and the ranges that it shows; sizes in SVG units."""

    width: float
    height: float
    x0: float
    x1: float
    y0: float
    y1: float
    left: float = 64
    right: float = 18
    top: float = 18
    bottom: float = 44

    def x(self, value: float) -> float:
        """Where a value lies, left to right; outside of the range it lies at the edge."""
        share = (value - self.x0) / ((self.x1 - self.x0) or 1.0)
        return round(self.left + min(1.0, max(0.0, share)) * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        """The same from bottom to top."""
        share = (value - self.y0) / ((self.y1 - self.y0) or 1.0)
        return round(self.height - self.bottom - min(1.0, max(0.0, share)) * (self.height - self.top - self.bottom), 1)

    def line(self, points: Iterable[tuple[float, float]], kind: str, title: str = "") -> str:
        """A polyline of a CSS class."""
        coords = " ".join(f"{self.x(a)},{self.y(b)}" for a, b in points)
        return f'<polyline class="{kind}" points="{coords}">{_title(title)}</polyline>' if coords else ""

    def bar(self, x: float, low: float, high: float, kind: str, title: str = "") -> str:
        """The interval of an estimate, with its ends, in a CSS class."""
        middle, bottom, top = self.x(x), self.y(low), self.y(high)
        ends = f"M{middle} {top}V{bottom}M{middle - 4} {top}h8M{middle - 4} {bottom}h8"
        return f'<path class="interval {kind}" d="{ends}">{_title(title)}</path>'

    def axes(
        self, *, label: str, x_label: str, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]
    ) -> list[str]:
        """Grid lines, tick labels and the names of both axes."""
        bottom, right = self.height - self.bottom, self.width - self.right
        parts = []
        for value, text in y_ticks:
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text class="tick" text-anchor="end" x="{self.left - 8}" y="{y + 4}">{escape(text)}</text>')
        for value, text in x_ticks:
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>')
            parts.append(f'<text class="tick" text-anchor="middle" x="{x}" y="{bottom + 17}">{escape(text)}</text>')
        parts.append(f'<line class="axis" x1="{self.left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        if x_label:
            middle = (self.left + right) / 2
            parts.append(
                f'<text class="name" text-anchor="middle" x="{middle}" y="{self.height - 6}">{escape(x_label)}</text>'
            )
        if label:
            middle = (self.top + bottom) / 2
            parts.append(
                f'<text class="name" text-anchor="middle" transform="translate(14 {middle}) rotate(-90)">'
                f"{escape(label)}</text>"
            )
        return parts

    def whole(self, parts: Iterable[str], title: str, kind: str = "plot") -> str:
        """The drawing, with a title for those who do not see it."""
        inside = "\n".join(part for part in parts if part)
        return (
            f'<svg class="{kind}" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">\n{inside}\n</svg>'
        )


def mark(shape: str, x: float, y: float, kind: str, title: str = "", size: float = 5.0) -> str:
    """One mark of a shape (circle, ring, square, cross, triangle) and a CSS class; `title` shows on hovering."""
    told, s = _title(title), size
    match shape:
        case "square":
            return f'<rect class="{kind}" x="{x - s}" y="{y - s}" width="{2 * s}" height="{2 * s}">{told}</rect>'
        case "cross":
            d = f"M{x - s} {y - s}L{x + s} {y + s}M{x - s} {y + s}L{x + s} {y - s}"
            return f'<path class="{kind}" d="{d}">{told}</path>'
        case "triangle":
            d = f"M{x - s} {y - s * 0.8}L{x + s} {y - s * 0.8}L{x} {y + s}Z"
            return f'<path class="{kind}" d="{d}">{told}</path>'
        case "ring":
            inner = f'<circle cx="{x}" cy="{y}" r="{s}"/><circle class="halo" cx="{x}" cy="{y}" r="{s + 3.5}"/>'
            return f'<g class="{kind}">{told}{inner}</g>'
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{s}">{told}</circle>'


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers in a range, with as many digits as tell them apart."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [(low, f"{low:.4g}")] if math.isfinite(low) else []
    step = _round_step(span / most)
    first = math.ceil(low / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    count = math.floor(high / step + 1e-9) - first + 1
    values = [(first + n) * step for n in range(max(0, min(count, 50)))]
    plain = digits <= 6 and max(abs(low), abs(high)) < 1e7
    return [(v, f"{v:.{digits}f}" if plain else f"{v:.4g}") for v in values]


def _round_step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough))
    return next(m * size for m in (1, 2, 5, 10) if m * size >= rough - 1e-12 * size)


def whole_ticks(first: int, last: int, most: int = 14) -> list[tuple[float, str]]:
    """Ticks on whole numbers."""
    step = max(1, math.ceil(_round_step(max(1.0, (last - first) / most))))
    start = first if step == 1 else math.ceil(first / step) * step
    return [(n, str(n)) for n in range(start, last + 1, step)]


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
