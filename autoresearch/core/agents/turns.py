"""Folds the journal entries about a campaign's coding agents: jobs, turns and costs, proposals, fixes, steering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autoresearch.core.agents.agent import TurnFault, TurnRole, Usage
from autoresearch.core.campaign.hypothesis import Hypothesis

if TYPE_CHECKING:
    from autoresearch.core.agents.findings import IdeaFinding

AGENT = "agent"  # the proposer's name
HYBRID = "hybrid"  # that of the one that mixes the agent's ideas with an optimiser's
OPTIMISER = "tpe"  # the other half of a hybrid
MOST_DENIED = 5  # kinds of denied actions that are named
PROPOSE, EDIT, FIX, GUARD = "propose", "edit", "fix", "guard"  # the kinds of jobs


@dataclass(frozen=True, slots=True)
class Waiting:
    """The end of a usage limit or an outage that a job waits for; times are seconds since 1970."""

    role: str  # of the turn that is asked again
    fault: TurnFault
    message: str  # the agent's words, masked
    until: float  # when it is asked again
    tries: int  # so far


@dataclass(frozen=True, slots=True)
class AgentJob:
    """A job of a coding agent, from the line that begins it to the one that ends it.

    It fixes or edits one idea, or proposes new ones. GUARD asks no agent: it is the guard on a merge of edits, in an
    editor's worktree.
    """

    kind: str
    slug: str = ""  # of the idea; "" where it proposes
    agent: str = ""  # who is asked
    usd: float | None = None  # what each of its turns may cost; None: no limit
    editor: int = 1  # whose worktrees it is done in
    parent: str = ""  # of an edit: the idea whose code is changed
    resumes: bool = False  # of a fix: it is done where, and by whom, its idea was edited last
    questions: tuple[tuple[str, ...], ...] = ()  # begun so far: the names of the turns of each, one for each try
    waits: Waiting | None = None

    @property
    def name(self) -> str:
        """`edit lower-rate`: no two jobs under way have the same."""
        return f"{self.kind} {self.slug or self.agent}"

    @property
    def turns(self) -> tuple[str, ...]:
        """The names of the directories of all its turns."""
        return tuple(name for question in self.questions for name in question)


@dataclass(frozen=True, slots=True)
class TurnNote:
    """A finished turn."""

    name: str  # of its directory
    role: str
    usage: Usage
    fault: TurnFault | None = None
    message: str = ""
    ideas: int = 1  # number of ideas that share its cost
    denied: tuple[str, ...] = ()  # actions that it was not permitted, such as `Bash pytest -q`
    agent: str = ""  # who was asked

    @property
    def share(self) -> Usage:
        """The cost charged to each of its ideas."""
        tokens, n = self.usage.tokens, max(1, self.ideas)
        usd = None if self.usage.usd is None else self.usage.usd / n
        return Usage(usd, None if tokens is None else tokens // n, None, self.usage.seconds / n)


@dataclass(slots=True)
class ProposedIdea:
    """An agent's hypothesis before it becomes an idea of the campaign."""

    hypothesis: Hypothesis
    made: bool  # its diff is finished (or not needed, or the edit failed)


@dataclass(slots=True)
class Research:
    """Everything that the journal records about the agent, folded line by line."""

    jobs: dict[str, AgentJob] = field(default_factory=dict)  # under way, by their names
    edited: dict[str, tuple[str, int]] = field(default_factory=dict)  # by slug: the agent and editor of its last edit
    suspended: dict[str, str] = field(default_factory=dict)  # by agent: why it is not asked before somebody resumes
    turns: dict[str, TurnNote] = field(default_factory=dict)
    proposed: dict[str, ProposedIdea] = field(default_factory=dict)  # by token, in order
    refused: list[tuple[Hypothesis, str]] = field(default_factory=list)  # proposals that were refused, with the reason
    fixes: dict[int, int] = field(default_factory=dict)  # by idea: number of attempts started
    fixing: set[int] = field(default_factory=set)  # ideas whose fix is in progress
    fix_turns: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by idea: turns of its last fix
    fix_story: dict[int, list[str]] = field(default_factory=dict)  # by idea: what was tried, and with what result
    edit_story: dict[str, list[str]] = field(default_factory=dict)  # by slug: how a guard that failed was mended
    overran: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by slug: turns that ran out of time
    findings: list[IdeaFinding] = field(default_factory=list)  # in the order in which they were made
    notes: list[str] = field(default_factory=list)  # people's messages to it
    vetoes: list[str] = field(default_factory=list)  # slugs, or descriptions of what is not to be tried
    approved: set[str] = field(default_factory=set)  # slugs of code ideas that a person lets be edited
    trusted: set[str] = field(default_factory=set)  # slugs of ideas whose result a person has approved
    hold: bool | None = None  # None: as set in the spec
    why_failed: dict[str, str] = field(default_factory=dict)  # by agent: of its last request, if it came to nothing
    barren: list[tuple[str, str]] = field(default_factory=list)  # agent and first turn of requests since its last idea

    @property
    def usage(self) -> Usage:
        """The usage of all turns together."""
        return sum((turn.usage for turn in self.turns.values()), Usage())

    @property
    def denied(self) -> Counter[str]:
        """How often which action was denied, as a tool and the first word of what it was to do: `Bash(pytest ...)`."""
        return Counter(_action(one) for turn in self.turns.values() for one in turn.denied)

    @property
    def denied_words(self) -> str:
        """`5 actions were denied: Bash(pytest ...) 4 times, Edit(val.jsonl)`, the most frequent first; "" for none."""
        denied = self.denied
        shown = [f"{what} {times} times" if times > 1 else what for what, times in denied.most_common(MOST_DENIED)]
        more = f" and {len(denied) - len(shown)} others" if len(denied) > len(shown) else ""
        count = denied.total()
        return f"{count} action{'s were' if count > 1 else ' was'} denied: {', '.join(shown)}{more}" if count else ""

    def cost(self, turns: Iterable[str]) -> Usage:
        """The cost charged to the idea or the fix that these turns produced."""
        known = (self.turns[name] for name in turns if name in self.turns)
        return sum((note.share for note in known), Usage())

    @property
    def waiting(self) -> list[AgentJob]:
        """The jobs that wait for the end of a usage limit or an outage, one of each agent."""
        return list({job.agent: job for job in self.jobs.values() if job.waits}.values())

    def agent_of(self, hypothesis: Hypothesis) -> str:
        """The agent whose idea it was: that of its first turn; "" for ideas of others, and where it is not known."""
        return next((self.turns[name].agent for name in hypothesis.turns if name in self.turns), "")

    def editor_of(self, hypothesis: Hypothesis) -> str:
        """The agent that edited it last; "" for none."""
        known = (self.turns[name] for name in reversed(hypothesis.turns) if name in self.turns)
        return next((note.agent for note in known if note.role == TurnRole.EDIT), "")

    def take(self, line: Mapping[str, Any]) -> None:
        """Apply one journal line; lines on other subjects are ignored. KeyError, ValueError for a damaged one."""
        from autoresearch.core.agents.findings import IdeaFinding

        self.jobs.pop(str(line.get("ends", "")), None)
        match line.get("do"):
            case "job" | "asking" | "waits":
                self._job(line)
            case "turn":
                self._turn(line)
            case "asked":  # a request for ideas, all its re-prompts included
                known, ideas = [name for name in line.get("turns", ()) if name in self.turns], int(line["ideas"])
                self.turns.update({name: replace(self.turns[name], ideas=ideas) for name in known})
                agent = self.turns[known[0]].agent if known else ""
                self.why_failed[agent] = str(line.get("said") or line.get("fault") or "")
                self.barren.append((agent, known[0] if known else ""))
            case "proposed":
                hypothesis = Hypothesis.from_json(line["hypothesis"])
                self.proposed[hypothesis.token] = ProposedIdea(hypothesis, made=bool(line.get("made")))
            case "made":
                hypothesis = Hypothesis.from_json(line["hypothesis"])
                self.proposed[hypothesis.token] = ProposedIdea(hypothesis, made=True)
            case "finding":
                self.findings.append(IdeaFinding.from_json(line))
            case "refused":
                hypothesis = Hypothesis.from_json(line["hypothesis"])
                self.refused.append((hypothesis, str(line.get("reason", ""))))
                self.proposed.pop(hypothesis.token, None)
            case "guard_fixed":
                self.edit_story.setdefault(line["slug"], []).append(str(line["told"]))
            case "overran":
                self.overran[line["slug"]] = (*self.overran.get(line["slug"], ()), *line["turns"])
                if (token := str(line.get("token", ""))) in self.proposed:
                    self.proposed[token] = self.proposed.pop(token)  # the others are edited before
            case "idea" | "skipped" as what:
                self.proposed.pop(str(line["hypothesis"].get("token", "")), None)
                if what == "idea" and line["hypothesis"].get("proposer") == AGENT:
                    hypothesis = Hypothesis.from_json(line["hypothesis"])
                    agent, first = self.agent_of(hypothesis), next(iter(hypothesis.turns), "")
                    self.barren = [one for one in self.barren if one[0] != agent or one[1] > first]  # later requests
            case "fixing":
                index = int(line["index"])
                self.fixes[index] = self.fixes.get(index, 0) + 1
                self.fixing.add(index)
            case "fixed" | "fix_failed":
                self.fixing.discard(int(line["index"]))
                self.fix_turns[int(line["index"])] = tuple(line.get("turns", ()))
                if line.get("told"):
                    self.fix_story.setdefault(int(line["index"]), []).append(str(line["told"]))
            case _:
                self._steer(line)

    def _job(self, line: Mapping[str, Any]) -> None:
        if line["do"] == "job":
            fields = {name: line[name] for name in ("kind", "slug", "agent", "usd", "editor", "parent", "resumes")}
            job = AgentJob(**fields)
            if job.kind in (EDIT, FIX):
                self.edited[job.slug] = job.agent, job.editor
        elif line["do"] == "asking":
            job, turn = self.jobs[line["job"]], str(line["turn"])
            *before, last = job.questions if line["again"] else (*job.questions, ())
            job = replace(job, questions=(*before, (*last, turn)), waits=None)
        else:
            waits = Waiting(line["role"], TurnFault(line["fault"]), line["said"], line["until"], line["tries"])
            job = replace(self.jobs[line["job"]], waits=waits)
        self.jobs[job.name] = job

    def _turn(self, line: Mapping[str, Any]) -> None:
        usage = Usage(line.get("usd"), line.get("tokens_in"), line.get("tokens_out"), float(line.get("seconds") or 0))
        fault, agent = TurnFault(line["fault"]) if line.get("fault") else None, str(line.get("agent", ""))
        if fault is not None and usage.usd is None:
            usage = replace(usage, usd=self._price(agent, usage.tokens))
        said, ideas, denied = str(line.get("said", "")), int(line.get("ideas", 1)), map(str, line.get("denied", ()))
        note = TurnNote(line["name"], line["role"], usage, fault, said, ideas, tuple(denied), agent)
        self.turns[note.name] = note

    def _price(self, agent: str, tokens: int | None) -> float | None:
        """What so many tokens cost by the agent's other turns: one that was ended early could not say it itself."""
        told = [one.usage for one in self.turns.values() if one.agent == agent and one.fault is None]
        known = [(one.usd, one.tokens) for one in told if one.usd is not None and one.tokens]
        if tokens is None or not known:
            return None
        return tokens * sum(usd for usd, _ in known) / sum(number for _, number in known)

    def late(self, slug: str, role: TurnRole) -> tuple[str, ...]:
        """The turns of this role for that idea that ran out of time and were no attempts."""
        known = (self.turns[name] for name in self.overran.get(slug, ()) if name in self.turns)
        return tuple(turn.name for turn in known if turn.role == role)

    def _steer(self, line: Mapping[str, Any]) -> None:
        match line.get("do"):
            case "told_agent":
                self.notes.append(str(line["text"]))
            case "unwanted":
                self.barren.clear()  # a person intervened: the count starts again
            case "vetoed":
                self.vetoes.append(str(line["what"]))
            case "approved":
                self.approved.add(str(line["slug"]))
            case "trusted":
                self.trusted.add(str(line["slug"]))
            case "hold":
                self.hold = bool(line["on"])
            case "suspended":
                self.suspended[str(line["agent"])] = str(line["reason"])
            case "readmitted":
                self.suspended.clear()
            case "state":
                if line.get("state") == "running":
                    self.barren.clear()


def _action(denied: str) -> str:
    tool, _, rest = denied.partition(" ")
    first, _, more = rest.partition(" ")
    return f"{tool}({first.rstrip(':')}{' ...' if more else ''})" if first and tool.isidentifier() else denied
