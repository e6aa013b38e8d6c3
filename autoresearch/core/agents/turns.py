"""Folds the journal entries about a campaign's coding agents: jobs, turns and costs, proposals, fixes, steering.

Findings are what an agent concludes of each decided idea, as it wrote it: nobody holds it against the records. It is
asked for them at the start of a turn for ideas, in the same answer. Every EVERY ideas it sums them up, so that what it
is told in a turn stays short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoresearch.core.agents.agent import TurnFault, TurnRole, Usage
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.numbers import listed

AGENT = "agent"  # the proposer's name
HYBRID = "hybrid"  # that of the one that mixes the agent's ideas with an optimiser's
OPTIMISER = "tpe"  # the other half of a hybrid
MOST_DENIED = 5  # denied actions that are named
ALL = "all"  # the name under which an answer sums up the findings so far
EVERY = 10  # findings that are summed up at a time
MOST_SUMMARY = 8  # sentences of it
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


@dataclass(frozen=True, slots=True)
class IdeaFinding:
    """What was found of one idea, or (ALL) of several, which `covers` names by their slugs."""

    idea: str
    text: str
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandingFindings:
    """The findings of a campaign: the last summary, and those that came after what it sums up, oldest first."""

    summary: IdeaFinding | None = None
    since: tuple[IdeaFinding, ...] = ()

    @property
    def summary_due(self) -> bool:
        """Whether so many have gathered that the agent is asked to sum them up."""
        return len(self.since) >= EVERY


def standing_findings(idea_findings: Iterable[IdeaFinding]) -> StandingFindings:
    """What stands after these, in the order in which they were made; a later one of an idea replaces the earlier."""
    by_idea: dict[str, IdeaFinding] = {}
    for one in idea_findings:
        by_idea.pop(one.idea, None)
        by_idea[one.idea] = one
    summary = by_idea.pop(ALL, None)
    covered = summary.covers if summary else ()
    return StandingFindings(summary, tuple(one for one in by_idea.values() if one.idea not in covered))


@dataclass(slots=True)
class Research:
    """Everything that the journal records about the agent, folded line by line."""

    jobs: dict[str, AgentJob] = field(default_factory=dict)  # under way, by their names
    suspended: dict[str, str] = field(default_factory=dict)  # by agent: why it is not asked before somebody resumes
    turns: dict[str, TurnNote] = field(default_factory=dict)
    proposed: dict[str, ProposedIdea] = field(default_factory=dict)  # by token, in order
    refused: list[tuple[Hypothesis, str]] = field(default_factory=list)  # proposals that were refused, with the reason
    fixes: dict[int, int] = field(default_factory=dict)  # by idea: number of attempts started
    fixing: set[int] = field(default_factory=set)  # ideas whose fix is in progress
    fix_turns: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by idea: turns of its last fix
    fix_story: dict[int, list[str]] = field(default_factory=dict)  # by idea: what was tried, and with what result
    edit_story: dict[str, list[str]] = field(default_factory=dict)  # by slug: how a guard that failed was mended
    findings: list[IdeaFinding] = field(default_factory=list)  # in the order in which they were made
    notes: list[str] = field(default_factory=list)  # people's messages to it
    trusted: set[str] = field(default_factory=set)  # slugs of ideas whose result a person has approved
    why_failed: dict[str, str] = field(default_factory=dict)  # by agent: of its last request, if it came to nothing
    barren: list[tuple[str, str]] = field(default_factory=list)  # agent and first turn of requests since its last idea

    @property
    def usage(self) -> Usage:
        """The usage of all turns together."""
        return sum((turn.usage for turn in self.turns.values()), Usage())

    @property
    def spent(self) -> str:
        """`1.20 USD by its own count, 51,000 tokens`; some agents do not say what they cost. "" before the first turn.
        """
        asked = dict.fromkeys(turn.agent for turn in self.turns.values())
        tell = dict.fromkeys(turn.agent for turn in self.turns.values() if turn.usage.usd is not None)
        usage, silent = self.usage, [agent for agent in asked if agent not in tell]
        own = "their own count" if len(tell) > 1 else "its own count"
        usd = "USD unknown" if usage.usd is None else f"{usage.usd:.2f} USD by {own}"
        usd += f" ({' and '.join(silent)}: unknown)" if tell and silent else ""
        tokens = "tokens unknown" if usage.tokens is None else f"{usage.tokens:,} tokens"
        return f"{usd}, {tokens}" if asked else ""

    @property
    def denied(self) -> list[str]:
        """The actions that agents were not permitted, such as `Bash pytest -q`, each once."""
        return list(dict.fromkeys(one for turn in self.turns.values() for one in turn.denied))

    @property
    def denied_words(self) -> str:
        """`not permitted: Bash pytest -q, Edit val.jsonl`; "" for none."""
        return f"not permitted: {listed(self.denied, MOST_DENIED)}" if self.denied else ""

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
                self.findings.append(from_record(IdeaFinding, line))
            case "refused":
                hypothesis = Hypothesis.from_json(line["hypothesis"])
                self.refused.append((hypothesis, str(line.get("reason", ""))))
                self.proposed.pop(hypothesis.token, None)
            case "guard_fixed":
                self.edit_story.setdefault(line["slug"], []).append(str(line["told"]))
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
            job = AgentJob(**{name: line[name] for name in ("kind", "slug", "agent", "usd", "editor", "parent")})
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

    def _steer(self, line: Mapping[str, Any]) -> None:
        match line.get("do"):
            case "told_agent":
                self.notes.append(str(line["text"]))
            case "unwanted":
                self.barren.clear()  # a person intervened: the count starts again
            case "trusted":
                self.trusted.add(str(line["slug"]))
            case "suspended":
                self.suspended[str(line["agent"])] = str(line["reason"])
            case "readmitted":
                self.suspended.clear()
            case "state":
                if line.get("state") == "running":
                    self.barren.clear()
