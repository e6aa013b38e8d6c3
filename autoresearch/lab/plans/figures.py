"""The figures of a plan's report: the progress of each stage's campaign, and all stages in one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.plans.view import StageRun
from autoresearch.lab.campaign_report import plot_png, summary
from autoresearch.lab.campaign_report.plot_data import progress_of

FOLDER = "figures"


def draw_campaign(directory: Path, name: str, state: CampaignState) -> Path:
    """The progress of a campaign."""
    path = _path(directory, name)
    plot_png.write_png(path, progress_of(state, summary.idea_lines(state)))
    return path


def draw_stages(directory: Path, stage_runs: Sequence[tuple[StageRun, Mapping[str, Any]]]) -> Path | None:
    """Baseline and best of every stage side by side; None without values, or if their metrics differ."""
    records = [record for _, record in stage_runs]
    if len({record["metric"] for record in records}) != 1:
        return None
    if not any(_best(record) is not None or _known(record, "baseline") for record in records):
        return None

    def draw(axes: Any) -> None:
        for n, record in enumerate(records, 1):
            _stage(axes, n, record)
        axes.set_xticks(range(1, len(records) + 1), [f"{n} {run.stage}" for n, (run, _) in enumerate(stage_runs, 1)])
        axes.set_xlim(0.4, len(records) + 0.6)
        axes.margins(y=0.2)
        axes.set_ylabel(plot_png.plain(str(records[0]["metric"])), color=plot_png.SOFT)

    path = _path(directory, "stages")
    plot_png.write_figure(path, draw, title="baseline and best of each stage", size=(11, 4))
    return path


def _stage(axes: Any, n: int, record: Mapping[str, Any]) -> None:
    base, best = record["facts"].get("baseline"), _best(record)
    if _known(record, "baseline"):
        noise = record["facts"]["noise"] if _known(record, "noise") else None
        colour = plot_png.BASE
        axes.errorbar(n - 0.1, base, yerr=noise, fmt="s", color=colour, elinewidth=8, ecolor=(0.29, 0.31, 0.34, 0.2))
    if best is not None and record["best"] != "baseline":
        sure = record["best"] in record["confirmed"]
        low, high = _interval(record) or (best, best)
        colour, marker = (plot_png.GREEN, "*") if sure else (plot_png.BLUE, "o")
        axes.errorbar(n + 0.1, best, yerr=[[best - low], [high - best]], fmt=marker, color=colour, markersize=9)
        words = plot_png.plain(f"{record['best'][:24]} ({'confirmed' if sure else 'kept'})")
        axes.annotate(words, (n + 0.1, high), (0, 8), textcoords="offset points", ha="center", fontsize=9, color=colour)


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


def _path(directory: Path, name: str) -> Path:
    (directory / FOLDER).mkdir(exist_ok=True)
    return directory / FOLDER / f"{name}.png"
