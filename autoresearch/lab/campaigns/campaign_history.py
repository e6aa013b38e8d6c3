"""A campaign as its record tells it: read once, and after that only what was appended."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir, Chain
from autoresearch.records.files import lines_from, reading

if TYPE_CHECKING:
    from autoresearch.core.campaign.fold import Fold
    from autoresearch.core.campaign.state import CampaignState


class CampaignHistory:
    """The record of a campaign, kept up to date."""

    def __init__(self, campaign_dir: CampaignDir) -> None:
        self.campaign_dir = campaign_dir
        self.spec = campaign_records.declared_spec(campaign_dir)
        self.remarks: tuple[str, ...] = ()  # what was found of the record, in sentences
        self._chain = Chain()
        self._inode = 0  # of the file that was read; 0: it is read anew each time
        self._fold: Fold | None = None

    @property
    def size(self) -> int:
        """Bytes of the record that are in the state."""
        return self._chain.end

    def state(self) -> CampaignState:
        """The campaign as it is now. Raises EnvironmentUnusable where its record is damaged."""
        with reading(self.campaign_dir.events) as fd:
            if fd is None:
                return self._read_all(0)
            found = os.fstat(fd)
            if self._fold is None or found.st_ino != self._inode or found.st_size < self.size:
                return self._read_all(found.st_ino)
            for line in lines_from(fd, self.size) if found.st_size > self.size else ():
                if line.endswith(b"\n"):  # else it is being written
                    events = self._chain.take(line)
                    if any(one["do"] == campaign_records.DAMAGED for one in events):
                        return self._read_all(found.st_ino)
                    self._fold.add(events)
            return self._fold.state

    def _read_all(self, inode: int) -> CampaignState:
        from autoresearch.core.campaign.fold import Fold

        record = campaign_records.read(self.campaign_dir)
        self._fold, self._chain, self.remarks = Fold(self.spec), record.chain, record.remarks
        self._inode = inode if record.as_written else 0
        return self._fold.add(record.events)


@lru_cache(maxsize=8)
def history_of(campaign_dir: CampaignDir) -> CampaignHistory:
    """The history of a campaign, shared within the process, so that judging a run does not read it all again."""
    return CampaignHistory(campaign_dir)
