"""The report of a campaign: report.md, one self-contained report.html, and progress.png.

`write_report` writes them into the campaign's directory, each atomically. It may be called at any time, also while the
campaign runs; it reads run directories and asks git, so it takes a second or more. The page is one file with its data,
its style, its script and plotly, and fetches nothing.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.lab.campaign_report import formatting, plot_data, summary
from autoresearch.lab.campaign_report.page_data import page_data
from autoresearch.lab.campaign_report.plot_png import write_png
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import write_atomically, write_page

MARKDOWN, PAGE, PICTURE = "report.md", "report.html", "progress.png"


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """What was written, to be iterated over; `picture` is None where it could not be drawn.

    `remarks` say what could not be had (run directories that are gone).
    """

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

    lines = summary.idea_lines(state)
    data = page_data(campaign_dir, state, stand, time.time() if now is None else now, idea_lines=lines)
    markdown, page, picture = (campaign_dir.path / name for name in (MARKDOWN, PAGE, PICTURE))
    if png:
        write_png(picture, plot_data.progress_of(state, lines))
    text = render(f"{MARKDOWN}.j2", **data, picture=PICTURE if png else "", cell=formatting.cell, code=formatting.code)
    write_page(markdown, text, durable=False)
    # the data are masked already, and base64 must not be
    write_atomically(page, page_html(data).encode(), durable=False)
    return CampaignReport(markdown, page, picture if png else None, tuple(data["remarks"]))


def page_html(data: Mapping[str, Any], live: bool = False) -> str:
    """The page that shows `page_data`; `live`: it asks its server for `data.json` every few seconds.

    The data are JSON in a script element and become text nodes, so nothing in them is ever read as markup.
    """
    from autoresearch.lab.render import render

    text = json.dumps({**data, "live": live}, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    first = {"name": data["name"], "subtitle": data.get("subtitle", ""), "outcome": data.get("outcome", [])}
    script = {"json": text, "plotly": _plotly(), "live": live, "nonce": secrets.token_urlsafe(12)}
    return render("report.html.j2", **first, **script)


@functools.cache
def _plotly() -> str:
    """plotly.js as base64 of its gzip: 2.3 MB in place of 4.8 MB. A level above 1 takes four times as long for 2 MB."""
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 1, mtime=0)).decode()
