"""Slurm's states of jobs: rows of squeue, scontrol and sacct, and what each state means for a run.

Formats as Slurm 22.05 prints them (`squeue --Format`, `scontrol show job -o`, `sacct --parsable2`); the states are
those of JOB STATE CODES and JOB REASON CODES in squeue(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import JobState, Observation

NOT_SHARED_EXIT = 66  # of our batch script, if it does not see the run directory
_NO_STDOUT_SIGNAL = 53  # how Slurm records that the node could not open the job's output file
_EXPECTED = ("COMPLETED", "REVOKED")

# A width of 0 means unlimited; the field that may hold anything comes last.
FIELDS = "JobID:0|,State:0|,exit_code:0|,NodeList:0|,Name:0|,Reason:0|,Comment:0"
SACCT_FIELDS = "JobIDRaw,State,ExitCode,NodeList,JobName"

_RUNNING = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"}
_OVER: dict[str, tuple[Ending | None, str, str]] = {  # ending where there is no exit record, cause, reason
    "COMPLETED": (None, "", ""),
    "FAILED": (None, "", ""),
    "REVOKED": (None, "", ""),
    "LAUNCH_FAILED": (None, "", ""),
    "TIMEOUT": (Ending.MAX_TIME, "walltime", "Slurm ended the job at its time limit"),
    "DEADLINE": (Ending.MAX_TIME, "deadline", "Slurm ended the job at its deadline"),
    "PREEMPTED": (Ending.LOST, "preempted", "Slurm preempted the job"),
    "NODE_FAIL": (Ending.LOST, "node_failed", "a node of the job failed"),
    "BOOT_FAIL": (Ending.LAUNCH_FAILED, "node_failed", "a node of the job did not boot"),
    "CANCELLED": (Ending.STOPPED, "cancelled", "the job was cancelled in Slurm"),
    "OUT_OF_MEMORY": (Ending.CRASHED, "oom", "Slurm ended the job: it used more memory than it had asked for"),
}
_FOR_EVER = re.compile(
    r"PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|DependencyNeverSatisfied|BadConstraints|AccountNotAllowed"
    r"|QOSNotAllowed|Invalid(Account|QOS)|ReservationDeleted|(QOS|Assoc|Association)\w*PerJob\w*|QOSMin\w+"
)
HINTS = {
    "PartitionConfig": "the partition cannot serve what is asked for; ask for less, or for another partition",
    "PartitionNodeLimit": "ask for fewer nodes, or for another partition",
    "PartitionTimeLimit": "set `time` of the target to the partition's limit, or a shorter exp_max_time",
    "DependencyNeverSatisfied": "the job that it depends on failed; change `dependency`",
    "AccountNotAllowed": "the partition takes no jobs of this account; change `account` or `partition`",
    "InvalidAccount": "change `account`",
    "InvalidQOS": "change `qos`",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One job as Slurm reports it. `status` is a wait status: exit code * 256 + signal."""

    native: str
    word: str
    status: int = 0
    node: str = ""
    name: str = ""
    reason: str = ""
    comment: str = ""

    @property
    def state(self) -> JobState:
        """The job's state; unknown words (of a newer Slurm) count as pending."""
        if self.word in _RUNNING:
            return JobState.RUNNING
        return JobState.OVER if self.word in _OVER else JobState.PENDING

    @property
    def went_wrong(self) -> bool:
        """Whether the job's output may say why it is over."""
        return self.state is JobState.OVER and self.word not in _EXPECTED

    @property
    def hopeless(self) -> bool:
        """Whether it would wait for ever in its present state."""
        return self.state is JobState.PENDING and bool(_FOR_EVER.fullmatch(self.reason))

    @property
    def not_shared(self) -> bool:
        """Whether the node did not see the run directory."""
        return self.word == "FAILED" and (
            self.status >> 8 == NOT_SHARED_EXIT or (self.status & 127) == _NO_STDOUT_SIGNAL
        )


def rows(text: str) -> Iterator[Row]:
    """The rows of `squeue --noheader --Format=FIELDS`; other lines are skipped."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|", 6)]
        if len(cells) == 7 and cells[0].isdecimal():
            native, word, status, node, name, reason, comment = cells
            yield Row(native, word, int(status) if status.isdecimal() else 0, node, name, _cell(reason), _cell(comment))


def shown(line: str) -> Row | None:
    """The row of `scontrol show job -o`; None without one."""
    found = dict(re.findall(r"(?<!\S)(JobId|JobName|JobState|Reason|ExitCode|NodeList|Comment)=(\S*)", line))
    if "JobId" not in found or "JobState" not in found:
        return None
    return Row(
        found["JobId"],
        found["JobState"],
        _status(found.get("ExitCode", "")),
        _cell(found.get("NodeList", "")),
        found.get("JobName", ""),
        _cell(found.get("Reason", "")),
        _cell(found.get("Comment", "")),
    )


def accounted(text: str) -> Iterator[Row]:
    """The rows of `sacct -X -n -P -o SACCT_FIELDS`; `CANCELLED by 1000` is CANCELLED."""
    for line in text.splitlines():
        cells = line.split("|", 4)
        if len(cells) == 5 and cells[0].isdecimal() and cells[1]:
            yield Row(cells[0], cells[1].split()[0], _status(cells[2]), cells[3].replace("None assigned", ""), cells[4])


def observation(job_row: Row, *, last_words: str = "", for_ever: bool = False) -> Observation:
    """The observation of a row. last_words: of the job's output; for_ever: it has been hopeless for a while."""
    if job_row.state is not JobState.OVER:
        hint = HINTS.get(job_row.reason, "") if job_row.hopeless else ""
        reason = f"{job_row.reason} ({hint})" if hint else job_row.reason
        return Observation(job_row.state, job_row.word, reason, node=job_row.node, hopeless=for_ever)
    ending, cause, why = _OVER[job_row.word]
    if job_row.word == "DEADLINE" and not job_row.node:
        ending = Ending.LAUNCH_FAILED
    if job_row.not_shared:
        ending, cause = Ending.LAUNCH_FAILED, "not_shared"
        node = job_row.node or "its node"
        why = f"{node} does not see the run directory; records must lie on a file system that it shares"
    elif job_row.reason == "BadConstraints":
        why = "Slurm refused it: no node can serve what it asks for"
    elif job_row.word not in _EXPECTED and not why:
        why = f"the job failed with {_code(job_row.status)}"
    if last_words and ending in (None, Ending.LAUNCH_FAILED) and not job_row.not_shared:
        why = f"{why}: {last_words}"
    return Observation(
        JobState.OVER,
        job_row.word,
        why,
        ending=ending,
        cause=cause,
        returncode=job_row.status >> 8 or None,
        outranks=ending not in (None, Ending.LAUNCH_FAILED),
        node=job_row.node,
    )


def _cell(cell: str) -> str:
    return "" if cell in ("(null)", "None", "N/A") else cell


def _status(code: str) -> int:
    """`3:0` and `0:9`: exit code and signal."""
    code, _, number = code.partition(":")
    return (int(code) << 8 if code.isdecimal() else 0) | (int(number) & 127 if number.isdecimal() else 0)


def _code(status: int) -> str:
    return f"exit code {status >> 8}" if status >> 8 and not status & 127 else f"signal {status & 127}"
