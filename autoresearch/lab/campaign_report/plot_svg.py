"""The plots of the report: progress over ideas, what is left of the budgets, the curves of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from autoresearch.lab.campaign_report.plot_data import BudgetCurve, Curve, Point, Progress
from autoresearch.lab.campaign_report.summary import IdeaStatus
from autoresearch.lab.campaign_report.svg import Frame, mark, ticks, whole_ticks

SHAPES = {
    IdeaStatus.BASELINE: ("square", 5.0),
    IdeaStatus.CONFIRMED: ("ring", 5.0),
    IdeaStatus.KEPT: ("circle", 5.5),
    IdeaStatus.DEMOTED: ("triangle", 6.0),
    IdeaStatus.PENDING: ("circle", 4.0),
    IdeaStatus.DISCARDED: ("circle", 4.0),
    IdeaStatus.SMOKE: ("square", 3.0),
    IdeaStatus.CRASHED: ("cross", 4.5),
}
BAND = "baseline: mean ± sd of one run, over all its runs"
SELECTED = "search mean (selected)"
LETTER = 6.4  # width of a character of a label, about


def progress_svg(data: Progress) -> str:
    """Objective over idea index; attempts without a metric stand at the edge."""
    last = max([p.x for p in data.points] + [x for x, _ in data.path] + [2])
    frame = Frame(980, 440, 0.4, last + 0.6, data.low, data.high, top=22)
    parts = frame.axes(
        label=f"{data.metric} ({data.better})",
        x_label="idea, in the order of the attempts",
        x_ticks=whole_ticks(1, last),
        y_ticks=ticks(data.low, data.high),
    )
    parts += _band(frame, data)
    parts.append(frame.line(_stairs(data.path, last + 0.6), "best"))
    parts += _replicates(frame, data.points)
    parts += _intervals(frame, data.points)
    parts += [_point(frame, data, point) for point in sorted(data.points, key=_importance)]
    parts += _labels(frame, [p for p in data.points if p.best and p.standing is not IdeaStatus.BASELINE])
    return frame.whole(parts, f"{data.metric} over {len(data.points)} attempted ideas, {data.better}")


def _importance(point: Point) -> int:
    """Later is drawn on top."""
    order = (IdeaStatus.SMOKE, IdeaStatus.DISCARDED, IdeaStatus.CRASHED, IdeaStatus.DEMOTED, IdeaStatus.BASELINE)
    return order.index(point.standing) if point.standing in order else len(order)


def _band(frame: Frame, data: Progress) -> list[str]:
    parts = []
    right = frame.width - frame.right
    if data.band and data.band.sd:
        top, low = frame.y(data.band.mean + data.band.sd), frame.y(data.band.mean - data.band.sd)
        title = f"baseline {data.band.words}"
        parts.append(
            f'<rect class="band" x="{frame.left}" y="{top}" width="{right - frame.left}" '
            f'height="{round(low - top, 1)}"><title>{title}</title></rect>'
        )
    if data.band:
        y = frame.y(data.band.mean)
        parts.append(f'<line class="mean" x1="{frame.left}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="note" text-anchor="end" x="{right - 4}" y="{y - 5}">baseline</text>')
    if data.target is not None and not data.low <= data.target <= data.high:
        y = frame.y(data.target) + (10 if data.target > data.high else -6)
        where = "above" if data.target > data.high else "below"
        parts.append(f'<text class="note" x="{frame.left + 6}" y="{y}">target {data.target:g}, {where}</text>')
    elif data.target is not None:
        y = frame.y(data.target)
        parts.append(f'<line class="target" x1="{frame.left}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="note" x="{frame.left + 6}" y="{y - 5}">target {data.target:g}</text>')
    return parts


def _stairs(path: Sequence[tuple[int, float]], end: float) -> Iterable[tuple[float, float]]:
    before: float | None = None
    for x, value in path:
        if before is not None and value != before:
            yield x, before
        yield x, value
        before = value
    if before is not None:
        yield end, before


def _replicates(frame: Frame, points: Sequence[Point]) -> list[str]:
    return [
        f'<circle class="replicate {point.standing}" cx="{frame.x(point.x)}" cy="{frame.y(value)}" r="2"/>'
        for point in points
        if len(point.replicates) > 1
        for value in point.replicates
        if frame.y0 <= value <= frame.y1
    ]


def _intervals(frame: Frame, points: Sequence[Point]) -> list[str]:
    """For estimates from fresh runs: the interval as a bar, the search mean as a hollow mark."""
    parts = []
    for point in points:
        x = frame.x(point.x)
        if point.low is not None and point.high is not None:
            title = f"{point.slug}: {point.low:.4g} to {point.high:.4g}"
            parts.append(frame.bar(point.x, point.low, point.high, str(point.standing), title))
        if point.selected is not None and frame.y0 <= point.selected <= frame.y1:
            title = f"{point.slug}: search mean {point.selected:.4g} (selected)"
            parts.append(mark("circle", x, frame.y(point.selected), "selected", title, 4.5))
    return parts


def _point(frame: Frame, data: Progress, point: Point) -> str:
    shape, size = SHAPES[point.standing]
    edge = frame.height - frame.bottom - 8 if data.maximize else frame.top + 8
    x = frame.x(point.x)
    if point.y is None:
        return mark("cross", x, edge, "crashed", point.title, 4.5)
    if not frame.y0 <= point.y <= frame.y1:
        title = f"{point.title} (off the scale)"
        y = frame.top + 6 if point.y > frame.y1 else frame.height - frame.bottom - 6
        return mark(shape, x, y, f"{point.standing} off", title, size)
    return mark(shape, x, frame.y(point.y), str(point.standing), point.title, size)


def _labels(frame: Frame, points: Sequence[Point]) -> list[str]:
    """Names of the ideas that moved the best line, the latest first, as far as they do not collide."""
    parts: list[str] = []
    taken: list[tuple[float, float, float]] = []  # left, right, y
    for point in sorted(points, key=lambda p: -p.x):
        if point.y is None:
            continue
        name = point.slug[:24]
        width = len(name) * LETTER
        x = min(max(frame.x(point.x), frame.left + width / 2), frame.width - frame.right - width / 2)
        y = round(frame.y(point.y if point.high is None else point.high) - (15 if point.high is None else 7), 1)
        if y < 12 or any(x - width / 2 < r and x + width / 2 > left and abs(y - at) < 15 for left, r, at in taken):
            continue
        taken.append((x - width / 2, x + width / 2, y))
        parts.append(f'<text class="label" text-anchor="middle" x="{round(x, 1)}" y="{y}">{escape(name)}</text>')
    return parts


def legend(data: Progress) -> list[tuple[str, str]]:
    """(a small drawing, its meaning) for each kind that is shown."""
    present = {p.standing for p in data.points}
    words = {
        IdeaStatus.BASELINE: "baseline",
        IdeaStatus.CONFIRMED: "confirmed: estimate from fresh runs",
        IdeaStatus.KEPT: "kept, not confirmed: search mean",
        IdeaStatus.DEMOTED: "demoted",
        IdeaStatus.PENDING: "pending",
        IdeaStatus.DISCARDED: "discarded",
        IdeaStatus.SMOKE: "smoke run",
        IdeaStatus.CRASHED: "crashed, at the edge",
    }
    marks = {s: mark(shape, 11, 9, str(s), "", size * 0.9) for s, (shape, size) in SHAPES.items()}
    found = [(_key(marks[s]), word) for s, word in words.items() if s in present]
    line = '<line class="best" x1="1" x2="21" y1="9" y2="9"/>'
    bar = '<path class="interval confirmed" d="M11 2V16M7 2h8M7 16h8"/>'
    hollow = mark("circle", 11, 9, "selected", "", 4.5)
    band = '<rect class="band" x="1" y="3" width="20" height="12"/><line class="mean" x1="1" x2="21" y1="9" y2="9"/>'
    return [
        *found,
        (_key('<circle class="replicate kept" cx="11" cy="9" r="2"/>'), "one run of several"),
        (_key(line), "best search mean so far"),
        *([(_key(bar), "interval of an estimate")] if any(p.low is not None for p in data.points) else []),
        *([(_key(hollow), SELECTED)] if any(p.selected is not None for p in data.points) else []),
        *([(_key(band), BAND)] if data.band else []),
    ]


def _key(inside: str) -> str:
    return f'<svg class="key" viewBox="0 0 22 18" width="22" height="18" aria-hidden="true">{inside}</svg>'


def budget_svg(budgets: Sequence[BudgetCurve]) -> str:
    """What is left of each budget over wall time, in percent; "" where there is none."""
    if not budgets:
        return ""
    start = min(b.points[0][0] for b in budgets)
    end = max(b.points[-1][0] for b in budgets)
    unit, word = (3600.0, "hours") if end - start >= 7200 else (60.0, "minutes")
    frame = Frame(980, 240, 0.0, max((end - start) / unit, 1e-9), 0.0, 1.0, right=96)
    parts = frame.axes(
        label="left",
        x_label=f"{word} since the start",
        x_ticks=ticks(0.0, frame.x1, 9),
        y_ticks=[(n / 4, f"{n * 25}%") for n in range(5)],
    )
    taken: list[float] = []
    for n, budget in enumerate(budgets):
        parts.append(frame.line([((t - start) / unit, v) for t, v in budget.points], f"budget b{n}", budget.whole))
        y = frame.y(budget.points[-1][1]) + 4
        while any(abs(y - other) < 14 for other in taken):
            y -= 14
        taken.append(y)
        parts.append(f'<text class="label b{n}" x="{frame.width - frame.right + 8}" y="{y}">{budget.name}</text>')
    return frame.whole(parts, "what is left of the budgets over wall time")


def curves_svg(curves: Sequence[Curve], metric: str) -> str:
    """All curves in one drawing: what was kept in colour, the rest behind it; "" without any."""
    shown = [c for c in curves if c.points]
    if not shown:
        return ""
    frame = _frame_of(shown, 980, 360)
    parts = frame.axes(
        label=metric, x_label="step", x_ticks=ticks(frame.x0, frame.x1, 9), y_ticks=ticks(frame.y0, frame.y1)
    )
    for curve in sorted(shown, key=lambda c: _rank(c.standing)):
        title = f"{curve.index} {curve.slug} ({curve.run}): {curve.standing}, last {curve.points[-1][1]:.4g}"
        parts.append(frame.line(curve.points, f"curve {curve.standing}", title))
    return frame.whole(parts, f"{metric} over steps, {len(shown)} runs")


def small_multiples(curves: Sequence[Curve], most: int = 60) -> list[tuple[str, str]]:
    """(heading, drawing) for each idea, its runs before those of the baseline, all on the same axes."""
    shown = [c for c in curves if c.points]
    if not shown:
        return []
    frame = _frame_of(shown, 220, 120, small=True)
    base = [frame.line(c.points, "curve behind") for c in shown if c.standing is IdeaStatus.BASELINE]
    found = []
    for index in sorted({c.index for c in shown})[:most]:
        own = [c for c in shown if c.index == index]
        ends = [(frame.y0, f"{frame.y0:.2g}"), (frame.y1, f"{frame.y1:.2g}")]
        parts = frame.axes(label="", x_label="", x_ticks=[], y_ticks=ends)
        parts += base
        parts += [frame.line(c.points, f"curve {c.standing}", f"{c.run}: last {c.points[-1][1]:.4g}") for c in own]
        found.append((f"{index} {own[0].slug}", frame.whole(parts, f"curves of {own[0].slug}", "small")))
    return found


def _rank(standing: IdeaStatus) -> int:
    back = (
        IdeaStatus.CRASHED,
        IdeaStatus.SMOKE,
        IdeaStatus.DISCARDED,
        IdeaStatus.RUNNING,
        IdeaStatus.PENDING,
        IdeaStatus.DEMOTED,
        IdeaStatus.BASELINE,
    )
    return back.index(standing) if standing in back else len(back)


def _frame_of(curves: Sequence[Curve], width: float, height: float, *, small: bool = False) -> Frame:
    xs = [float(x) for c in curves for x, _ in c.points]
    ys = [y for c in curves for _, y in c.points]
    pad = 0.05 * (max(ys) - min(ys) or abs(max(ys)) or 1.0)
    low, high = min(ys) - pad, max(ys) + pad
    last = max(max(xs), min(xs) + 1.0)
    if small:
        return Frame(width, height, min(xs), last, low, high, left=38, right=6, top=8, bottom=8)
    return Frame(width, height, min(xs), last, low, high)
