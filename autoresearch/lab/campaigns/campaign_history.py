"""Reads a campaign's journal, ledger and verdicts once, and after that only what was appended.

A controller needs them many times per run, and a campaign has thousands of rows. If a file was changed other than by
appending (for example, the ledger was edited), everything is read again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records import campaign_records, lines
from autoresearch.records.campaign_records import CampaignDir

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState
    from autoresearch.records.ledger import Ledger

UNREAD, ALL_AGAIN = (0, 0, 0), (0, 0, -1)


@dataclass
class GrowingFile:
    """How far one file has been read. `parse` turns new lines, and the number of lines before them, into records."""

    path: Path
    parse: Callable[[list[bytes], int], list[Any]]
    end: int = 0  # bytes
    count: int = 0  # lines
    stamp: tuple[int, int, int] = UNREAD  # inode, mtime, size
    digest: int = 0  # of all that was read; if it changed, the file was edited rather than appended to

    def fresh(self) -> list[Any] | None:
        """The records appended since the last call; None if the file was changed other than by appending."""
        with lines.reading(self.path) as fd:
            if fd is None:
                return [] if self.stamp == UNREAD else None
            found = os.fstat(fd)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == self.stamp:
                return []
            if self.stamp != UNREAD:
                grown = found.st_ino == self.stamp[0] and found.st_size > self.stamp[2]
                if not grown or lines.digest(fd, self.end) != self.digest:  # an edit may be anywhere: 1 ms per MB
                    return None
            added = list(lines.forwards(fd, self.end))
            whole = [line for line in added if line.endswith(b"\n")]
            records = self.parse(added, self.count)
            self.end += sum(map(len, whole))
            self.count += len(whole)
            self.digest = zlib.crc32(b"".join(whole), self.digest)
            # an unterminated last line may be a row that an editor left so: read everything again next time
            self.stamp = stamp if len(whole) == len(added) else ALL_AGAIN
            return records


def _rows_of(ledger: Ledger) -> Callable[[list[bytes], int], list[LedgerRow]]:
    """Parses new lines into rows, with the columns that the ledger's first line names."""
    header: tuple[str, ...] = ()

    def parse(added: list[bytes], before: int) -> list[LedgerRow]:
        nonlocal header
        if not before:
            header, added = ledger.header(), added[1:]
        return list(ledger.rows_in(header, added))

    return parse


def _entries(added: list[bytes], before: int) -> list[dict[str, Any]]:
    """An unterminated last line counts if it parses."""
    return [{**record, "seq": seq} for seq, record in lines.objects(enumerate(added, before + 1))]


class CampaignHistory:
    """All records of a campaign, kept up to date."""

    def __init__(self, campaign_dir: CampaignDir) -> None:
        self.campaign_dir = campaign_dir
        self.spec = campaign_records.declared_spec(campaign_dir)
        self._open()

    def _open(self) -> None:
        from autoresearch.core.campaign.fold import Fold
        from autoresearch.records import evidence
        from autoresearch.records.ledger import Ledger

        self._fold = Fold(self.spec)
        self._journal = GrowingFile(self.campaign_dir.journal, _entries)
        rows = evidence.read_from(self.campaign_dir.ledger)
        self._rows = GrowingFile(rows, _rows_of(Ledger(rows)))
        self._verdicts = GrowingFile(self.campaign_dir.verdicts, _entries)

    def state(self) -> CampaignState:
        """The campaign as it is now, under the current rules: always the same object, brought up to date."""
        from autoresearch.records import evidence

        found = [file.fresh() for file in (self._journal, self._rows, self._verdicts)]
        if None in found or self._rows.path != evidence.read_from(self.campaign_dir.ledger):
            self._open()
            found = [file.fresh() for file in (self._journal, self._rows, self._verdicts)]
        journal, rows, verdicts = (part or [] for part in found)
        if journal or rows or verdicts:
            self._fold.add(journal, rows, verdicts)
        return self._fold.state


@lru_cache(maxsize=8)
def history_of(campaign_dir: CampaignDir) -> CampaignHistory:
    """The history of a campaign, shared within the process, so that judging a run does not read it all again."""
    return CampaignHistory(campaign_dir)
