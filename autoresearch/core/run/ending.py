"""How a run ended (a fact) and how it is judged (a verdict). The two are kept separate."""

from __future__ import annotations

from enum import StrEnum

EVALUATION_FAILED = "evaluation_failed"
"""The failure of a run that ended well, and that its evaluation did not measure."""
METRIC_UNREAD = "metric_unread"
"""The failure of a run that ended well, and whose log and files do not hold its metric."""
NO_STEP = "no_step"
"""The failure of a run whose trainer exited with 0 and, though its lines are known, printed no training step."""
NO_NUMBER = "it printed no number with a name"  # why a run is unmeasured whose objective may be chosen later
UNREAD = (METRIC_UNREAD, NO_STEP, EVALUATION_FAILED)
"""The failures of runs that returned 0, and of which nobody read a value."""
NOT_SHOWN = "not_shown"
"""The failure of a run that needs a path of the checkout which its worktree does not show, or not for writing."""
LEFT_TRAINING = "left_training"
"""The cause of a run whose command ended while what it started was still printing steps, and was ended then."""
HUNG_AFTER_END = "its training had ended, and then its process hung until the stall limit"
"""Said of a run that was ended as stalled though its log says that the training is over: judged as a finished one."""
FROM_ITS_PLACE = frozenset({"preempted", "node_failed", "job_gone", "no_heartbeat", "no_exit_record"})  # not its fault
MACHINE = frozenset({"rebooted"})  # the Runner died, with evidence from outside the run
DEVICES = frozenset({"disk", "machine", "disk_full", "gpu_fault"})  # the run's own output tells of them; two are older
CAMPAIGN_STOPPED = "campaign_stopped"
"""The failure of a run that ended because its campaign was stopped: tried again as soon as the campaign goes on."""
CPU_FALLBACK = "cpu_fallback"
"""The failure of a run of a campaign that used no GPU, where the baseline did."""
CONSTRAINT_BROKEN = "constraint_broken"
"""The failure of a run that was measured, and whose numbers break a constraint."""
CONSTRAINT_UNREAD = "constraint_unread"
"""The failure of a run that was measured, and that did not log the metric of a constraint."""
BREACHES = (CONSTRAINT_BROKEN, CONSTRAINT_UNREAD)
EXCUSED = (
    FROM_ITS_PLACE | MACHINE | DEVICES
    | {"runner_died", "launch_interrupted", "lease_busy", "lease_failed", "no_gpu", CAMPAIGN_STOPPED, CPU_FALLBACK}
)  # fmt: skip
"""What says nothing of the idea, nearly all of it the machine's doing: a campaign tries such a run again."""
UNPROVEN = frozenset({"runner_died", "job_gone", "no_heartbeat", "no_exit_record"})
"""Those of them that training code can bring about: by ending its Runner when it sees that it goes badly."""
TAMPERED = "tampered: "  # prefix of a flag that reports tampering


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"  # the trainer exited with 0 by itself
    CRASHED = "crashed"  # it exited with another code, or by a signal that autoresearch did not send
    FIRST_STEP_TIMEOUT = "first_step_timeout"  # no training-metric event within the first-step limit
    MAX_TIME = "max_time"  # ended at the total time limit
    STALLED = "stalled"  # no new event within --stall-timeout
    STOPPED = "stopped"  # on request: `stop`, kill-session, SIGTERM
    LAUNCH_FAILED = "launch_failed"  # the trainer's first instruction was never reached
    LOST = "lost"  # the Runner died without an exit record; never a success

    @property
    def wording(self) -> str:
        """The ending in words for the user."""
        return _WORDING[self]


_WORDING = {
    Ending.FINISHED: "finished by itself",
    Ending.CRASHED: "crashed",
    Ending.FIRST_STEP_TIMEOUT: "no first step in time",
    Ending.MAX_TIME: "cut at its time limit",
    Ending.STALLED: "stalled",
    Ending.STOPPED: "stopped on request",
    Ending.LAUNCH_FAILED: "could not be launched",
    Ending.LOST: "lost: its Runner died without an exit record",
}


class Verdict(StrEnum):
    """The verdict on a hypothesis; the only values of the ledger's `status` column."""

    KEEP = "keep"
    DISCARD = "discard"
    CRASH = "crash"
    UNMEASURED = "unmeasured"  # it returned 0, and nobody read a number of it: neither good nor bad
    SCREENED = "screened"  # clearly behind the baseline early on, or a cheap run: no verdict before it runs whole


WITHOUT_VALUE = (Verdict.CRASH, Verdict.UNMEASURED)
"""The verdicts on runs whose metric counts nowhere."""
PENDING = "pending"
"""What stands for an idea that is owed more runs, in the ledger's column `standing` and wherever people look."""


def lone_verdict(ending: Ending, *, measured: bool, failed: bool = False) -> Verdict:
    """The verdict of a run that is its own campaign.

    It is kept if its metric was read and it ended as intended: by itself, or at `exp_max_time` (reaching that limit is
    a normal end). A run that was stopped or whose job was cancelled is discarded.
    failed: its log, its evaluation or its records show a failure though its trainer returned 0.
    """
    if ending is Ending.FINISHED and not (measured or failed):
        return Verdict.UNMEASURED
    if ending is Ending.STOPPED:
        return Verdict.DISCARD
    judged = ending in (Ending.FINISHED, Ending.MAX_TIME)
    return Verdict.KEEP if judged and measured else Verdict.CRASH


def exit_code(ending: Ending, *, measured: bool, crashed: bool = False) -> int:
    """Exit code of a blocking `run`: 0 measured, 10 crashed, 11 no first step, 12 max time, 13 metric not read.

    measured: also True where nobody named a metric. crashed: it crashed although its trainer exited with 0.
    """
    if ending is Ending.FIRST_STEP_TIMEOUT:
        return 11
    if ending is Ending.MAX_TIME:
        return 12
    if ending is not Ending.FINISHED or crashed:
        return 10
    return 0 if measured else 13
