"""What the parts of a controller share of one campaign: its directory, its journal, its code, and where to print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import EnvironmentUnusable, NotFoundError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.campaign_history import CampaignHistory, history_of
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.parts import Parts
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint


@dataclass(frozen=True, slots=True)
class CampaignContext:
    """One campaign under control. Nothing of it changes but the files; open it while holding `campaign_dir.lock`."""

    campaign_dir: CampaignDir
    history: CampaignHistory
    builder: CommitBuilder
    parts: Parts
    say: Callable[[str], None]

    @classmethod
    def open(cls, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> CampaignContext:
        """Raises NotFoundError if the campaign's repository no longer exists."""
        history = history_of(campaign_dir)
        spec = history.state().spec
        checkout = repository.find(Path(spec.repository) / spec.codebase)
        if checkout is None:
            raise NotFoundError(
                f"the repository {spec.repository} is not there any more, and this campaign works in it",
                hint="move it back and `campaign resume`; where it is now, `autoresearch campaign` begins another one",
                code="repository_moved",
            )
        return cls(campaign_dir, history, CommitBuilder.of(spec, checkout), parts, say)

    @property
    def spec(self) -> CampaignSpec:
        """The spec as it was when the controller started; the rules in force now are those of `state`."""
        return self.builder.spec

    @property
    def state(self) -> CampaignState:
        """The campaign as its files are now. Raises EnvironmentUnusable, with them written again, if they were removed.
        """
        state = self.history.state()
        if campaign_records.restore(self.campaign_dir):  # looked for after they were read: they may be going just now
            raise EnvironmentUnusable("the records were gone: recovering as after a crash", code="records_removed")
        return state

    def idea(self, index: int) -> Idea:
        """The idea with this number."""
        return next(one for one in self.state.ideas if one.index == index)

    @property
    def stand(self) -> Stand:
        """The stop rules as they stand now."""
        return stand_at(self.state, self.parts.clock())

    def note(self, do: str, **fields: object) -> None:
        """Append a line to the journal."""
        campaign_records.add(self.campaign_dir.journal, do, t=self.parts.clock(), **fields)

    def write_documents(self) -> None:
        """Bring the documents that people and agents read up to date."""
        progress.write_documents(self.campaign_dir, self.state, self.stand)
        failpoint("campaign.told")
