"""PlanView: the state of a plan, computed only from the records on its branch.

registered  a version: hashes of its text, of the files it names and of the code; `start` is its first stage
approved    a person approved exactly that version; `waived`: it is run without approval, explicitly
begun       the campaign of a stage, recorded before it is started
concluded   expectation against result, the outcome, the next step
ended       the plan is over
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autoresearch.core.plans.model import END, REVISE


class PlanState(StrEnum):
    """The state of a plan, named by what it waits for."""

    REGISTERED = "registered"  # for its approval
    READY = "ready"  # for `plan run`
    RUNNING = "running"  # for the campaign of a stage
    REVISE = "revise"  # for another version
    ENDED = "ended"


class Met(StrEnum):
    """Expectation against result."""

    MET = "met"
    NOT_MET = "not met"
    UNDECIDED = "undecided"  # a value that the expectation needs was not measured


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a plan, fixed before its first run."""

    number: int
    digest: str  # sha256 over the plan and every file that it names
    code: str  # the commit that its stages start from
    start: str  # its first stage
    file: str  # path of the plan
    reason: str = ""  # why it was revised
    by: str = ""
    t: float = 0.0
    commit: str = ""  # the commit that contains this record


@dataclass(slots=True)
class StageRun:
    """One run of a stage: its campaign and its conclusion."""

    number: int  # among the plan's runs, from 1
    stage: str
    version: int
    prefix: str  # of the campaign's branches; its last component is the campaign's name
    t: float = 0.0
    conclusion: Mapping[str, Any] | None = None

    @property
    def campaign(self) -> str:
        """The campaign's name."""
        return self.prefix.rpartition("/")[2]


@dataclass(slots=True)
class PlanView:
    """The current state of a plan."""

    slug: str
    versions: list[Version] = field(default_factory=list)
    approvals: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # by version
    runs: list[StageRun] = field(default_factory=list)
    next: str = ""  # a stage, END or REVISE
    ended: Mapping[str, Any] | None = None
    records: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def version(self) -> Version:
        """The current version."""
        return self.versions[-1]

    @property
    def approved(self) -> bool:
        """Whether the current version may be run: it was approved, or approval was waived."""
        return self.version.number in self.approvals

    @property
    def live(self) -> StageRun | None:
        """The stage that was begun and has no conclusion yet."""
        last = self.runs[-1] if self.runs else None
        return last if last and last.conclusion is None else None

    @property
    def state(self) -> PlanState:
        """The state that follows from the records."""
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
    """The plan after these records, oldest first. KeyError, TypeError or ValueError for a damaged record."""
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
