"""What `report --serve` serves: the pages of the campaigns of a project, and an index of them and of its runs.

    ""                   the index, as a page; its data in data.json
    "c/<key>/"           a campaign's report; its data in c/<key>/data.json
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from autoresearch.core.run.overview import RunLine
from autoresearch.lab.campaign_report.formatting import stamp
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.live_report.live_data import LiveCampaign, LiveData, stamp_of
from autoresearch.lab.live_report.server import WebAnswer
from autoresearch.lab.overview.look import Looker
from autoresearch.lab.parts import Parts
from autoresearch.lab.render import render
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.secrets import mask_values

LOOK_S = 2.0  # between two looks at all runs
MOST_CAMPAIGNS, MOST_RUNS, MOST_KNOWN = 50, 50, 2000
HTML = "text/html; charset=utf-8"


class LiveSite:
    """The pages of one project (`server.Site`). `named`: a campaign that is served although it may be another's."""

    def __init__(self, parts: Parts, project: Path, named: CampaignDir | None = None) -> None:
        self._parts, self._project, self._named = parts, project, named
        self._campaigns: dict[str, LiveCampaign] = {}
        self._meeting = threading.Lock()
        self._looker = Looker(parts)
        self._own_runs: tuple[object, frozenset[str]] = (None, frozenset())
        self._index = LiveData(self._tick, self._everything)
        self._meet()

    def answer(self, path: str) -> WebAnswer | None:
        """See `server.Site`."""
        if path == "":
            page = render("live_index.html.j2", project=str(self._project), nonce=os.urandom(12).hex())
            return WebAnswer(page.encode(), HTML)
        if path == "data.json":
            return self._index.answer()
        name, _, rest = path.removeprefix("c/").partition("/")
        if not path.startswith("c/") or rest not in ("", "data.json") or not path.endswith(f"/{rest}"):
            return None
        if name not in self._campaigns:
            self._meet()
        campaign = self._campaigns.get(name)
        if campaign is None:
            return None
        if rest:
            return campaign.report.answer()
        from autoresearch.lab.campaign_report.report import page_html

        return WebAnswer(page_html(campaign.report.data(), live=True).encode(), HTML)

    def path_of(self, campaign_dir: CampaignDir) -> str:
        """The path of a campaign's page, behind the token."""
        return f"c/{key_of(campaign_dir.path)}/"

    def _meet(self) -> None:
        """Find campaigns that began since the last call."""
        with self._meeting:
            known = [one.campaign_dir for one in campaign_registry.known(self._parts) if one.is_of(self._project)]
            for campaign_dir in [*known[:MOST_CAMPAIGNS], *([self._named] if self._named else [])]:
                self._campaigns.setdefault(key_of(campaign_dir.path), LiveCampaign(campaign_dir, self._parts))

    def _tick(self) -> object:
        """The index is made from caches, so it may be made again at any tick."""
        return int(time.monotonic() / LOOK_S)

    def _everything(self) -> dict[str, Any]:
        self._meet()
        rows = [campaign.line() for campaign in list(self._campaigns.values())]
        overview = self._looker.look(ended=MOST_RUNS)
        own = self._runs_of_project()
        runs = [line for line in (*overview.runs, *overview.over) if line.run in own]
        return {
            "project": str(self._project),
            "campaigns": sorted(rows, key=lambda row: str(row.get("created", "")), reverse=True),
            "runs": [_run_row(line) for line in runs],
            "remarks": list(overview.remarks),
        }

    def _runs_of_project(self) -> frozenset[str]:
        now = stamp_of(self._parts.index.runs)
        if self._own_runs[0] != now:
            entries = self._parts.index.recent(MOST_KNOWN, str(self._project))
            self._own_runs = now, frozenset(entry.run for entry in entries)
        return self._own_runs[1]


def _run_row(line: RunLine) -> dict[str, Any]:
    """One run, live or over; durations in whole seconds, finite numbers with six digits."""
    value = line.metric_value
    number = None if value is None or value != value or abs(value) == float("inf") else float(f"{value:.6g}")
    row = {
        "run": line.run,
        "state": line.state.value,
        "idea": line.idea,
        "campaign": line.campaign if line.member else "",
        "step": line.step,
        "metric": line.metric_name,
        "value": number,
        "seconds": None if line.elapsed_s is None else round(line.elapsed_s),
        "left": None if line.left_s is None else round(line.left_s),
        "ending": line.ending,
        "verdict": line.verdict,
        "reason": line.reason or line.trouble,
        "created": stamp(line.created),
    }
    return dict(mask_values(row))
