"""The figures of a plan's report: the progress of each stage's campaign, and all stages in one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.plans.view import StageRun
from autoresearch.lab.campaign_report import plot_svg, summary
from autoresearch.lab.campaign_report.plot_data import progress_of
from autoresearch.lab.campaign_report.svg import Frame, mark, ticks
from autoresearch.lab.render import render
from autoresearch.records.rundir import write_atomically

FOLDER = "figures"


def draw_campaign(directory: Path, name: str, state: CampaignState) -> tuple[Path, Path]:
    """The progress of a campaign: the paths of its SVG and of its PNG."""
    from autoresearch.lab.campaign_report.plot_png import write_png

    progress = progress_of(state, summary.idea_lines(state))
    path = directory / FOLDER / f"{name}.svg"
    _write(path, plot_svg.progress_svg(progress))
    picture = path.with_suffix(".png")
    write_png(picture, progress, f"{name}: {state.attempted} ideas attempted")
    return path, picture


def draw_stages(directory: Path, stage_runs: Sequence[tuple[StageRun, Mapping[str, Any]]]) -> Path | None:
    """Baseline and best of every stage side by side; None without values, or if their metrics differ."""
    if len({record["metric"] for _, record in stage_runs}) != 1:
        return None
    shown = [(_best(record), *(_interval(record) or ())) for _, record in stage_runs]
    values = [value for numbers in shown for value in numbers if value is not None]
    values += [float(record["facts"]["baseline"]) for _, record in stage_runs if _known(record, "baseline")]
    if not values:
        return None
    noise = max((float(record["facts"]["noise"]) for _, record in stage_runs if _known(record, "noise")), default=0.0)
    edge = max(0.15 * (max(values) - min(values)), 1.5 * noise, 1e-9)
    low, high = min(values) - edge, max(values) + edge
    frame = Frame(980, 320, 0.4, len(stage_runs) + 0.6, low, high, top=22)
    names = [(float(n), f"{n} {run.stage}") for n, (run, _) in enumerate(stage_runs, 1)]
    metric = str(stage_runs[0][1]["metric"])
    parts = frame.axes(label=metric, x_label="stage", x_ticks=names, y_ticks=ticks(low, high))
    for n, (run, record) in enumerate(stage_runs, 1):
        parts += _stage(frame, n, run, record)
    path = directory / FOLDER / "stages.svg"
    _write(path, frame.whole(parts, f"{metric}: baseline and best of {len(stage_runs)} stages"))
    return path


def _stage(frame: Frame, n: int, stage_run: StageRun, record: Mapping[str, Any]) -> list[str]:
    facts, parts = record["facts"], []
    if _known(record, "baseline"):
        base = facts["baseline"]
        if _known(record, "noise"):
            top, low = frame.y(base + facts["noise"]), frame.y(base - facts["noise"])
            left, width = frame.x(n - 0.3), frame.x(n + 0.3) - frame.x(n - 0.3)
            height = round(low - top, 1)
            parts.append(f'<rect class="band" x="{left}" y="{top}" width="{width}" height="{height}"/>')
        parts.append(
            mark("square", frame.x(n - 0.1), frame.y(base), "baseline", f"{stage_run.stage}: baseline {base:.4g}")
        )
    best = _best(record)
    if best is not None and record["best"] != "baseline":
        shape, kind = ("ring", "confirmed") if record["best"] in record["confirmed"] else ("circle", "kept")
        title = f"{stage_run.stage}: {record['best']} {best:.4g}, {kind}"
        x, y = frame.x(n + 0.1), frame.y(best)
        if interval := _interval(record):
            y = min(y, frame.y(interval[1]))
            parts.append(frame.bar(n + 0.1, interval[0], interval[1], kind))
        parts.append(mark(shape, x, frame.y(best), kind, title))
        words = escape(f"{record['best'][:24]} ({kind})")
        parts.append(f'<text class="label" text-anchor="middle" x="{x}" y="{y - 14}">{words}</text>')
    return parts


def _best(record: Mapping[str, Any]) -> float | None:
    """The number to show of the best idea; of records of older versions, its search mean."""
    value = record.get("shown", {}).get(record["best"], {}).get("value")
    return float(value) if value is not None else float(record["facts"]["best"]) if _known(record, "best") else None


def _interval(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of its interval; None without one."""
    shown = record.get("shown", {}).get(record["best"], {})
    low, high = shown.get("value_low"), shown.get("value_high")
    return None if low is None or high is None else (float(low), float(high))


def _known(record: Mapping[str, Any], key: str) -> bool:
    value = record["facts"].get(key)
    return isinstance(value, int | float) and math.isfinite(value)


def _write(path: Path, drawing: str) -> None:
    """Write a drawing as a file of its own, with the style sheet that a page would give it."""
    path.parent.mkdir(exist_ok=True)
    head, sign, rest = drawing.partition(">")
    style = f"{sign}\n<style>\n{render('plots.css')}svg {{ background: var(--card); }}\n</style>"
    write_atomically(path, f"{head}{style}{rest}\n".encode(), durable=False)
