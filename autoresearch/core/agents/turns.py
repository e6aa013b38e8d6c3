"""What the journal of a campaign says of its researcher: turns and what they cost, proposals, fixes, steering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.agents.agent import TurnFault, TurnRole, Usage
from autoresearch.core.campaign.hypothesis import Hypothesis

AGENT = "agent"  # the proposer's name


@dataclass(frozen=True, slots=True)
class TurnNote:
    """One turn that is over."""

    name: str  # of its directory
    role: str
    usage: Usage
    fault: TurnFault | None = None
    said: str = ""
    ideas: int = 1  # among which its cost is shared out

    @property
    def share(self) -> Usage:
        """What one of its ideas is charged."""
        tokens, n = self.usage.tokens, max(1, self.ideas)
        usd = None if self.usage.usd is None else self.usage.usd / n
        return Usage(usd, None if tokens is None else tokens // n, None, self.usage.seconds / n)


@dataclass(slots=True)
class ProposedIdea:
    """A researcher's hypothesis before it is an idea of the campaign."""

    hypothesis: Hypothesis
    made: bool  # its diff is there (or none is needed, or it came to nothing)


@dataclass(slots=True)
class Research:
    """All of it, folded line by line."""

    turns: dict[str, TurnNote] = field(default_factory=dict)
    proposed: dict[str, ProposedIdea] = field(default_factory=dict)  # by token, in order
    refused: list[tuple[Hypothesis, str]] = field(default_factory=list)  # proposals that never became ideas, and why
    fixes: dict[int, int] = field(default_factory=dict)  # by idea: tries that were begun
    fixing: set[int] = field(default_factory=set)  # ideas whose fix is being made
    fix_turns: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by idea: of its last fix
    fix_story: dict[int, list[str]] = field(default_factory=dict)  # by idea: what was tried, and what came of it
    notes: list[str] = field(default_factory=list)  # what people told it
    vetoes: list[str] = field(default_factory=list)  # slugs, or words about what is not to be tried
    approved: set[str] = field(default_factory=set)  # slugs of code ideas that a person let through
    hold: bool | None = None  # None: as the spec has it
    failed: int = 0  # times that it was asked for ideas and had none, since the last that it had one
    asked: int = 0  # times that it was asked for ideas since the last that became an idea of the campaign
    summarised: bool = False  # nothing was begun since its last word

    @property
    def usage(self) -> Usage:
        """Of every turn."""
        return sum((turn.usage for turn in self.turns.values()), Usage())

    def cost(self, turns: Iterable[str]) -> Usage:
        """What the idea or the fix that these turns made is charged."""
        known = (self.turns[name] for name in turns if name in self.turns)
        return sum((note.share for note in known), Usage())

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the journal; those about other things change nothing. KeyError, ValueError for a damaged one."""
        match line.get("do"):
            case "turn":
                self._turn(line)
            case "asked":  # for ideas, with all its re-prompts
                self.failed = 0 if line.get("ideas") else self.failed + 1
                self.asked += 1
            case "proposed":
                found = Hypothesis.from_json(line["hypothesis"])
                self.proposed[found.token] = ProposedIdea(found, made=bool(line.get("made")))
            case "made":
                found = Hypothesis.from_json(line["hypothesis"])
                self.proposed[found.token] = ProposedIdea(found, made=True)
            case "refused":
                found = Hypothesis.from_json(line["hypothesis"])
                self.refused.append((found, str(line.get("reason", ""))))
                self.proposed.pop(found.token, None)
            case "idea" | "skipped" as what:
                self.proposed.pop(str(line["hypothesis"].get("token", "")), None)
                self.asked = 0 if what == "idea" and line["hypothesis"].get("proposer") == AGENT else self.asked
            case "prepared":
                self.summarised = False
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

    def _turn(self, line: Mapping[str, Any]) -> None:
        usage = Usage(line.get("usd"), line.get("tokens_in"), line.get("tokens_out"), float(line.get("seconds") or 0))
        fault = TurnFault(line["fault"]) if line.get("fault") else None
        note = TurnNote(line["name"], line["role"], usage, fault, str(line.get("said", "")), int(line.get("ideas", 1)))
        self.turns[note.name] = note
        self.summarised = note.role == TurnRole.SUMMARISE and fault is None

    def _steer(self, line: Mapping[str, Any]) -> None:
        match line.get("do"):
            case "told_agent":
                self.notes.append(str(line["text"]))
            case "unwanted":
                self.asked = 0  # a person has the say
            case "vetoed":
                self.vetoes.append(str(line["what"]))
            case "approved":
                self.approved.add(str(line["slug"]))
            case "hold":
                self.hold = bool(line["on"])
            case "state":
                if line.get("state") == "running":
                    self.failed = self.asked = 0
