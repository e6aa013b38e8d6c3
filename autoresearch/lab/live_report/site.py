"""What `report --serve` serves: the pages of the campaigns of a project, and an index of them and of its runs.

    ""                   the index, as a page; its data in data.json
    "c/<key>/"           a campaign's report; its data in c/<key>/data.json

Data are made anew only when the records have changed, and at most so often that this takes a tenth of one core.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.campaign.shown_value import shown_value
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.rules import stand_at
from autoresearch.core.run.overview import RunLine
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.lab.campaign_report.formatting import stamp
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import has_ended, phase_now
from autoresearch.lab.live_report.server import WebAnswer
from autoresearch.lab.overview.look import Looker
from autoresearch.lab.parts import Parts
from autoresearch.lab.render import render
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records import evidence
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.runner.masking import mask_values

if TYPE_CHECKING:
    from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader

LOOK_S = 2.0  # between two looks at all runs
MOST_CAMPAIGNS, MOST_RUNS, MOST_KNOWN = 50, 50, 2000
HTML = "text/html; charset=utf-8"
SHARE = 10.0  # data that took a second to make are made again after ten at the earliest
STALE_S = 60.0  # how old the words about the time that is left may be
READ_S = 1.0  # of reading the curves of runs that are over, in one making of the data
_UNREADABLE = (AutoresearchError, OSError, ValueError, KeyError, TypeError, IndexError)

Stamp = tuple[tuple[int, int, int], ...]


class LiveData:
    """Data that are made again when their `stamp` has changed; what is asked meanwhile gets the last ones."""

    def __init__(self, stamp: Callable[[], object], make: Callable[[], dict[str, Any]]) -> None:
        self._stamp, self._make = stamp, make
        self._lock = threading.Lock()
        self._of: object = None  # the stamp of the data
        self._data: dict[str, Any] = {}
        self._answer: WebAnswer | None = None
        self._made = self._next = float("-inf")  # monotonic
        self.final = False  # nothing in the data depends on the time

    def answer(self) -> WebAnswer:
        """The data as JSON. Raises what making them for the first time raises."""
        if self._answer is None:
            with self._lock:
                return self._answer or self._refreshed()
        if self._is_due() and self._lock.acquire(blocking=False):
            try:
                return self._refreshed()
            finally:
                self._lock.release()
        return self._answer

    def data(self) -> dict[str, Any]:
        """The same as an object."""
        self.answer()
        return self._data

    def _is_due(self) -> bool:
        now = time.monotonic()
        old = not self.final and now - self._made > STALE_S
        return now >= self._next and (old or bool(self._data.get("unread")) or self._stamp() != self._of)

    def _refreshed(self) -> WebAnswer:
        began, of, first = time.monotonic(), self._stamp(), self._answer is None
        try:
            data = self._make()
        except _UNREADABLE as error:
            if self._answer is None:
                raise
            reason = f"as of {stamp(time.time() - (began - self._made))}: the records cannot be read now ({error})"
            data = {**self._data, "remarks": [reason], "trouble": reason}
        else:
            self._made, self._data = began, data
        self._of, now = of, time.monotonic()
        # the first makings import much and read every run once: they say nothing of how long the next one takes
        self._next = now if first or self._data.get("unread") else now + SHARE * (now - began)
        self._answer = WebAnswer(json.dumps(data, allow_nan=False, separators=(",", ":")).encode())
        return self._answer


class LiveCampaign:
    """The report of one campaign, kept up to date."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts) -> None:
        self.campaign_dir, self._parts = campaign_dir, parts
        self._folding = threading.Lock()
        self._history: CampaignHistory | None = None
        self._curves: CurveReader | None = None
        self.report = LiveData(self.stamp, self._report)
        self.line = LiveData(self.stamp, self._row)  # in the index

    def stamp(self) -> Stamp:
        """What changes with the records: their files, and whether a controller lives."""
        own = self.campaign_dir
        paths = (own.journal, evidence.read_from(own.ledger), own.verdicts, own.waiting, own.spec)
        return (*map(stamp_of, paths), (own.controlled, 0, 0))

    def _row(self) -> dict[str, Any]:
        own = self.campaign_dir
        row = {"key": key_of(own.path), "name": own.path.name, "directory": str(own.path)}
        with self._folding:
            try:
                state = self._folded()
                phase = phase_now(own, state)
                best = shown_value(state, state.best) if state.best and state.best.value is not None else None
            except _UNREADABLE as error:
                return {**row, "state": "unknown", "best": f"its records cannot be read: {error}"}
            known = {
                "name": state.spec.name,
                "state": phase.value,
                "reason": state.reason,
                "attempted": state.attempted,
                "count": state.spec.rules.count,
                "metric": state.spec.objective.metric,
                "best": best.sentence if best else "nothing is measured yet",
                "created": stamp(state.spec.created),
            }
            return dict(mask_values(row | known))

    def _folded(self) -> CampaignState:
        if not self.campaign_dir.spec.is_file():  # its history would go on as that of an empty campaign
            raise NotFoundError(f"{self.campaign_dir.path} was removed")
        if self._history is None:
            self._history = CampaignHistory(self.campaign_dir)
        return self._history.state()

    def _report(self) -> dict[str, Any]:
        from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
        from autoresearch.lab.campaign_report.page_data import page_data

        with self._folding:
            self._curves = self._curves or CurveReader(READ_S)
            try:
                changed = max(mtime for _, mtime, _ in self.stamp()) // 10**9
                state, now = self._folded(), self._parts.clock()
                self.report.final = has_ended(self.campaign_dir)
                data = page_data(self.campaign_dir, state, stand_at(state, now), now, self._curves)
                return data | {"changed": changed, "read": int(now)}
            except _UNREADABLE:
                self._history = None  # it may be another file by now
                raise


def stamp_of(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written; zeros without it."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


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
        rows = [campaign.line.data() for campaign in list(self._campaigns.values())]
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
