"""PlanView: where a plan stands, folded from the records on its branch; nothing is remembered elsewhere.

registered  a version: its text, what it names and the code, by their hashes; `start` is where it begins
approved    a person's yes to exactly that version; `waived`: somebody runs it without one, and says so
begun       a stage's campaign, before it is started
concluded   expectation against result, the outcome, the next step
ended       the last word
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autoresearch.core.plans.model import END, REVISE


class PlanState(StrEnum):
    """What a plan waits for."""

    REGISTERED = "registered"  # for its approval
    READY = "ready"  # for `plan run`
    RUNNING = "running"  # for the campaign of a stage
    REVISE = "revise"  # for another version
    ENDED = "ended"


class Met(StrEnum):
    """Expectation against result."""

    MET = "met"
    NOT_MET = "not met"
    UNDECIDED = "undecided"  # what the expectation asks for was not measured


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a plan, fixed before its first run."""

    number: int
    digest: str  # sha256 over the plan and every file that it names
    code: str  # the commit that its stages begin from
    start: str  # its first stage
    file: str  # where the plan lies
    reason: str = ""  # of a revision
    by: str = ""
    t: float = 0.0
    commit: str = ""  # that holds it


@dataclass(slots=True)
class StageRun:
    """One stage as it was run: a campaign, and what came of it."""

    number: int  # of the plan's runs, from 1
    stage: str
    version: int
    prefix: str  # of the campaign's branches; its last part is the campaign's name
    t: float = 0.0
    conclusion: Mapping[str, Any] | None = None

    @property
    def campaign(self) -> str:
        """The campaign's name."""
        return self.prefix.rpartition("/")[2]


@dataclass(slots=True)
class PlanView:
    """A plan as it is now."""

    slug: str
    versions: list[Version] = field(default_factory=list)
    approvals: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # by version
    runs: list[StageRun] = field(default_factory=list)
    next: str = ""  # a stage, END or REVISE
    ended: Mapping[str, Any] | None = None
    records: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def version(self) -> Version:
        """The one that counts now."""
        return self.versions[-1]

    @property
    def approved(self) -> bool:
        """Whether it may be run: somebody said yes, or that nobody need be asked."""
        return self.version.number in self.approvals

    @property
    def live(self) -> StageRun | None:
        """The stage that was begun and has no conclusion."""
        last = self.runs[-1] if self.runs else None
        return last if last and last.conclusion is None else None

    @property
    def state(self) -> PlanState:
        """What it waits for."""
        if self.ended is not None:
            return PlanState.ENDED
        if self.live:
            return PlanState.RUNNING
        if self.next == REVISE:
            return PlanState.REVISE
        return PlanState.READY if self.approved else PlanState.REGISTERED

    def times(self, stage: str, version: int | None = None) -> int:
        """How often a stage was begun, in one version or in all."""
        return sum(run.stage == stage and version in (None, run.version) for run in self.runs)


def fold(slug: str, records: Iterable[Mapping[str, Any]]) -> PlanView:
    """The plan after these records, oldest first. KeyError, TypeError or ValueError for one that is damaged."""
    view = PlanView(slug)
    for record in records:
        _take(view, record)
        view.records.append(record)
    return view


def _take(view: PlanView, record: Mapping[str, Any]) -> None:
    match record.get("do"):
        case "registered":
            names = ("digest", "code", "start", "file", "reason", "by", "t", "commit")
            view.versions.append(Version(int(record["version"]), **{n: record[n] for n in names if n in record}))
            view.next, view.ended = str(record["start"]), None
        case "approved" | "waived":
            view.approvals[int(record["version"])] = record
        case "begun":
            run = StageRun(len(view.runs) + 1, record["stage"], int(record["version"]), record["prefix"], record["t"])
            view.runs.append(run)
        case "withdrawn":
            view.next = view.runs.pop().stage
        case "concluded":
            view.runs[-1].conclusion = record
            view.next = str(record["next"])
        case "ended":
            view.ended, view.next = record, END
