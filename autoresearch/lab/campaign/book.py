"""Book: journal, ledger and verdicts of a campaign, read once and then only what was added."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.campaign import CampaignSpec
from autoresearch.core.campaign_view import CampaignView, fold
from autoresearch.core.ledger_row import LedgerRow
from autoresearch.records import campaign_dir
from autoresearch.records.campaign_dir import CampaignDir
from autoresearch.records.ledger import Ledger


@dataclass
class _File:
    """What was read of one growing file, and how far."""

    read: Callable[[], list[Any]]
    path: Path
    stamp: tuple[int, int, int] = (0, 0, -1)  # inode, mtime, size
    held: list[Any] = field(default_factory=list)

    def fresh(self) -> list[Any]:
        """Everything in it now; read again only if it changed (a ledger may be edited by hand)."""
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = (0, 0, 0)
        if stamp != self.stamp:
            self.held, self.stamp = self.read(), stamp
        return self.held


class Book:
    """Everything a campaign wrote down about itself."""

    def __init__(self, place: CampaignDir) -> None:
        self.place = place
        self.spec = campaign_dir.read_spec(place)
        self._journal = _File(lambda: list(campaign_dir.entries(place.journal)), place.journal)
        self._rows = _File(self._read_rows, place.ledger)
        self._verdicts = _File(lambda: list(campaign_dir.entries(place.verdicts)), place.verdicts)

    def _read_rows(self) -> list[LedgerRow]:
        return list(Ledger(self.place.ledger).rows())

    def view(self) -> CampaignView:
        """The campaign as it is now, under the rules as they are now."""
        journal = self._journal.fresh()
        spec = self.spec
        for line in journal:
            if line.get("do") == "rules":
                spec = spec.with_rules(line)
        return fold(spec, journal, self._rows.fresh(), self._verdicts.fresh())


def spec_beside(ledger: Path) -> CampaignSpec | None:
    """The campaign that a ledger belongs to; None for that of a lone run."""
    place = CampaignDir(ledger.parent)
    if not os.path.exists(place.spec):  # noqa: PTH110 - asked for every run that is collected
        return None
    return campaign_dir.read_spec(place)
