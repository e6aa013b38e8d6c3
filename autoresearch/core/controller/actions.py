"""The actions of a controller: what the pure part decides, and only the controller carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.runs_and_retries import RunRequest


class ControllerAction:
    """Something for the controller to do."""

    __slots__ = ()


class Do(ControllerAction, Enum):
    """The actions of which nothing else has to be said."""

    CHECK_SEEDS = "read the curves of the baseline's runs, and see whether the seed has an effect"
    JUDGE_ROUND = "read the curves of the open round's runs, and judge it"
    MERGE_TIP = "merge the edits that seem good, for new ideas to be edited on"
    CHECK_QUEUES = "say which entries of a queue cannot be tried as they are, and when that changes"
    LAUNCH_RUN = "start the prepared run, if a target has room"
    WITHDRAW_RUN = "cancel the prepared run; its branch stays"
    LEAVE = "the campaign is paused and nothing of it runs: keep no process until somebody resumes it"
    SLEEP = "wait until something happens to a run, or somebody may have requested something"


@dataclass(frozen=True, slots=True)
class Say(ControllerAction):
    """Print a line for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Note(ControllerAction):
    """Record an event."""

    do: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WatchRun(ControllerAction):
    """Look after a run that an earlier controller started."""

    run: str
    run_dir: str


@dataclass(frozen=True, slots=True)
class StopRun(ControllerAction):
    """Ask the Runner of a live run to end it now."""

    run: str
    reason: str
    again: bool = False  # a kill may have come before or after it was asked: ask only if it was not


@dataclass(frozen=True, slots=True)
class RecordRun(ControllerAction):
    """Write the row and the other records of a run that is over, free its slot, and say what came of it."""

    run: str


@dataclass(frozen=True, slots=True)
class BeginAblation(ControllerAction):
    """Make a confirmed tip without one edit each, and have all of them run side by side."""

    index: int  # of the tip
    edits: tuple[int, ...]  # the indices of their ideas


@dataclass(frozen=True, slots=True)
class RepairIdea(ControllerAction):
    """Commit a person's follow-up fix on the branch of an idea."""

    index: int
    entry: Any  # as it was given: the change, in the form of an entry of a queue
    note: str


@dataclass(frozen=True, slots=True)
class StepAgent(ControllerAction):
    """Go on with a job of a coding agent that waits for nothing any more, as far as that is possible now."""

    job: str  # its name


@dataclass(frozen=True, slots=True)
class StopAgent(ControllerAction):
    """End a job whose outcome nobody wants any more; what it cost is recorded."""

    job: str  # its name


@dataclass(frozen=True, slots=True)
class NewIdea(ControllerAction):
    """Ask the proposers for an idea that can be tried, and commit it on a branch."""

    baseline: bool = False  # commit the baseline instead


@dataclass(frozen=True, slots=True)
class PrepareRun(ControllerAction):
    """Prepare a run up to the point of starting it; an idea that cannot be made or run gets a row that says why."""

    request: RunRequest


@dataclass(frozen=True, slots=True)
class Finish(ControllerAction):
    """Write the campaign's last documents, remove its worktrees, and record its end."""

    reason: str


def enter(state: CampaignState, phase: CampaignPhase, reason: str = "") -> tuple[ControllerAction, ...]:
    """Record what the campaign is doing now, if that is new."""
    if (state.phase, state.reason) == (phase, reason) and state.timeline:
        return ()
    return (Note("state", {"state": phase.value, "reason": reason}),)


def pause(state: CampaignState, reason: str) -> tuple[ControllerAction, ...]:
    """Start no more runs until somebody resumes the campaign; live runs continue."""
    text = f"paused: {reason}; go on with: autoresearch campaign resume {state.spec.name}"
    return (*enter(state, CampaignPhase.PAUSED, reason), Say(text))
