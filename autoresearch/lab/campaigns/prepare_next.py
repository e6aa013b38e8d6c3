"""Prepares the next run up to the point of starting it, or records why it cannot be made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, IdeaRun
from autoresearch.core.text.naming import slugify
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns import confirmation_rounds, idea_commit, scheduler
from autoresearch.lab.campaigns.commit_builder import IdeaRefused
from autoresearch.lab.campaigns.control import CampaignControl
from autoresearch.lab.campaigns.idea_commit import conceive
from autoresearch.lab.campaigns.idea_run import RunRequest, SharedOutputError, get_ready
from autoresearch.lab.campaigns.prefetch import be_quick
from autoresearch.lab.campaigns.trouble import is_trouble
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.results.collected import charged
from autoresearch.records import evidence, journal
from autoresearch.records.failpoint import failpoint

MOST_REFUSED = 20  # proposals in a row that could not be tried


class RunPreparer:
    """Prepares one run ahead of time, so that it starts as soon as there is room."""

    def __init__(self, control: CampaignControl) -> None:
        self.control = control
        self.dry = False  # the sources of ideas have none now
        self.in_turn: set[str] = set()  # live runs, one of which writes a file that the next one would write too

    def prepare_ahead(self) -> None:
        """Have the next run ready while the others train."""
        state = self.control.history.state()
        if self.control.ready is not None:
            if state.phase is CampaignPhase.RUNNING and not self.control.may_begin(state, self.control.ready.request):
                self.control.withdraw_ready()  # a rule was met meanwhile: nothing owed waits for it
            return
        if self.in_turn and self.in_turn == set(self.control.live):
            return
        request = self.next_request(state)
        if request is None or not self.control.may_begin(state, request):
            return
        if request.idea.hypothesis.unmade:
            self._unmade(state, request, request.idea.hypothesis.why_unmade, failure=request.idea.hypothesis.unmade)
            return
        slot = self.control.pool.spare()
        if slot is None:
            return
        try:
            ready = get_ready(
                self.control.builder, request, slot, self.control.parts, self.control.pool.busy(self.control.live)
            )
        except (AutoresearchError, OSError) as error:
            if is_trouble(error):
                raise
            if isinstance(error, SharedOutputError):  # its turn comes when that run is over
                self.in_turn = set(self.control.live)
                self.control.say(f"{request.idea.slug} waits: {error.message}")
                return
            self._unmade(state, request, str(error))
            return
        self.control.hold(ready)
        failpoint("campaign.prepared")
        self._note_prepared(state, request, ready.run)
        if request.why == "fix":  # the log of the run that crashed is put aside with its results
            for text in state.research.fix_story.get(request.idea.index, ()):
                journal.append(Path(ready.prepared.spec.result_dir), text)
        failpoint("campaign.waits")
        be_quick()

    def _note_prepared(self, state: CampaignState, request: RunRequest, run: IdeaRun) -> None:
        ongoing = state.open_round
        number = ongoing.number if ongoing and request.why == "confirm" else 0
        self.control.note(
            "prepared",
            index=request.idea.index,
            run=run.run,
            run_dir=run.run_dir,
            replicate=run.replicate,
            why=run.why,
            commit=run.commit,
            seed=run.seed,
            round=number,
            turns=list(self._turns(state, request)),
        )

    def _turns(self, state: CampaignState, request: RunRequest) -> tuple[str, ...]:
        """The researcher's turns that led to this run: its row is charged with them."""
        if request.why == "fix":
            return state.research.fix_turns.get(request.idea.index, ())
        return request.idea.hypothesis.turns if request.why == "first" else ()

    def _unmade(self, state: CampaignState, request: RunRequest, reason: str, *, failure: str = "") -> None:
        """A run that could not be made is an attempt as any other: it has a row, which says why."""
        name = f"{request.experiment}-{request.why}-unmade-{new_token()}"
        run = IdeaRun(name, str(self.control.campaign_dir.path / name), request.replicate, request.why)
        self._note_prepared(state, request, run)
        text = reason if failure else f"could not be launched: {reason}"
        row = progress.unmade_row(self.control.builder, request.idea, run, text, self.control.parts.clock())
        row = replace(row, failure=failure or row.failure)
        evidence.record(self.control.campaign_dir.ledger, charged(row, self.control.history.state()))
        failpoint("campaign.unmade")  # the row first: a run that was begun and has none is taken for one that was lost
        self.control.note("started", run=run.run)
        self.control.say(f"{request.idea.slug}: {'not tried' if failure else 'could not be started'}: {reason}")
        progress.write_documents(
            self.control.campaign_dir, self.control.history.state(), self.control.stand(self.control.history.state())
        )

    def never_tried(self, state: CampaignState, token: str, findings: Sequence[Finding]) -> None:
        """At the end: the row of an entry of a queue that nobody mended. It is no attempt, and counts for no rule."""
        slug = slugify(token, fallback="entry")
        if not token:  # the file itself: what stands in it is not known
            return
        reason = "; ".join(f"{one.where}:{one.line}: {one.message}" for one in findings)
        row = progress.never_tried_row(self.control.spec, slug, reason, self.control.parts.clock())
        evidence.record(self.control.campaign_dir.ledger, row)
        if slug not in {idea.slug for idea, _ in state.skipped}:
            entry = Hypothesis(slug, "an entry of the queue that could not be used")
            self.control.note("skipped", hypothesis=entry.to_json(), reason=reason)

    def next_request(self, state: CampaignState) -> RunRequest | None:
        """What should run next: what is owed, a confirmation, a new idea."""
        if state.baseline is None:
            return self._conceived(state, Attempt(1, idea_commit.baseline_of(self.control.spec)))
        if found := scheduler.owed(state) or confirmation_rounds.owed_to_round(state):
            return found
        if state.open_round or not scheduler.baseline_done(state) or scheduler.baseline_failed(state):
            return None
        if (waiting := scheduler.unbegun(state)) is not None:
            return waiting
        return None if self.control.stand(state, conceived=True).met else self._new_idea(state)

    def _new_idea(self, state: CampaignState) -> RunRequest | None:
        """Ask until something can be tried."""
        for _ in range(MOST_REFUSED):
            hypothesis = self.control.sources.ask(scheduler.attempts(state))
            self.control.look_at_queues(state)
            self.dry = hypothesis is None
            if hypothesis is None:
                return None
            taken = {idea.slug for idea in state.ideas}
            index = 1 + max((idea.index for idea in state.ideas), default=0)
            found = self._conceived(state, Attempt(index, idea_commit.renamed(hypothesis, taken)))
            if found is not None:
                return found
            state = self.control.history.state()
        return None

    def _conceived(self, state: CampaignState, attempt: Attempt) -> RunRequest | None:
        try:
            idea = conceive(self.control.builder, state, attempt.hypothesis, attempt.index)
            self.control.note("drafted", **idea_commit.as_line(idea))
            failpoint("campaign.drafted")
            idea = idea_commit.claim(self.control.builder, idea)
        except IdeaRefused as refused:
            if attempt.hypothesis.is_baseline:
                raise
            self.control.note("skipped", hypothesis=attempt.hypothesis.to_json(), reason=refused.message)
            self.control.sources.tell(Attempt(0, attempt.hypothesis, "skipped"))
            self.control.say(f"{attempt.hypothesis.slug}: skipped: {refused.message}")
            return None
        failpoint("campaign.conceived")
        self.control.note("idea", **idea_commit.as_line(idea))
        return RunRequest(idea, 1, "baseline" if attempt.hypothesis.is_baseline else "first")
