"""Makes ideas of hypotheses: asks the proposers, commits what can be tried, and records why the rest cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.hypothesis import baseline_hypothesis, renamed
from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.state import Idea
from autoresearch.core.controller import scheduler
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas import idea_commit
from autoresearch.lab.ideas.commit_builder import CommitBuilder, IdeaRefused
from autoresearch.lab.ideas.idea_sources import IdeaSources
from autoresearch.lab.ideas.run_commit import repair
from autoresearch.proposers.queue import in_order
from autoresearch.proposers.queue_entry import Broken, from_entry
from autoresearch.runner.basics import failpoint

MOST_REFUSED = 20  # proposals in a row that could not be tried
MOST_FAULTS = 50  # of a queue, that are recorded


@dataclass(frozen=True, slots=True)
class Proposed:
    """What the proposers came up with."""

    idea: bool  # one that can be tried was committed
    dry: bool  # they had none left


def commit_baseline(context: CampaignContext, idea_sources: IdeaSources) -> None:
    """Commit the baseline on its branch. Raises IdeaRefused if it cannot be tried."""
    _commit(context, idea_sources, Attempt(1, baseline_hypothesis()))


def propose(context: CampaignContext, idea_sources: IdeaSources) -> Proposed:
    """Ask the proposers until one of their ideas can be tried, and commit it."""
    for _ in range(MOST_REFUSED):
        state = context.state
        hypothesis = idea_sources.ask(scheduler.attempts(state))
        check_queues(context, idea_sources)
        if hypothesis is None:
            return Proposed(idea=False, dry=True)
        taken = {idea.slug for idea in state.ideas}
        index = 1 + max((idea.index for idea in state.ideas), default=0)
        if _commit(context, idea_sources, Attempt(index, renamed(hypothesis, taken))):
            return Proposed(idea=True, dry=False)
    return Proposed(idea=False, dry=False)


def _commit(context: CampaignContext, idea_sources: IdeaSources, attempt: Attempt) -> bool:
    """Make an idea of a hypothesis; False if it is refused, which is recorded."""
    try:
        idea = idea_commit.conceive(context.builder, context.state, attempt.hypothesis, attempt.index)
        context.note("drafted", **idea_commit.as_line(idea))
        failpoint("campaign.drafted")
        idea = idea_commit.claim(context.builder, idea)
    except IdeaRefused as refused:
        if attempt.hypothesis.is_baseline:
            raise
        context.note("skipped", hypothesis=attempt.hypothesis.to_json(), reason=refused.message)
        idea_sources.tell(Attempt(0, attempt.hypothesis, "skipped"))
        context.say(f"{idea_name(0, attempt.hypothesis)}: skipped: {refused.message}")
        return False
    failpoint("campaign.conceived")
    context.note("idea", **idea_commit.as_line(idea))
    return True


def check_queues(context: CampaignContext, idea_sources: IdeaSources) -> bool:
    """Say which entries of a queue cannot be tried as they are; returns whether that changed."""
    state = context.state
    found = [str(finding) for finding in in_order(idea_sources.faults(state))[:MOST_FAULTS]]
    if found == state.queue_faults:
        return False
    for fault in found:
        if fault not in state.queue_faults:
            context.say(f"cannot be tried as it is: {fault}")
    context.note("queue", faults=found)
    return True


def repair_idea(builder: CommitBuilder, idea: Idea, entry: Any, note: str) -> tuple[ControllerAction, ...]:
    """Commit a person's follow-up fix on the idea's branch; the idea then runs again."""
    try:
        commit = repair(builder, idea, from_entry(entry, Path("/")), note)
    except (IdeaRefused, Broken) as error:
        return (Say(f"{idea.name}: not repaired: {error}"),)
    fields = {"index": idea.index, "slug": idea.slug, "commit": commit, "note": note}
    return Note("fixed", fields), Say(f"{idea.name}: repaired ({note}); it runs again")
