"""Findings: what an agent concludes of each decided idea, as it wrote it: nobody holds it against the records.

It is asked at the start of a turn for ideas, in the same answer. Every EVERY ideas it sums them up, so that what it is
told in a turn stays short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.agents.proposals import one_line

ALL = "all"  # the name under which an answer sums up the findings so far
EVERY = 10  # findings that are summed up at a time
MOST_ASKED = 10  # ideas of which one turn is asked
MOST_TEXT, MOST_SUMMARY_TEXT = 900, 2400  # characters: of three sentences, of MOST_SUMMARY
MOST_SUMMARY = 8


@dataclass(frozen=True, slots=True)
class IdeaFinding:
    """What was found of one idea, or (ALL) of several, which `covers` names by their slugs."""

    idea: str
    text: str
    covers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields of a journal line."""
        return {"idea": self.idea, "text": self.text} | ({"covers": list(self.covers)} if self.covers else {})

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> IdeaFinding:
        """Read the output of `to_json`. KeyError without an idea or a text."""
        return cls(str(line["idea"]), str(line["text"]), tuple(map(str, line.get("covers") or ())))


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


def read_findings(data: object, slugs: Collection[str], so_far: StandingFindings) -> list[IdeaFinding]:
    """The findings in an agent's answer on ideas with these slugs, and their summary if one was due.

    What has not their form is passed over: no idea is lost because of it.
    """
    listed = data.get("findings") if isinstance(data, Mapping) else None
    read: dict[str, IdeaFinding] = {}
    for item in listed[: 2 * MOST_ASKED] if isinstance(listed, list) else ():
        if not isinstance(item, Mapping):
            continue
        idea, text = item.get("idea"), item.get("text")
        if not isinstance(idea, str) or not isinstance(text, str) or not one_line(text, MOST_TEXT):
            continue
        if idea in slugs:
            read[idea] = IdeaFinding(idea, one_line(text, MOST_TEXT))
        elif idea == ALL and so_far.summary_due:
            before = so_far.summary.covers if so_far.summary else ()
            covers = (*before, *(one.idea for one in so_far.since))
            read[ALL] = IdeaFinding(ALL, one_line(text, MOST_SUMMARY_TEXT), covers)
    return list(read.values())
