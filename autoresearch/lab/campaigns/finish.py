"""The documents of a campaign, while it runs and at its end; its own finish.flag, and its last event.

They tell of every idea, so they take longer the more there are: 0.5 s at 1,000 ideas.
"""

from __future__ import annotations

import time
from dataclasses import replace

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.lab.agent_work.agent_worker import AgentWorker
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import recovery
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.live_runs import LiveRuns
from autoresearch.lab.ideas.idea_sources import IdeaSources
from autoresearch.lab.notices.campaign_notices import CampaignNotifier
from autoresearch.records import campaign_records
from autoresearch.runner.basics import failpoint

MOST_TIME = 0.02  # of the controller's time, for the documents


class Documents:
    """Writes them at once if the last ones are old enough, or else when the controller looks again."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self._owed = True  # by a controller that was killed, perhaps
        self._due = 0.0

    def follow(self) -> None:
        """Something happened that they tell of."""
        self._owed = True
        self.look()

    def look(self) -> None:
        """Write them if they are owed, and it is time."""
        began = time.monotonic()
        if self._owed and began >= self._due:
            self._context.write_documents()
            took = time.monotonic() - began
            self._owed, self._due = False, began + took / MOST_TIME

    def due_in(self, at_most: float) -> float:
        """The seconds until they are to be written; `at_most` where none are owed."""
        return min(at_most, max(0.0, self._due - time.monotonic())) if self._owed else at_most


def finish(
    context: CampaignContext,
    reason: str,
    live_runs: LiveRuns,
    idea_sources: IdeaSources,
    worker: AgentWorker,
    notifier: CampaignNotifier,
) -> None:
    """Write what the campaign leaves; remove its worktrees, close panes. After a crash all of it is done again."""
    for sentence in recovery.put_ledger_right(context):
        context.say(sentence)
    live_runs.withdraw()
    state, stand = context.state, context.stand
    end = {"t": context.parts.clock(), "do": "state", "state": CampaignPhase.ENDED.value, "reason": reason}
    _record_never_tried(context, idea_sources)
    worker.end_all()
    state = context.state  # with what its last turns cost
    last = replace(state, phase=CampaignPhase.ENDED, reason=reason, timeline=[*state.timeline, end])
    progress.write_end(context.campaign_dir, last, stand, reason, context.say)
    failpoint("campaign.reported")
    idea_sources.close()
    worker.remove()
    live_runs.pool.remove()
    recovery.close_panes(context)  # those that stayed open
    failpoint("campaign.removed")
    notifier.end(state, reason)
    failpoint("campaign.announced")
    # last: until then a crash does all of it again
    context.note("state", state=CampaignPhase.ENDED.value, reason=reason)
    failpoint("campaign.ended")
    context.say(f"{campaign_records.LOG_ONLY}{reason}")  # whoever follows it is told in the end where it stands


def _record_never_tried(context: CampaignContext, idea_sources: IdeaSources) -> None:
    """A row for each entry of a queue that nobody mended. It is no attempt, and counts for no rule."""
    for token, findings in idea_sources.faults(context.state).items():
        if not token:  # the file itself: its entries are not known
            continue
        slug = slugify(token, fallback="entry")
        reason = "; ".join(f"{one.where}:{one.line}: {one.message}" for one in findings)
        row = progress.never_tried_row(context.spec, slug, reason, context.parts.clock())
        campaign_records.append_row(context.campaign_dir, row)
        if slug not in {idea.slug for idea, _ in context.state.skipped}:
            entry = Hypothesis(slug, "an entry of the queue that could not be used")
            context.note("skipped", hypothesis=entry.to_json(), reason=reason)
