"""The jobs of a campaign's coding agents: propose, edit, fix, guard.

A job is done from its start whenever something of it is over, until it comes to something: what its turns and guard
commands came to before is in their directories. It writes nothing into the journal but its turns; what else is to be
written is its outcome.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Edit, NotMade, TurnFault
from autoresearch.core.agents.turns import AGENT, AgentJob
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.rules import spent, stand_at
from autoresearch.errors import AutoresearchError
from autoresearch.lab.agent_work.agent_turns import AgentTurns
from autoresearch.lab.agent_work.edit import guarded, make_edit, make_fix, make_guard_fix
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.propose_context import gather
from autoresearch.lab.agent_work.question import ProposeResult, TurnContext, propose, reviewed
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.ideas.commit_builder import IdeaRefused
from autoresearch.lab.ideas.run_commit import repair
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.records import journal
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint
from autoresearch.trainers import registry as trainers

TAIL = 40  # lines of the log that a fixing agent is shown
NO_ATTEMPT = (TurnFault.TIMEOUT, TurnFault.LOST)  # for the first time
Line = tuple[str, dict[str, Any]]  # of the journal: what was done, and its fields


@dataclass(slots=True)
class JobOutcome:
    """What a job came to."""

    lines: list[Line] = field(default_factory=list)  # of the journal, in order
    messages: list[str] = field(default_factory=list)

    @classmethod
    def of_guard(cls, merge: Idea, failed: str) -> JobOutcome:
        """Of the guard on a merge; `failed`: why it did not pass, "" where it did."""
        line = {"index": merge.index, "passed": not failed, "why": failed}
        return cls([("guarded", line)], [f"{merge.name} is not edited on: {failed.splitlines()[0]}"] if failed else [])


@dataclass(frozen=True, slots=True)
class JobAtWork:
    """One job, with all that it needs."""

    context: CampaignContext
    job: AgentJob
    state: CampaignState
    turns: AgentTurns
    workspace: EditWorkspace

    def idea(self, slug: str) -> Idea:
        """The idea of this name."""
        idea = self.state.by_slug(slug)
        assert idea is not None, f"{self.job.name} was begun with an idea that was there"
        return idea

    def propose(self) -> JobOutcome:
        """Ask for new hypotheses; those that need no edit can be run at once."""
        best = self.state.base or self.state.baseline
        assert best is not None, "the baseline is measured before anybody is asked"
        stand = stand_at(self.state, self.context.parts.clock())
        gathered = gather(self.state, stand, self.context.builder, self.workspace.protection)
        worktree = self.workspace.isolated_worktree
        place = worktree.open(best.commit).path
        turn_context = TurnContext(self.turns.ask, place, self.turns.directory, self.workspace.spec.bounds)
        found = propose(gathered, self.workspace.spec.ideas, turn_context)
        worktree.close()
        return self._proposed(found)

    def _proposed(self, proposals: ProposeResult) -> JobOutcome:
        """What a turn for ideas came to, as lines of the journal and for people."""
        turns = self.turn_names()
        done = JobOutcome()
        for one in proposals.hypotheses:
            made = {"hypothesis": replace(one, turns=turns).to_json(), "made": one.kind == "config"}
            done.lines.append(("proposed", made))
        done.lines += [("finding", asdict(one)) for one in proposals.findings]
        done.lines += [("refused", {"hypothesis": one.to_json(), "reason": why}) for one, why in proposals.refused]
        fault = {"fault": proposals.fault.value, "said": proposals.message} if proposals.fault else {}
        done.lines.append(("asked", {"ideas": len(proposals.hypotheses), "turns": list(turns), **fault}))
        done.messages += [f"{one.slug}: proposed ({one.kind}): {one.sentence}" for one in proposals.hypotheses]
        done.messages += [f"{one.slug}: refused: {why}" for one, why in proposals.refused]
        if proposals.fault:
            words = f"had no idea that can be used ({proposals.fault}): {proposals.message}"
            done.messages.append(f"{self.job.agent} {words}")
        return done

    def turn_names(self) -> tuple[str, ...]:
        """The names of the job's turns, all of which are over."""
        return self.context.state.research.jobs[self.job.name].turns

    def edit(self, hypothesis: Hypothesis, parent: Idea) -> JobOutcome:
        """Put a code idea into code; the outcome is an idea that can be run, or one that cannot, with the reason."""
        workspace, story = self.workspace, list[str]()
        edit = self.attempt(lambda: make_edit(workspace, hypothesis, parent.commit, self.turns.ask))
        while edit.failed_guard[1] and edit.fault is None and len(story) < workspace.spec.max_fixes:
            if not self.turns.left and spent(self.context.state):
                break
            edit, told = self._mend_guard(hypothesis, parent.commit, edit, len(story) + 1)
            story.append(told)
        if workspace.spec.review:
            edit = reviewed(workspace, hypothesis, parent.commit, edit, self.turns.ask)
        done = JobOutcome(messages=[f"{hypothesis.slug}: {told}" for told in story])
        done.lines += [("guard_fixed", {"slug": hypothesis.slug, "told": told}) for told in story]
        made = replace(
            hypothesis,
            parent=parent.slug,
            patches=(edit.patch,) if edit.patch and _keeps_patch(edit.unmade) else (),
            paths=edit.paths,
            flags=edit.flags,
            unmade=edit.unmade.value if edit.unmade else "",
            why_unmade=edit.why if edit.unmade else "",
            turns=(*hypothesis.turns, *self.turn_names()),
        )
        done.lines.append(("made", {"hypothesis": made.to_json()}))
        outcome = edit.why if edit.unmade else f"changes {', '.join(edit.paths[:5])}"
        done.messages.append(f"{hypothesis.slug}: {outcome}")
        done.messages += [f"{hypothesis.slug}: suspicious: {flag}" for flag in edit.flags]
        return done

    def _mend_guard(self, hypothesis: Hypothesis, base: str, edit: Edit, number: int) -> tuple[Edit, str]:
        """Let the agent mend an edit that a guard command refused: the edit as it is then, and what to tell of it."""
        agent = self.job.agent
        if not self.turns.left:
            why = edit.why.splitlines()[0]
            self.context.say(f"{hypothesis.slug}: {why}; {agent} is asked to mend it")
        mended = make_guard_fix(self.workspace, hypothesis, base, edit, self.turns.ask)
        story = f"fix {number} of {self.workspace.spec.max_fixes} of the guard by {agent}"
        if mended.unmade in (None, NotMade.GUARD):
            came = mended.why.splitlines()[0] if mended.unmade else " ".join(mended.summary.split())[:300] or "mended"
            return mended, f"{story}: {came}"
        return edit, f"{story} came to nothing: {mended.why.splitlines()[0]}"

    def guard(self, merge: Idea) -> JobOutcome:
        """Run the guard on a merge of edits, each of which passed it."""
        failed = guarded(self.workspace, merge.commit, guards_of(self.context, self.job))
        return JobOutcome.of_guard(merge, failed)

    def attempt(self, make: Callable[[], Edit]) -> Edit:
        """What an edit or a fix came to. One whose turn ran out of time, or was lost, is none, and made once more."""
        edit = make()
        if edit.fault not in NO_ATTEMPT or (not self.turns.left and spent(self.context.state)):
            return edit
        if not self.turns.left:
            how = "ran out of time" if edit.fault is TurnFault.TIMEOUT else "was lost"
            self.context.say(f"{self.job.slug}: {self.turn_names()[-1]} {how}; it is asked once more")
        return make()


def fix(at_work: JobAtWork, idea: Idea) -> JobOutcome:
    """Let the agent mend what made the last run of an idea fail. Raises Pending, JobEnded."""
    workspace, ask = at_work.workspace, at_work.turns.ask
    try:
        failure = explained(idea)
    except AutoresearchError as gone:
        edit = Edit(unmade=NotMade.RESEARCHER, why=gone.message)
    else:
        edit = at_work.attempt(lambda: make_fix(workspace, idea.hypothesis, idea.commit, failure, ask))
    return _fixed(at_work, idea, edit, at_work.turn_names())


def _fixed(at_work: JobAtWork, idea: Idea, edit: Edit, turns: Sequence[str]) -> JobOutcome:
    """Commit a fix, or say why there is none; both go into the log of the experiment."""
    number, most = at_work.state.research.fixes.get(idea.index, 0), at_work.workspace.spec.max_fixes
    why, commit = edit.why, ""
    if edit.unmade is None:
        change = Hypothesis(idea.slug, edit.summary, patches=(edit.patch,), proposer=AGENT)
        try:
            commit = repair(at_work.context.builder, idea, change, edit.summary or "mended by the agent")
            failpoint("research.mended")
        except IdeaRefused as refused:
            why = refused.message
    story = f"fix {number} of {most} by {at_work.job.agent}"
    fields = {"index": idea.index, "turns": list(turns)}
    if commit:
        text = " ".join(edit.summary.split())[:300] or "mended"
        story += f": {text}; files: {', '.join(edit.paths)}"
        fields |= {"slug": idea.slug, "commit": commit, "note": text, "flags": list(edit.flags)}
    else:
        story += f" came to nothing: {' '.join(why.split())[:500]}"
        fields |= {"why": why}
    if idea.rows and idea.rows[-1].result_dir:
        with contextlib.suppress(AutoresearchError, OSError):
            journal.append(Path(idea.rows[-1].result_dir), story)
    done = ("fixed" if commit else "fix_failed", {**fields, "told": story})
    return JobOutcome([done], [f"{idea.name}: {story}"])


def explained(idea: Idea) -> Explanation:
    """Why the last run of an idea failed. Raises NotFoundError where its records are gone."""
    finished = FinishedRun.checked(RunDir(Path(idea.rows[-1].run_dir)))
    return explain_run(finished, finished.exit, trainers.of_run(finished.spec), TAIL)


def guards_of(context: CampaignContext, agent_job: AgentJob) -> Path:
    """Where the guard commands of a merge run."""
    return context.campaign_dir.path / "guards" / agent_job.slug


def _keeps_patch(unmade: NotMade | None) -> bool:
    """Whether the branch shows the diff; one that touches what is protected, or is too large, stays in its turn."""
    return unmade in (None, NotMade.GUARD, NotMade.REFUSED)
