"""The jobs of a campaign's coding agents: propose, edit, guard; `fix_job` has the fourth.

A job is done from its start whenever something of it is over, until it comes to something: what its turns and guard
commands came to before is in their directories. It writes nothing into the journal but its turns; what else is to be
written is its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Edit, NotMade, TurnFault, TurnRole
from autoresearch.core.agents.proposals import KINDS
from autoresearch.core.agents.turns import HYBRID, AgentJob
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.rules import spent, stand_at
from autoresearch.lab.agent_work.agent_turns import AgentTurns
from autoresearch.lab.agent_work.edit import guarded, make_edit, make_guard_fix
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.propose import ProposeResult, propose
from autoresearch.lab.agent_work.propose_context import gather
from autoresearch.lab.agent_work.question import TurnContext
from autoresearch.lab.agent_work.review import reviewed
from autoresearch.lab.campaigns.context import CampaignContext

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
        # an optimiser sees to the numbers of a hybrid
        kinds = tuple(kind for kind in KINDS if kind != "config" or self.state.spec.proposer.name != HYBRID)
        protection, traits, bounds = self.workspace.protection, self.turns.researcher.traits, self.workspace.spec.bounds
        stand = stand_at(self.state, self.context.parts.clock())
        gathered = gather(self.state, stand, self.context.builder, protection.why_key, protection.why)
        worktree = self.workspace.isolated_worktree
        place = worktree.open(best.commit).path
        turn_context = TurnContext(self.turns.ask, place, self.turns.directory, bounds, traits.resumes, traits.schema)
        found = propose(gathered, self.workspace.spec.ideas, turn_context, kinds)
        worktree.close()
        return self._proposed(found)

    def _proposed(self, proposals: ProposeResult) -> JobOutcome:
        """What a turn for ideas came to, as lines of the journal and for people."""
        turns = self.turn_names()
        done = JobOutcome()
        for one in proposals.hypotheses:
            made = {"hypothesis": replace(one, turns=turns).to_json(), "made": one.kind == "config"}
            done.lines.append(("proposed", made))
        done.lines += [("finding", one.to_json()) for one in proposals.findings]
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
        edit = make_edit(workspace, hypothesis, parent.commit, self.turns.ask)
        while edit.failed_guard[1] and edit.fault is None and len(story) < workspace.spec.max_fixes:
            if not self.turns.left and spent(self.context.state):
                break
            edit, told = self._mend_guard(hypothesis, parent.commit, edit, len(story) + 1)
            story.append(told)
        if workspace.spec.review:
            edit = reviewed(workspace, hypothesis, parent.commit, edit, self.turns.ask)
        done = JobOutcome(messages=[f"{hypothesis.slug}: {told}" for told in story])
        done.lines += [("guard_fixed", {"slug": hypothesis.slug, "told": told}) for told in story]
        late = self.state.research.late(hypothesis.slug, TurnRole.EDIT)
        if edit.fault in NO_ATTEMPT and not late:
            return self.overran(edit, done, hypothesis.token)
        made = replace(
            hypothesis,
            parent=parent.slug,
            patches=(edit.patch,) if edit.patch and _keeps_patch(edit.unmade) else (),
            paths=edit.paths,
            flags=edit.flags,
            unmade=edit.unmade.value if edit.unmade else "",
            why_unmade=edit.why if edit.unmade else "",
            turns=(*hypothesis.turns, *late, *self.turn_names()),
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
        session = edit.session if self.turns.researcher.traits.resumes else ""
        mended = make_guard_fix(self.workspace, hypothesis, base, edit, self.turns.ask, session)
        story = f"fix {number} of {self.workspace.spec.max_fixes} of the guard by {agent}"
        if mended.unmade in (None, NotMade.GUARD):
            came = mended.why.splitlines()[0] if mended.unmade else " ".join(mended.summary.split())[:300] or "mended"
            return mended, f"{story}: {came}"
        return edit, f"{story} came to nothing: {mended.why.splitlines()[0]}"

    def guard(self, merge: Idea) -> JobOutcome:
        """Run the guard on a merge of edits, each of which passed it."""
        failed = guarded(self.workspace, merge.commit, guards_of(self.context, self.job))
        return JobOutcome.of_guard(merge, failed)

    def overran(self, edit: Edit, done: JobOutcome, token: str = "") -> JobOutcome:
        """An edit whose turn ran out of time, or was lost, is no attempt: it is asked again, after the other ideas."""
        turns = self.turn_names()
        done.lines.append(("overran", {"slug": self.job.slug, "token": token, "turns": list(turns)}))
        how = "ran out of time" if edit.fault is TurnFault.TIMEOUT else "was lost"
        done.messages.append(f"{self.job.slug}: {turns[-1]} {how}; it is asked once more")
        return done


def guards_of(context: CampaignContext, agent_job: AgentJob) -> Path:
    """Where the guard commands of a merge run."""
    return context.campaign_dir.path / "guards" / agent_job.slug


def _keeps_patch(unmade: NotMade | None) -> bool:
    """Whether the branch shows the diff; one that touches what is protected, or is too large, stays in its turn."""
    return unmade in (None, NotMade.GUARD, NotMade.REFUSED)
