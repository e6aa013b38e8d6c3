"""The report of a campaign: report.md, one self-contained report.html, and progress.png.

`write_report(campaign_dir, state, stand, now=..., png=...)` writes them into the campaign's directory, each atomically,
and says in `remarks` what could not be had (run directories that are gone). It may be called at
any time, also while the campaign runs; it reads run directories and asks git, so it takes a second or more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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
    run_outputs,
    summary,
)
from autoresearch.lab.campaign_report.page import page_html
from autoresearch.lab.campaign_report.page_data import MOST_ROWS, MOST_SKIPPED, page_data
from autoresearch.lab.campaign_report.plot_png import write_png
from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now
from autoresearch.records.campaign_records import CampaignDir, entries
from autoresearch.records.rundir import write_atomically, write_page

MARKDOWN, PAGE, PICTURE = "report.md", "report.html", "progress.png"


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

    Raises OSError where the directory cannot be written, and leaves the files of before as they were; everything else
    that is missing becomes a remark.
    """
    from autoresearch.lab.render import render

    wall = time.time() if now is None else now
    data = page_data(campaign_dir, state, stand, wall)
    lines = summary.idea_lines(state)
    progress = plot_data.progress_of(state, lines)
    picture = campaign_dir.path / PICTURE if png else None
    if picture:
        write_png(picture, progress)
    values: dict[str, Any] = {
        **_words(campaign_dir, state, stand, wall),
        "lines": lines,
        "outcome": data["outcome"],
        "best": summary.best_line(state, lines),
        "honest": summary.beside_outcome(state, lines),
        "researcher": agent_section.words(state),
        "tried": memory.tried(lines),  # what was skipped has a section of its own
        "claims": summary.claims(state, list(entries(campaign_dir.verdicts))),
        "cost": data["cost"],
        "diffs": curves_and_diffs.diffs_of(state, lines),
        "rows": [(summary.row_name(state, row), line.name, row) for line in lines for row in line.rows][:MOST_ROWS],
        "outputs": run_outputs.words(state),
        "remarks": data["remarks"],
        "picture": PICTURE if picture else "",
    }
    markdown, page = campaign_dir.path / MARKDOWN, campaign_dir.path / PAGE
    write_page(markdown, render(f"{MARKDOWN}.j2", **values), durable=False)
    # the data are masked already, and base64 must not be
    write_atomically(page, page_html(data).encode(), durable=False)
    return CampaignReport(markdown, page, picture, tuple(data["remarks"]))


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
