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
    """Written when the record has grown since the last ones, and these are old enough for what they cost."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self._told = -1  # bytes of the record that they tell of
        self._due = 0.0

    @property
    def _owed(self) -> bool:
        return self._context.history.size != self._told

    def look(self) -> None:
        """Write them if they are owed, and it is time."""
        began = time.monotonic()
        if self._owed and began >= self._due:
            self._context.write_documents()
            took = time.monotonic() - began
            self._told, self._due = self._context.history.size, began + took / MOST_TIME

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
    """Record each entry of a queue that nobody mended. It is no attempt: the report names it, and no row."""
    known = {idea.slug for idea, _ in context.state.skipped}
    for token, findings in idea_sources.faults(context.state).items():
        slug = slugify(token, fallback="entry")
        if token and slug not in known:  # "" is the file itself: its entries are not known
            entry = Hypothesis(slug, "an entry of the queue that could not be used")
            reason = "; ".join(f"{one.where}:{one.line}: {one.message}" for one in findings)
            context.note("skipped", hypothesis=entry.to_json(), reason=reason)
