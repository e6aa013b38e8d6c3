"""The report of a campaign: report.md, one self-contained report.html, and progress.png.

`write_report(campaign_dir, state, stand, now=..., png=...)` writes them into the campaign's directory, each atomically,
and says in `remarks` what could not be had (run directories that are gone). It may be called at
any time, also while the campaign runs; it reads run directories and asks git, so it takes a second or more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState, measured
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.lab.agent_work import summarise
from autoresearch.lab.campaign_report import (
    agent_section,
    curves_and_diffs,
    formatting,
    memory,
    plot_data,
    plot_svg,
    run_outputs,
    summary,
)
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus
from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now
from autoresearch.records.campaign_records import CampaignDir, entries
from autoresearch.records.rundir import write_page

MARKDOWN, PAGE, PICTURE = "report.md", "report.html", "progress.png"
MOST_SKIPPED = 200
MOST_ROWS = 2000  # that are told how to be reproduced


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """What was written, to be iterated over; `picture` is None where it could not be drawn."""

    markdown: Path
    page: Path
    picture: Path | None
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Path]:
        return iter([path for path in (self.markdown, self.page, self.picture) if path is not None])


def write_report(
    campaign_dir: CampaignDir, state: CampaignState, stand: Stand, *, now: float | None = None, png: bool = True
) -> CampaignReport:
    """Write report.md, report.html and (unless `png` is False) progress.png.

    Raises OSError where the directory cannot be written; everything else that is missing becomes a remark.
    """
    from autoresearch.lab.render import render

    wall = time.time() if now is None else now
    verdicts = list(entries(campaign_dir.verdicts))
    lines = summary.idea_lines(state)
    progress = plot_data.progress_of(state, lines)
    curves, missing = curves_and_diffs.curves_of(state, lines)
    remarks = [f"{missing} runs have no curve: their directories cannot be read, or hold no metric"] if missing else []
    picture = _picture(campaign_dir, state, progress) if png else None
    values: dict[str, Any] = {
        **_words(campaign_dir, state, stand, wall),
        "lines": lines,
        "best": summary.best_line(state, lines),
        "band": progress.band,
        "honest": summary.honest(state, lines),
        "researcher": agent_section.words(state),
        "tried": memory.tried(lines),  # what was skipped has a section of its own
        "claims": summary.claims(state, verdicts),
        "counts": _counts(lines),
        "diffs": curves_and_diffs.diffs_of(state, lines),
        "rows": [(summary.row_name(state, row), line.name, row) for line in lines for row in line.rows][:MOST_ROWS],
        "outputs": run_outputs.words(state),
        "remarks": remarks,
        "picture": PICTURE if picture else "",
    }
    drawings = {
        "progress_svg": plot_svg.progress_svg(progress),
        "legend": plot_svg.legend(progress),
        "budget_svg": plot_svg.budget_svg(plot_data.budgets_of(state, wall)),
        "curves_svg": plot_svg.curves_svg(curves, state.spec.objective.metric),
        "multiples": plot_svg.small_multiples(curves),
    }
    markdown, page = campaign_dir.path / MARKDOWN, campaign_dir.path / PAGE
    _write(markdown, render(f"{MARKDOWN}.j2", **values))
    _write(page, render(f"{PAGE}.j2", **values, **drawings))
    return CampaignReport(markdown, page, picture, tuple(remarks))


def _words(campaign_dir: CampaignDir, state: CampaignState, stand: Stand, wall: float) -> Mapping[str, Any]:
    phase = phase_now(campaign_dir, state)
    ends = [row.ended for row in state.rows if row.ended is not None]
    return {
        "spec": state.spec,
        "state": state,
        "stand": stand,
        "phase": phase,
        "written": formatting.stamp(wall),
        "ended": formatting.stamp(max(ends)) if ends else formatting.UNKNOWN,
        "lasted": formatting.minutes((max(ends) - state.spec.created) / 60) if ends else formatting.UNKNOWN,
        "goal": memory.goal(state.spec),
        "rules": memory.rule_words(state),
        "next": next_commands(state, phase),
        "skipped": state.skipped[-MOST_SKIPPED:],
        "opinion": summarise.NAME if (campaign_dir.path / summarise.NAME).exists() else "",
        "directory": str(campaign_dir.path),
        "idea_name": idea_name,
        "plain": formatting.plain,
        "cell": formatting.cell,
        "code": formatting.code,
        "block": formatting.block,
        "number": formatting.number,
        "measured": measured,
        "signed": formatting.signed,
        "stamp": formatting.stamp,
        "minutes": formatting.minutes,
        "differences": memory.DIFFERENCES,
    }


def _counts(idea_lines: Sequence[IdeaLine]) -> list[tuple[str, int]]:
    """How many ideas ended in which way, in a fixed order, those without any left out."""
    found = [(str(s), sum(line.standing is s for line in idea_lines)) for s in IdeaStatus]
    return [(word, count) for word, count in found if count]


def _picture(campaign_dir: CampaignDir, state: CampaignState, progress: plot_data.Progress) -> Path:
    from autoresearch.lab.campaign_report.plot_png import write_png

    path = campaign_dir.path / PICTURE
    write_png(path, progress, f"{state.spec.name}: {state.attempted} ideas attempted")
    return path


def _write(path: Path, text: str) -> None:
    write_page(path, text, durable=False)
