"""Prepare the next run, up to the moment before it starts; or say why there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.spec import CampaignState
from autoresearch.core.campaign.view import CampaignView, IdeaRun
from autoresearch.core.text.naming import slugify
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import confirmation_rounds, idea_commit, scheduler
from autoresearch.lab.campaigns.commit_builder import IdeaRefused
from autoresearch.lab.campaigns.idea_commit import conceive
from autoresearch.lab.campaigns.idea_run import Ready, RunRequest, SharedOutputError, get_ready
from autoresearch.lab.campaigns.prefetch import be_quick
from autoresearch.lab.campaigns.trouble import is_trouble
from autoresearch.lab.resolve.run_plan import new_token
from autoresearch.lab.results.collect import charged
from autoresearch.records import evidence, journal
from autoresearch.records.failpoint import failpoint

if TYPE_CHECKING:
    from autoresearch.lab.campaigns.controller import Controller

MOST_REFUSED = 20  # proposals in a row that could not be tried


def prepare_ahead(controller: Controller) -> None:
    """Have the next run ready while the others train."""
    view = controller.book.view()
    if controller.ready is not None:
        if view.state is CampaignState.RUNNING and not controller.may_begin(view, controller.ready.wanted):
            withdraw(controller, controller.ready)  # a rule was met meanwhile: nothing owed waits for it
            controller.ready = None
        return
    if controller.in_turn and controller.in_turn == set(controller.live):
        return
    wanted = next_wanted(controller, view)
    if wanted is None or not controller.may_begin(view, wanted):
        return
    if wanted.idea.hypothesis.unmade:
        _unmade(controller, view, wanted, wanted.idea.hypothesis.why_unmade, failure=wanted.idea.hypothesis.unmade)
        return
    slot = controller.pool.spare()
    if slot is None:
        return
    try:
        ready = get_ready(controller.shop, wanted, slot, controller.parts, controller.pool.busy(controller.live))
    except (AutoresearchError, OSError) as error:
        if is_trouble(error):
            raise
        if isinstance(error, SharedOutputError):  # its turn comes when that run is over
            controller.in_turn = set(controller.live)
            controller.say(f"{wanted.idea.slug} waits: {error.message}")
            return
        _unmade(controller, view, wanted, str(error))
        return
    controller.ready = ready
    controller.pool.take(slot, ready.run.run)
    failpoint("campaign.prepared")
    _note_prepared(controller, view, wanted, ready.run)
    if wanted.why == "fix":  # the log of the run that crashed is put aside with its results
        for text in view.research.fix_story.get(wanted.idea.index, ()):
            journal.append(Path(ready.prepared.spec.result_dir), text)
    failpoint("campaign.waits")
    be_quick()


def _note_prepared(controller: Controller, view: CampaignView, wanted: RunRequest, run: IdeaRun) -> None:
    ongoing = view.open_round
    number = ongoing.number if ongoing and wanted.why == "confirm" else 0
    controller.note(
        "prepared",
        index=wanted.idea.index,
        run=run.run,
        run_dir=run.run_dir,
        replicate=run.replicate,
        why=run.why,
        commit=run.commit,
        seed=run.seed,
        round=number,
        turns=list(_turns(controller, view, wanted)),
    )


def _turns(controller: Controller, view: CampaignView, wanted: RunRequest) -> tuple[str, ...]:
    """The researcher's turns that led to this run: its row is charged with them."""
    if wanted.why == "fix":
        return view.research.fix_turns.get(wanted.idea.index, ())
    return wanted.idea.hypothesis.turns if wanted.why == "first" else ()


def _unmade(controller: Controller, view: CampaignView, wanted: RunRequest, reason: str, *, failure: str = "") -> None:
    """A run that could not be made is an attempt as any other: it has a row, which says why."""
    name = f"{wanted.experiment}-{wanted.why}-unmade-{new_token()}"
    run = IdeaRun(name, str(controller.place.path / name), wanted.replicate, wanted.why)
    _note_prepared(controller, view, wanted, run)
    said = reason if failure else f"could not be launched: {reason}"
    row = progress.unmade_row(controller.shop, wanted.idea, run, said, controller.parts.clock())
    row = replace(row, failure=failure or row.failure)
    evidence.record(controller.place.ledger, charged(row, controller.book.view()))
    failpoint("campaign.unmade")  # the row first: a run that was begun and has none is taken for one that was lost
    controller.note("started", run=run.run)
    controller.say(f"{wanted.idea.slug}: {'not tried' if failure else 'could not be started'}: {reason}")
    progress.write_documents(controller.place, controller.book.view(), controller.stand(controller.book.view()))


def never_tried(controller: Controller, view: CampaignView, token: str, findings: Sequence[Finding]) -> None:
    """At the end: the row of an entry of a queue that nobody mended. It is no attempt, and counts for no rule."""
    slug = slugify(token, fallback="entry")
    if not token:  # the file itself: what stands in it is not known
        return
    reason = "; ".join(f"{one.where}:{one.line}: {one.message}" for one in findings)
    row = progress.never_tried_row(controller.spec, slug, reason, controller.parts.clock())
    evidence.record(controller.place.ledger, row)
    if slug not in {idea.slug for idea, _ in view.skipped}:
        entry = Hypothesis(slug, "an entry of the queue that could not be used")
        controller.note("skipped", hypothesis=entry.to_json(), reason=reason)


def next_wanted(controller: Controller, view: CampaignView) -> RunRequest | None:
    """What should run next: what is owed, a confirmation, a new idea."""
    if view.baseline is None:
        return _conceived(controller, view, Attempt(1, idea_commit.baseline_of(controller.spec)))
    if found := scheduler.owed(view) or confirmation_rounds.owed_to_round(view):
        return found
    if view.open_round or not scheduler.baseline_done(view) or scheduler.baseline_failed(view):
        return None
    if (waiting := scheduler.unbegun(view)) is not None:
        return waiting
    return None if controller.stand(view, conceived=True).met else _new_idea(controller, view)


def _new_idea(controller: Controller, view: CampaignView) -> RunRequest | None:
    """Ask until something can be tried."""
    for _ in range(MOST_REFUSED):
        hypothesis = controller.sources.ask(scheduler.attempts(view))
        controller.look_at_queues(view)
        controller.dry = hypothesis is None
        if hypothesis is None:
            return None
        taken = {idea.slug for idea in view.ideas}
        index = 1 + max((idea.index for idea in view.ideas), default=0)
        found = _conceived(controller, view, Attempt(index, idea_commit.renamed(hypothesis, taken)))
        if found is not None:
            return found
        view = controller.book.view()
    return None


def _conceived(controller: Controller, view: CampaignView, attempt: Attempt) -> RunRequest | None:
    try:
        idea = conceive(controller.shop, view, attempt.hypothesis, attempt.index)
        controller.note("drafted", **idea_commit.as_line(idea))
        failpoint("campaign.drafted")
        idea = idea_commit.claim(controller.shop, idea)
    except IdeaRefused as refused:
        if attempt.hypothesis.is_baseline:
            raise
        controller.note("skipped", hypothesis=attempt.hypothesis.to_json(), reason=refused.message)
        controller.sources.tell(Attempt(0, attempt.hypothesis, "skipped"))
        controller.say(f"{attempt.hypothesis.slug}: skipped: {refused.message}")
        return None
    failpoint("campaign.conceived")
    controller.note("idea", **idea_commit.as_line(idea))
    return RunRequest(idea, 1, "baseline" if attempt.hypothesis.is_baseline else "first")


def withdraw(controller: Controller, ready: Ready) -> None:
    """Take back a run that waits for the word; its branch stays."""
    with contextlib.suppress(AutoresearchError, OSError):
        ready.prepared.withdraw()
    controller.note("withdrawn", run=ready.run.run)
    controller.pool.free(ready.run.run)
