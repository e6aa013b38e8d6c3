"""The actions of a controller: what the pure part decides, and only the controller carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.scheduler import RunRequest


@dataclass(frozen=True, slots=True)
class Say:
    """Print a line for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Append a line to the journal."""

    do: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """Append a line to the verdicts."""

    do: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatchRun:
    """Look after a run that an earlier controller started."""

    run: str
    run_dir: str


@dataclass(frozen=True, slots=True)
class StopRun:
    """Ask the Runner of a live run to end it now."""

    run: str
    reason: str
    again: bool = False  # a kill may have come before or after it was asked: ask only if it was not


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Write the row and the other records of a run that is over, and free its slot."""

    run: str


@dataclass(frozen=True, slots=True)
class ReportRun:
    """Close the session of a recorded run, inform the proposer if the idea is decided, and print the result."""

    run: str
    index: int  # of its idea
    decided: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteDocuments:
    """Bring the documents about the campaign up to date, after a run was reported."""


@dataclass(frozen=True, slots=True)
class CheckSeeds:
    """Read the curves of the baseline's runs, and see whether the seed has an effect."""


@dataclass(frozen=True, slots=True)
class JudgeRound:
    """Read the curves of the open round's runs, and judge it."""


@dataclass(frozen=True, slots=True)
class CheckQueues:
    """Say which entries of a queue cannot be tried as they are, and when that changes."""


@dataclass(frozen=True, slots=True)
class RepairIdea:
    """Commit a person's follow-up fix on the branch of an idea."""

    index: int
    entry: Any  # as it was given: the change, in the form of an entry of a queue
    note: str


@dataclass(frozen=True, slots=True)
class CollectAgent:
    """Take in the outcome of the coding agent's job."""


@dataclass(frozen=True, slots=True)
class AgentJob:
    """One job of the coding agent: fix an idea, edit the code of a hypothesis, or (if both are None) propose ideas."""

    fix: Idea | None = None
    edit: Hypothesis | None = None


@dataclass(frozen=True, slots=True)
class StartAgent:
    """Give the coding agent its next job."""

    job: AgentJob


@dataclass(frozen=True, slots=True)
class SuspendAgent:
    """Ask the coding agent for nothing more until somebody resumes the campaign."""

    why: str


@dataclass(frozen=True, slots=True)
class ReadmitAgent:
    """Ask the coding agent again: somebody resumed the campaign."""


@dataclass(frozen=True, slots=True)
class NewIdea:
    """Ask the proposers for an idea that can be tried, and commit it on a branch."""

    baseline: bool = False  # commit the baseline instead


@dataclass(frozen=True, slots=True)
class PrepareRun:
    """Prepare a run up to the point of starting it; an idea that cannot be run gets a row that says why."""

    request: RunRequest


@dataclass(frozen=True, slots=True)
class RecordUnmade:
    """Write the row of an idea that the coding agent could not make, so that it cannot be run."""

    request: RunRequest


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """Start the prepared run, if a target has room."""


@dataclass(frozen=True, slots=True)
class WithdrawRun:
    """Cancel the prepared run; its branch stays."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Write the campaign's last documents, remove its worktrees, and record its end."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait until something happens to a run, or somebody may have requested something."""


Action = (
    Say
    | Note
    | RecordVerdict
    | WatchRun
    | StopRun
    | RecordRun
    | ReportRun
    | WriteDocuments
    | CheckSeeds
    | JudgeRound
    | CheckQueues
    | RepairIdea
    | CollectAgent
    | StartAgent
    | SuspendAgent
    | ReadmitAgent
    | NewIdea
    | PrepareRun
    | RecordUnmade
    | LaunchRun
    | WithdrawRun
    | Finish
    | Sleep
)


def enter(state: CampaignState, phase: CampaignPhase, reason: str = "") -> tuple[Action, ...]:
    """Record what the campaign is doing now, if that is new."""
    if (state.phase, state.reason) == (phase, reason) and state.timeline:
        return ()
    return (Note("state", {"state": phase.value, "reason": reason}),)


def pause(state: CampaignState, reason: str) -> tuple[Action, ...]:
    """Start no more runs until somebody resumes the campaign; live runs continue."""
    text = f"paused: {reason}; go on with: autoresearch campaign resume {state.spec.name}"
    return (*enter(state, CampaignPhase.PAUSED, reason), Say(text))
