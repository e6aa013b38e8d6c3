"""The jobs of a campaign's coding agents: propose, edit, fix, guard.

Each runs in a thread beside the controller: it reads the campaign's files with eyes of its own, asks one agent, and
works in worktrees that no run and no other job uses. It writes nothing into the journal; what is to be written is
handed back as `JobResult`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoresearch.core.agents.agent import Agent, Edit, NotMade, TurnFault, TurnRole
from autoresearch.core.agents.proposals import KINDS
from autoresearch.core.agents.turns import HYBRID
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.actions import AgentJob
from autoresearch.core.controller.rules import spent, stand_at
from autoresearch.errors import ConflictError
from autoresearch.lab.agent_work import agent_turns
from autoresearch.lab.agent_work.agent_turns import AgentTurns, BegunTurn, Line, Tell
from autoresearch.lab.agent_work.edit import guarded, make_edit, make_fix, make_guard_fix
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace, workspace_for
from autoresearch.lab.agent_work.propose import ProposeResult, propose
from autoresearch.lab.agent_work.propose_context import ProposeContext, gather
from autoresearch.lab.agent_work.question import TurnContext
from autoresearch.lab.agent_work.review import reviewed
from autoresearch.lab.agent_work.turn_dir import guard_in, next_directory, read_turn
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.records.campaign_records import CampaignDir


@dataclass(slots=True)
class JobResult:
    """What a job came to; the controller's thread acts on it."""

    lines: list[Line] = field(default_factory=list)  # of the journal, in order
    messages: list[str] = field(default_factory=list)
    fault: TurnFault | None = None
    why: str = ""
    fix: Edit | None = None
    of: Idea | None = None  # whose fix it is
    turns: tuple[str, ...] = ()
    error: Exception | None = None

    @classmethod
    def of_guard(cls, merge: Idea, failed: str) -> JobResult:
        """Of the guard on a merge; `failed`: why it did not pass, "" where it did."""
        line = {"index": merge.index, "passed": not failed, "why": failed}
        return cls([("guarded", line)], [f"{merge.name} is not edited on: {failed.splitlines()[0]}"] if failed else [])


@dataclass(frozen=True, slots=True)
class Remembered:
    """What jobs leave to later ones of the same controller, whichever agent does them."""

    # By slug: which agent edited it, in which editor's worktrees, and in which session, which is bound to their paths.
    sessions: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    histories: dict[int, CampaignHistory] = field(default_factory=dict)  # by editor: what it has read


@dataclass(frozen=True, slots=True)
class AgentJobs:
    """Everything that the jobs of one agent need; `at_work` makes of it what one job has for itself."""

    campaign_dir: CampaignDir
    builder: CommitBuilder
    clock: Callable[[], float]
    say: Callable[[str], None]
    turns: AgentTurns
    workspace: EditWorkspace
    history: CampaignHistory  # read by one thread only
    remembered: Remembered

    @classmethod
    def of(
        cls,
        agent: str,
        campaign_dir: CampaignDir,
        builder: CommitBuilder,
        environ: Mapping[str, str],
        clock: Callable[[], float],
        say: Callable[[str], None],
        remembered: Remembered,
    ) -> AgentJobs:
        """The jobs of one of a campaign's agents. EnvironmentUnusable where a sandbox is needed and cannot be had."""
        agent_spec, readable = builder.spec.research.of(agent), (Path(builder.spec.interpreter),)
        researcher, turn_environment = agent_turns.call(agent_spec, environ, readable=readable)
        hidden = (*turn_environment.hidden, *map(Path, builder.spec.hidden_inputs))
        turn_environment = replace(turn_environment, hidden=hidden, interpreter=builder.spec.interpreter)
        stop = threading.Event()
        turns = AgentTurns(agent, researcher, turn_environment, stop, lambda _: None, lambda: None, clock, say)

        def next_turn(role: TurnRole) -> Path:
            return next_directory(campaign_dir.turns, role)

        workspace = workspace_for(builder, agent_spec, next_turn)
        workspace = replace(workspace, environment=dict(environ), confined=guard_in(turn_environment))
        return cls(campaign_dir, builder, clock, say, turns, workspace, CampaignHistory(campaign_dir), remembered)

    def at_work(
        self, agent_job: AgentJob, editor: int, stop: threading.Event, tell: Tell, begun: Sequence[BegunTurn] = ()
    ) -> AgentJobs:
        """The same for one job: in the worktrees of this editor, until `stop`, with what its turns may cost.

        `begun`: its turns of before, under a controller that was killed.
        """
        history = self.remembered.histories.setdefault(editor, CampaignHistory(self.campaign_dir))
        turns = replace(
            self.turns,
            stop=stop,
            tell=tell,
            deadline=lambda: history.state().spec.rules.deadline,
            job=agent_job.name,
            editor=editor,
            _lines=[],
        )
        spec = replace(self.workspace.spec, turn_usd=agent_job.usd)
        before = [one.directory for one in begun]
        workspace = replace(self.workspace, spec=spec, editor=editor, stopped=stop.is_set, begun=before)
        return replace(self, turns=turns, workspace=workspace, history=history)

    def do(self, agent_job: AgentJob) -> JobResult:
        """Do a job, and say what it came to."""
        if agent_job.guard is not None:
            return self.guard(agent_job.guard)
        if agent_job.fix is not None:
            return self.fix(agent_job.fix)
        if agent_job.edit is not None:
            return self.edit(agent_job.edit)
        return self.propose(agent_job.ideas)

    @property
    def researcher(self) -> Agent:
        """The agent that is asked."""
        return self.turns.researcher

    # -- jobs -----------------------------------------------------------------------------------------------------

    def propose(self, ideas: int) -> JobResult:
        """Ask for new hypotheses; those that need no edit can be run at once."""
        state = self.history.state()
        best = state.base or state.baseline
        assert best is not None, "the baseline is measured before anybody is asked"
        self.say(f"{self.turns.name} is asked for ideas")
        kinds = tuple(kind for kind in KINDS if kind != "config") if self._numbers_elsewhere else KINDS
        workspace, traits = self.workspace, self.researcher.traits
        with workspace.opened(best.commit, TurnRole.PROPOSE) as opened:
            turn_context = TurnContext(
                self.turns.ask, opened.path, workspace.turn, workspace.spec.bounds, traits.resumes, traits.schema
            )
            found = propose(self._propose_context(state), ideas, turn_context, kinds)
        return self._as_result(found)

    def _as_result(self, proposals: ProposeResult) -> JobResult:
        """What a turn for ideas came to, as lines of the journal and for people."""
        lines = self.turns.take_lines()
        names = _names(lines)
        for _, fields in lines:
            fields["ideas"] = len(proposals.hypotheses)  # among which the cost is shared out
        fault = {"fault": proposals.fault.value, "said": proposals.message} if proposals.fault else {}
        lines.append(("asked", {"ideas": len(proposals.hypotheses), "turns": list(names), **fault}))
        for one in proposals.hypotheses:
            made = {"hypothesis": replace(one, turns=names).to_json(), "made": one.kind == "config"}
            lines.append(("proposed", made))
        lines += [("finding", one.to_json()) for one in proposals.findings]
        lines += [("refused", {"hypothesis": one.to_json(), "reason": why}) for one, why in proposals.refused]
        said = [f"{one.slug}: proposed ({one.kind}): {one.sentence}" for one in proposals.hypotheses]
        said += [f"{one.slug}: refused: {why}" for one, why in proposals.refused]
        if proposals.fault:
            said.append(f"{self.turns.name} had no idea that can be used ({proposals.fault}): {proposals.message}")
        return JobResult(lines, said, proposals.fault, proposals.message, turns=names)

    @property
    def _numbers_elsewhere(self) -> bool:
        """Whether an optimiser sees to the numbers."""
        return self.builder.spec.proposer.name == HYBRID

    def _propose_context(self, state: CampaignState) -> ProposeContext:
        protection = self.workspace.protection
        now = self.clock()
        found = stand_at(state, now)
        return gather(state, found, self.builder, protection.why_key, protection.why)

    def edit(self, hypothesis: Hypothesis) -> JobResult:
        """Put a code idea into code; the outcome is an idea that can be run, or one that cannot, with the reason."""
        state = self.history.state()
        parent = self._parent(state, hypothesis)
        if parent is None:
            line = {"hypothesis": hypothesis.to_json(), "reason": f"its parent {hypothesis.parent!r} is gone"}
            return JobResult(lines=[("refused", line)], messages=[f"{hypothesis.slug}: refused: its parent is gone"])
        self.say(f"{hypothesis.slug}: {self.turns.name} edits the code of {parent.name}")
        workspace, story = self.workspace, list[str]()
        edit = make_edit(workspace, hypothesis, parent.commit, self.turns.ask)
        while edit.failed_guard[1] and edit.fault is None and len(story) < workspace.spec.max_fixes:
            if spent(self.history.state(), self.turns.usage):
                break
            edit, told = self._mend_guard(hypothesis, parent.commit, edit, len(story) + 1)
            story.append(told)
        if workspace.spec.review:
            edit = reviewed(workspace, hypothesis, parent.commit, edit, self.turns.ask)
        lines = self.turns.take_lines()
        lines += [("guard_fixed", {"slug": hypothesis.slug, "told": told}) for told in story]
        said = [f"{hypothesis.slug}: {told}" for told in story]
        done = JobResult(lines, said, fault=edit.fault, why=edit.why, turns=_names(lines))
        if edit.fault is TurnFault.STOPPED or (edit.fault is not None and edit.fault.needs_person):
            return done  # it stays as it was, and is edited another time
        late = state.research.late(hypothesis.slug, TurnRole.EDIT)
        if edit.fault is TurnFault.TIMEOUT and not late:
            return _overran(done, hypothesis.slug, hypothesis.token)
        made = replace(
            hypothesis,
            parent=parent.slug,
            patches=(edit.patch,) if edit.patch and _keeps_patch(edit.unmade) else (),
            paths=edit.paths,
            flags=edit.flags,
            unmade=edit.unmade.value if edit.unmade else "",
            why_unmade=edit.why if edit.unmade else "",
            turns=(*hypothesis.turns, *late, *done.turns),
        )
        self.remembered.sessions[hypothesis.slug] = self.turns.name, self.workspace.editor, edit.session
        done.lines.append(("made", {"hypothesis": made.to_json()}))
        outcome = edit.why if edit.unmade else f"changes {', '.join(edit.paths[:5])}"
        done.messages.append(f"{hypothesis.slug}: {outcome}")
        done.messages += [f"{hypothesis.slug}: suspicious: {flag}" for flag in edit.flags]
        return done

    def _parent(self, state: CampaignState, hypothesis: Hypothesis) -> Idea | None:
        """The idea whose code is edited: the one it was where the edit was begun before."""
        if self.workspace.begun and (begun := read_turn(self.workspace.begun[0])) is not None:
            return next((idea for idea in state.ideas if idea.commit == begun[0].base), None)
        if hypothesis.parent in (BEST, ""):
            return state.base
        return state.by_slug(BASELINE if hypothesis.parent == BASELINE else hypothesis.parent)

    def _mend_guard(self, hypothesis: Hypothesis, base: str, edit: Edit, number: int) -> tuple[Edit, str]:
        """Let the agent mend an edit that a guard command refused: the edit as it is then, and what to tell of it."""
        self.say(f"{hypothesis.slug}: {edit.why.splitlines()[0]}; {self.turns.name} is asked to mend it")
        session = edit.session if self.researcher.traits.resumes else ""
        mended = make_guard_fix(self.workspace, hypothesis, base, edit, self.turns.ask, session)
        story = f"fix {number} of {self.workspace.spec.max_fixes} of the guard by {self.turns.name}"
        if mended.unmade in (None, NotMade.GUARD):
            came = mended.why.splitlines()[0] if mended.unmade else " ".join(mended.summary.split())[:300] or "mended"
            return mended, f"{story}: {came}"
        stopped = mended.fault is TurnFault.STOPPED or (mended.fault is not None and mended.fault.needs_person)
        kept = replace(edit, fault=mended.fault, session=mended.session) if stopped else edit
        return kept, f"{story} came to nothing: {mended.why.splitlines()[0]}"

    def guard(self, merge: Idea) -> JobResult:
        """Run the guard on a merge of edits, each of which passed it."""
        failed = guarded(self.workspace, merge.commit, self.campaign_dir.path / "guards" / merge.slug)
        return JobResult() if self.workspace.stopped() else JobResult.of_guard(merge, failed)

    def fix(self, idea: Idea) -> JobResult:
        """Let the agent mend what made the last run of an idea fail."""
        builder = self.builder.for_idea(idea.hypothesis)
        try:
            failure = agent_turns.explained(idea, builder)
        except ConflictError as gone:
            return JobResult(fix=Edit(unmade=NotMade.RESEARCHER, why=gone.message), of=idea)
        *edited, session = self.remembered.sessions.get(idea.slug, ("", 0, ""))
        here = self.researcher.traits.resumes and edited == [self.turns.name, self.workspace.editor]
        session = session if here else ""
        edit = make_fix(self.workspace, idea.hypothesis, idea.commit, failure, self.turns.ask, session)
        self.remembered.sessions[idea.slug] = self.turns.name, self.workspace.editor, edit.session
        state = self.history.state()
        lines = self.turns.take_lines()
        late = state.research.late(idea.slug, TurnRole.FIX)
        if edit.fault is TurnFault.TIMEOUT and not late:
            return _overran(JobResult(lines, fault=edit.fault, turns=_names(lines)), idea.slug)
        fault = edit.fault if edit.fault in (None, TurnFault.STOPPED) or edit.fault.needs_person else None
        return JobResult(lines, fix=edit, of=idea, turns=(*late, *_names(lines)), fault=fault, why=edit.why)


def _names(lines: list[Line]) -> tuple[str, ...]:
    return tuple(fields["name"] for do, fields in lines if do == "turn")


def _overran(done: JobResult, slug: str, token: str = "") -> JobResult:
    """A turn that ran out of time for the first time is no attempt: it is asked again, after the other ideas."""
    done.lines.append(("overran", {"slug": slug, "token": token, "turns": list(done.turns)}))
    done.messages.append(f"{slug}: {done.turns[-1]} ran out of time; it is asked once more")
    return done


def _keeps_patch(unmade: NotMade | None) -> bool:
    """Whether the branch shows the diff; one that touches what is protected, or is too large, stays in its turn."""
    return unmade in (None, NotMade.GUARD, NotMade.REFUSED)
