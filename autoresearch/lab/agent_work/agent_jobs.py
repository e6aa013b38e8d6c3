"""The jobs of a campaign's coding agent: propose, edit, fix, summarise.

It runs in a thread beside the controller: it reads the campaign's files with eyes of its own, asks the agent, and works
in worktrees that no run uses. It writes nothing into the journal; what is to be written is handed back as `JobResult`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Agent, Answer, Bounds, Edit, NotMade, Turn, TurnFault, TurnRole
from autoresearch.core.agents.proposal_schema import KINDS
from autoresearch.core.agents.turns import TurnNote
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.agent_schedule import HYBRID
from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import ConflictError
from autoresearch.lab.agent_work.edit import make_edit, make_fix
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace, bench_for
from autoresearch.lab.agent_work.guard import end_leftover
from autoresearch.lab.agent_work.propose import Desk, ProposeResult, propose
from autoresearch.lab.agent_work.propose_context import ProposeContext, gather
from autoresearch.lab.agent_work.review import reviewed
from autoresearch.lab.agent_work.summarise import summarise, write
from autoresearch.lab.agents import agent_factory
from autoresearch.lab.agents.rate_limits import patiently, posted
from autoresearch.lab.agents.turn import lost_turns, run_turn
from autoresearch.lab.agents.turn_dir import TurnDir, next_directory, read_result
from autoresearch.lab.agents.turn_environment import TurnEnvironment, guard_in
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint

Line = tuple[str, dict[str, Any]]


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


@dataclass(slots=True)
class AgentJobs:
    """Everything that a job needs; `stop` ends the turn that is under way."""

    campaign_dir: CampaignDir
    builder: CommitBuilder
    parts: Parts
    say: Callable[[str], None]
    stop: threading.Event
    researcher: Agent
    premises: TurnEnvironment
    bench: EditWorkspace
    history: CampaignHistory  # read by this thread only
    _lines: list[Line] = field(default_factory=list)  # of turns that are over, and not handed back yet
    _sessions: dict[str, str] = field(default_factory=dict)  # by slug: of its edit turn

    @classmethod
    def of(
        cls,
        campaign_dir: CampaignDir,
        builder: CommitBuilder,
        parts: Parts,
        say: Callable[[str], None],
        stop: threading.Event,
    ) -> AgentJobs:
        """The study of a campaign. EnvironmentUnusable where a sandbox is needed and cannot be had."""
        who, premises = agent_factory.call(
            builder.spec.research, parts.environ, readable=(Path(builder.spec.interpreter),)
        )

        def next_turn(role: TurnRole) -> Path:
            return next_directory(campaign_dir.turns, role)

        bench = bench_for(builder, builder.spec.research, next_turn, who.traits.leavings)
        confined = guard_in(premises)
        bench = replace(bench, environment=dict(parts.environ), stopped=stop.is_set, confined=confined)
        return cls(campaign_dir, builder, parts, say, stop, who, premises, bench, CampaignHistory(campaign_dir))

    def taken(self) -> list[Line]:
        """The journal lines of turns that are over, each handed out once."""
        found, self._lines = self._lines, []
        return found

    def ask(self, turn: Turn) -> Answer:
        """Ask the agent, wait out what passes, and remember what it cost."""
        deadline = self.history.state().spec.rules.deadline
        tell = posted(self.campaign_dir.waiting, self.say)
        return patiently(self._ask_once, self.stop, tell, deadline=deadline, clock=self.parts.clock)(turn)

    def _ask_once(self, turn: Turn) -> Answer:
        answer = run_turn(self.researcher, turn, self.premises, self.stop)
        self._lines.append(
            ("turn", {"name": Path(turn.directory).name, **turn_line(turn.role, self.researcher, answer)})
        )
        failpoint("research.asked")
        return answer

    def end_leftover(self) -> None:
        """End the guard that a killed controller left running."""
        end_leftover(self.bench)

    def unwritten(self, turn_notes: Mapping[str, TurnNote]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The turns that the journal does not know: their controller was killed. Ends what lives of them."""
        lost_turns(self.campaign_dir.turns, self.researcher)
        for path in sorted(self.campaign_dir.turns.iterdir()) if self.campaign_dir.turns.is_dir() else ():
            answer = read_result(TurnDir(path)) if path.name not in turn_notes else None
            if answer is not None:
                role = TurnRole(path.name.partition("-")[2].split("-")[0])
                yield path.name, turn_line(role, self.researcher, answer)

    # -- jobs -----------------------------------------------------------------------------------------------------

    def propose(self) -> JobResult:
        """Ask for new hypotheses; those that need no edit can be run at once."""
        state = self.history.state()
        best = state.best or state.baseline
        assert best is not None, "the baseline is measured before anybody is asked"
        self.say(f"{self.researcher.name} is asked for ideas")
        kinds = tuple(kind for kind in KINDS if kind != "config") if self._numbers_elsewhere else KINDS
        matter = self._matter(state)
        resumes = self.researcher.traits.resumes
        with self.bench.enclosure.opened(best.commit) as opened:
            desk = Desk(self.ask, opened.path, self.bench.next_turn, self._bounds(state), resumes=resumes)
            found = propose(matter, self.bench.spec.ideas, desk, kinds)
        return self._as_result(found)

    def _as_result(self, proposals: ProposeResult) -> JobResult:
        """What a turn for ideas came to, as lines of the journal and for people."""
        lines = self.taken()
        names = _names(lines)
        for _, fields in lines:
            fields["ideas"] = len(proposals.hypotheses)  # among which the cost is shared out
        fault = {"fault": proposals.fault.value, "said": proposals.message} if proposals.fault else {}
        lines.append(("asked", {"ideas": len(proposals.hypotheses), "turns": list(names), **fault}))
        for one in proposals.hypotheses:
            made = {"hypothesis": replace(one, turns=names).to_json(), "made": one.kind == "config"}
            lines.append(("proposed", made))
        lines += [("refused", {"hypothesis": one.to_json(), "reason": why}) for one, why in proposals.refused]
        said = [f"{one.slug}: proposed ({one.kind}): {one.sentence}" for one in proposals.hypotheses]
        said += [f"{one.slug}: refused: {why}" for one, why in proposals.refused]
        if proposals.fault:
            said.append(f"{self.researcher.name} had no idea that can be used ({proposals.fault}): {proposals.message}")
        return JobResult(lines, said, proposals.fault, proposals.message, turns=names)

    @property
    def _numbers_elsewhere(self) -> bool:
        """Whether an optimiser sees to the numbers."""
        return self.builder.spec.proposer.name == HYBRID

    def _matter(self, state: CampaignState) -> ProposeContext:
        protection = self.bench.protection
        now = self.parts.clock()
        found = stand_at(state, now)
        return gather(state, found, self.builder, protection.why_key, protection.why)

    def _bounds(self, state: CampaignState) -> Bounds:
        """Of a turn: those of the spec, and never more money than is left."""
        bounds, budget = self.bench.spec.bounds, state.spec.rules.budget_usd
        if budget is None:
            return bounds
        left = max(0.01, budget - (state.research.usage.usd or 0.0))
        return replace(bounds, usd=min(left, bounds.usd or left))

    def _affordable(self, state: CampaignState) -> EditWorkspace:
        """The bench, whose turns cost no more than is left."""
        return replace(self.bench, spec=replace(self.bench.spec, turn_usd=self._bounds(state).usd))

    def edit(self, hypothesis: Hypothesis) -> JobResult:
        """Put a code idea into code; the outcome is an idea that can be run, or one that cannot, with the reason."""
        state = self.history.state()
        parent = _parent(state, hypothesis)
        if parent is None:
            line = {"hypothesis": hypothesis.to_json(), "reason": f"its parent {hypothesis.parent!r} is gone"}
            return JobResult(lines=[("refused", line)], messages=[f"{hypothesis.slug}: refused: its parent is gone"])
        self.say(f"{hypothesis.slug}: {self.researcher.name} edits the code of {parent.slug}")
        bench = self._affordable(state)
        edit = make_edit(bench, hypothesis, parent.commit, self.ask)
        if bench.spec.review:
            edit = reviewed(bench, hypothesis, parent.commit, edit, self.ask)
        lines = self.taken()
        done = JobResult(lines, fault=edit.fault, why=edit.why, turns=_names(lines))
        if edit.fault is TurnFault.STOPPED or (edit.fault is not None and edit.fault.needs_person):
            return done  # it stays as it was, and is edited another time
        made = replace(
            hypothesis,
            parent=parent.slug,
            patches=(edit.patch,) if edit.patch and _keeps_patch(edit.unmade) else (),
            paths=edit.paths,
            flags=edit.flags,
            unmade=edit.unmade.value if edit.unmade else "",
            why_unmade=edit.why if edit.unmade else "",
            turns=(*hypothesis.turns, *done.turns),
        )
        self._sessions[hypothesis.slug] = edit.session
        done.lines.append(("made", {"hypothesis": made.to_json()}))
        outcome = edit.why if edit.unmade else f"changes {', '.join(edit.paths[:5])}"
        done.messages.append(f"{hypothesis.slug}: {outcome}")
        done.messages += [f"{hypothesis.slug}: suspicious: {flag}" for flag in edit.flags]
        return done

    def fix(self, idea: Idea) -> JobResult:
        """Let the agent mend what made the last run of an idea fail."""
        builder = self.builder.for_idea(idea.hypothesis)
        try:
            failure = agent_factory.explained(idea, builder)
        except ConflictError as gone:
            return JobResult(fix=Edit(unmade=NotMade.RESEARCHER, why=gone.message), of=idea)
        session = self._sessions.get(idea.slug, "") if self.researcher.traits.resumes else ""
        bench = self._affordable(CampaignHistory(self.campaign_dir).state())
        edit = make_fix(bench, idea.hypothesis, idea.commit, failure, self.ask, session)
        lines = self.taken()
        fault = edit.fault if edit.fault in (None, TurnFault.STOPPED) or edit.fault.needs_person else None
        return JobResult(lines, fix=edit, of=idea, turns=_names(lines), fault=fault, why=edit.why)

    def summarise(self) -> JobResult:
        """What the agent thinks of the campaign, as a document beside the report."""
        state = self.history.state()
        matter = self._matter(state)
        best = state.best or state.baseline
        bounds = self._bounds(state)
        deadline = state.spec.rules.deadline
        if deadline is not None:
            bounds = replace(bounds, seconds=max(1.0, min(bounds.seconds, deadline - self.parts.clock())))
        with self.bench.enclosure.opened(best.commit if best else state.spec.base_commit) as opened:
            desk = Desk(self.ask, opened.path, self.bench.next_turn, bounds, resumes=self.researcher.traits.resumes)
            found = summarise(matter, desk)
        lines = self.taken()
        if found.fault is not None:
            return JobResult(lines, [f"no summary by {self.researcher.name} ({found.fault}): {found.why}"], found.fault)
        return JobResult(lines, [f"wrote {write(matter, found, self.campaign_dir.path)}"])


def turn_line(role: TurnRole, who: Agent, answer: Answer) -> dict[str, Any]:
    """What a line of the journal says of a turn."""
    usage = answer.usage
    found: dict[str, Any] = {
        "role": role.value,
        "agent": who.name,
        "usd": usage.usd,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "seconds": round(usage.seconds, 3),
    }
    if answer.fault is not None:
        found |= {"fault": answer.fault.value, "said": answer.message[:500]}
    return found


def _names(lines: list[Line]) -> tuple[str, ...]:
    return tuple(fields["name"] for do, fields in lines if do == "turn")


def _parent(state: CampaignState, hypothesis: Hypothesis) -> Idea | None:
    if hypothesis.parent in (BEST, ""):
        return state.best
    return state.by_slug(BASELINE if hypothesis.parent == BASELINE else hypothesis.parent)


def _keeps_patch(unmade: NotMade | None) -> bool:
    """Whether the branch shows the diff; one that touches what is protected, or is too large, stays in its turn."""
    return unmade in (None, NotMade.GUARD, NotMade.REFUSED)
