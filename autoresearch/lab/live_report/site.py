"""What `report --serve` serves: the page of a campaign, and the data that the page asks for again."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
from autoresearch.lab.campaign_report.formatting import stamp
from autoresearch.lab.campaign_report.page_data import page_data
from autoresearch.lab.campaign_report.report import page_html
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.live_report.server import WebAnswer
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

EVERY_S = 4.0  # between two readings of the records
SHARE = 10.0  # what took a second to read is read again after ten at the earliest
READ_S = 1.0  # of reading the curves of runs that are over, at each reading
_UNREADABLE = (AutoresearchError, OSError, ValueError, KeyError, TypeError, IndexError)


class LiveReport:
    """The page of one campaign (`server.Site`)."""

    def __init__(self, campaign_dir: CampaignDir, parts: Parts) -> None:
        self._campaign_dir, self._parts = campaign_dir, parts
        self._history: CampaignHistory | None = None
        self._curves = CurveReader(READ_S)
        self._lock = threading.Lock()
        self._data: dict[str, Any] = {}
        self._next = float("-inf")  # monotonic

    def answer(self, path: str) -> WebAnswer | None:
        """See `server.Site`."""
        if path == "":
            return WebAnswer(page_html(self.data(), live=True).encode(), "text/html; charset=utf-8")
        if path == "data.json":
            return WebAnswer(json.dumps(self.data(), allow_nan=False, separators=(",", ":")).encode())
        return None

    def data(self) -> dict[str, Any]:
        """All that the page shows. Raises what reading the records for the first time raises."""
        with self._lock:
            if time.monotonic() >= self._next:
                began = time.monotonic()
                try:
                    self._data = self._read()
                except _UNREADABLE as error:
                    if not self._data:
                        raise
                    reason = f"as of {stamp(self._data['read'])}: the records cannot be read now ({error})"
                    self._data = {**self._data, "remarks": [reason], "trouble": reason}
                    self._history = None  # they may be others by now
                now = time.monotonic()
                self._next = now + (0.0 if self._data.get("unread") else max(EVERY_S, SHARE * (now - began)))
            return self._data

    def _read(self) -> dict[str, Any]:
        own = self._campaign_dir
        if not own.spec.is_file():  # its history would go on as that of an empty campaign
            raise NotFoundError(f"{own.path} was removed")
        changed = max(path.stat().st_mtime for path in (own.spec, own.events, own.journal) if path.exists())
        self._history = self._history or CampaignHistory(own)
        state, now = self._history.state(), self._parts.clock()
        data = page_data(own, state, stand_at(state, now), now, self._curves)
        return data | {"changed": int(changed), "read": int(now)}
