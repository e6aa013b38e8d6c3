"""Explain how a run ended and why, and what to try; from its records and log alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.diagnosis.failure import Diagnosis, Failure, FailureKind, LogPosition, table
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.text.durations import spoken
from autoresearch.lab.results.diagnosis import BADLY, open_stall, words_of
from autoresearch.lab.results.finished_run import diagnosed
from autoresearch.lab.runs.run_status import tail_lines
from autoresearch.records import events, order_file
from autoresearch.records.events import Event
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import FinishedRun, Outcome, RecordedRun

_CUT = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME)
_SIGNALS = {
    9: "it was killed with SIGKILL: look for the kernel's out-of-memory killer (dmesg -T | grep -i oom)",
    15: "something outside sent SIGTERM: a scheduler, a person, or a command that kills by name",
    6: "it aborted itself: the C++ line before the end says why",
    11: "run again with PYTHONFAULTHANDLER=1 to see the frame; check library versions",
}
_ADVICE = {
    Ending.FIRST_STEP_TIMEOUT: (
        "look at the end of the log: did it still load, compile or validate? then raise --first-step-timeout",
        "if it printed steps, they were not recognised: name the trainer in the notes (`- trainer: ...`)",
    ),
    Ending.LAUNCH_FAILED: ("fix what the reason names, then run that command by hand in the codebase to check it",),
    Ending.LOST: ("something killed the Runner with -9, or the machine went down: see `uptime`, `dmesg`",),
}
_HOW = {
    Ending.LAUNCH_FAILED: "it never started",
    Ending.LOST: "how it ended is not known",
    Ending.STOPPED: "it was stopped",
    **dict.fromkeys(_CUT, "it did not end by itself"),
}
_ELSEWHERE = {
    "pending": "it waits in the queue of its target",
    "unreachable": "its target does not answer; it may still be running",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of the end of a run, or of a log."""

    log: Path
    diagnosis: Diagnosis
    tries: tuple[str, ...]
    how: str = ""  # it ended, or what it waits for: a sentence; "" for a lone log
    tail: tuple[str, ...] = ()


def explain_run(recorded: RecordedRun, end: ExitRecord | None, trainer: Trainer, tail: int) -> Explanation:
    """Explain a run; `end` None while it lives: then only its failures so far, and what it waits for."""
    rundir, spec = recorded.rundir, recorded.spec
    happened = events.read(rundir.events)[0]
    if end is None:
        found = words_of(rundir.log, trainer)
        how = _living(happened, order_file.observed(rundir))
    else:
        finished = FinishedRun(rundir, spec, end)
        outcome = Outcome.of(finished)
        found = (outcome and outcome.diagnosis) or diagnosed(finished, trainer)
        how = _ended(end, happened)
    failed = found.cause is not None and found.cause.kind is FailureKind.EVALUATION_FAILED
    log = rundir.evaluation if failed else rundir.log
    return Explanation(log, found, _tries(found.cause, end, trainer), how, tuple(tail_lines(log, tail)))


def explain_log(log: Path, trainer: Trainer | None, tail: int) -> Explanation:
    """Explain any log, of a known or unknown trainer; a log does not show how its process ended."""
    found = words_of(log, trainer)
    return Explanation(log, found, _tries(found.cause, None, trainer), tail=tuple(tail_lines(log, tail)))


def _tries(cause: Failure | None, end: ExitRecord | None, trainer: Trainer | None) -> tuple[str, ...]:
    if cause is not None:
        return table().suggestions(cause.kind, trainer.name if trainer else "")
    if end is None or end.ending not in BADLY:
        return ()
    number = end.signal or ((end.returncode or 0) - 128)
    if end.ending is Ending.CRASHED and number in _SIGNALS:
        return (_SIGNALS[number],)
    unknown = "no line of the log says why: run the command by hand in the worktree, and read the whole log"
    return _ADVICE.get(end.ending, (unknown,))


def _living(happened: list[Event], observed: order_file.Observed | None) -> str:
    """What is known of a run that is not over. observed: what the target of a remote one says."""
    if observed is not None and observed.state in _ELSEWHERE:
        return f"{_ELSEWHERE[observed.state]}: {observed.reason}".rstrip(": ")
    if (stall := open_stall(happened)) is None:
        return "it is running"
    return f"it is running, but had given no signal for {spoken(_silent_s(stall))} when that was noticed"


def _ended(end: ExitRecord, happened: list[Event]) -> str:
    """How a run ended; of one that its time in all cut, also whether it was getting on until then."""
    by_itself = "it did not end by itself" if end.signal else "it exited by itself"
    how = f"{_HOW.get(end.ending, by_itself)}: {end.reason}"
    if end.ending is not Ending.MAX_TIME:
        return how
    stall, decided = open_stall(happened), next((e for e in happened if e.event == "stopping"), None)
    if stall is None or decided is None:
        return f"{how}; it was getting on until then"
    return f"{how}; it hung, without a signal for {spoken(decided.t - stall.t + _silent_s(stall))}"


def _silent_s(stall: Event) -> float:
    return float(stall.get("silent_s") or 0.0)


def as_payload(explanation: Explanation) -> dict[str, Any]:
    """The flat JSON object. All log text is stripped of escapes and bounded, but still untrusted."""
    cause, found = explanation.diagnosis.cause, explanation.diagnosis
    at = cause.position if cause else LogPosition()
    return {
        "failure": cause.kind.value if cause else None,
        "failure_line": cause.line if cause else None,
        "line_number": at.number or None,
        "byte_offset": at.offset if at.offset >= 0 else None,
        "times": cause.times if cause else None,
        "process_name": cause.process or None if cause else None,
        "frame": _frame(cause),
        "note": cause.note or None if cause else None,
        "policy": table().policy(cause.kind) if cause else None,
        "how": explanation.how or None,
        "try": list(explanation.tries),
        "tail": list(explanation.tail),
        "digest": list(found.digest),
        "untrusted": ["failure_line", "frame", "tail", "digest"],
        "log_path": str(explanation.log),
    }


def _frame(cause: Failure | None) -> dict[str, Any] | None:
    """The frame of an exception: the last one in the user's own code, else the last one."""
    if cause is None or cause.frame is None:
        return None
    at = cause.frame
    return {"path": at.path, "line": at.line, "function": at.function, "own": at.is_own}
