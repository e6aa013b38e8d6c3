"""Explain how a run ended and why, whether it hung or exited, and what to try; from its records and log alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.diagnosis.failure import Diagnosis, Failure, FailureKind
from autoresearch.core.diagnosis.kinds import table
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.text.durations import spoken
from autoresearch.lab.results.diagnosis import BADLY, diagnosis, open_stall, words_of
from autoresearch.lab.results.not_shown import diagnosed
from autoresearch.lab.runs.run_status import tail_lines
from autoresearch.records import events, order_file
from autoresearch.records.events import Event
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import FinishedRun, Outcome, RecordedRun

QUIET_S = 10.0  # output older than this at the end counts as silence
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
_DEATHS = {
    Ending.LAUNCH_FAILED: ("not_launched", "it never started"),
    Ending.LOST: ("lost", "how it ended is not known"),
    Ending.STOPPED: ("stopped", "it was stopped"),
}
_ELSEWHERE = {
    "pending": "it waits in the queue of its target",
    "unreachable": "its target does not answer; it may still be running",
}


@dataclass(frozen=True, slots=True)
class Death:
    """Whether a run hung or exited.

    word: exited, killed, cut, stopped, lost, not_launched, running, pending or unreachable.
    silent_s: seconds without any signal before the end, if there were many. quiet_s: seconds without any output before
    it; None if unknown.
    """

    word: str
    hung: bool
    sentence: str
    silent_s: float | None = None
    quiet_s: float | None = None

    @property
    def chatty(self) -> bool:
        """Whether it hung but still printed."""
        return self.hung and self.quiet_s is not None and self.quiet_s < min(QUIET_S, (self.silent_s or 0.0) / 2)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of the end of a run, or of a log."""

    log: Path
    diagnosis: Diagnosis
    tries: tuple[str, ...]
    death: Death | None = None  # None for a lone log
    tail: tuple[str, ...] = ()


def explain_run(recorded: RecordedRun, end: ExitRecord | None, trainer: Trainer, tail: int) -> Explanation:
    """Explain a run; `end` None while it lives: then only its failures so far, and what it waits for."""
    rundir, spec = recorded.rundir, recorded.spec
    happened = events.read(rundir.events)[0]
    if end is None:
        words = words_of(rundir.log, trainer)
        found = diagnosis(words, words.cause)
        death = _living(happened, order_file.observed(rundir))
    else:
        finished = FinishedRun(rundir, spec, end)
        outcome = Outcome.of(finished)
        found = (outcome and outcome.diagnosis) or diagnosed(finished, trainer)
        death = _death(end, happened, rundir.log)
    failed = found.cause is not None and found.cause.kind is FailureKind.EVALUATION_FAILED
    log = rundir.evaluation if failed else rundir.log
    return Explanation(log, found, _tries(found.cause, end, trainer), death, tuple(tail_lines(log, tail)))


def explain_log(log: Path, trainer: Trainer | None, tail: int) -> Explanation:
    """Explain any log, of a known or unknown trainer; a log does not show how its process ended."""
    words = words_of(log, trainer)
    found = diagnosis(words, words.cause)
    return Explanation(log, found, _tries(found.cause, None, trainer), None, tuple(tail_lines(log, tail)))


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


def _living(happened: list[Event], observed: order_file.Observed | None) -> Death:
    """What is known of a run that is not over. observed: what the target of a remote one says."""
    if observed is not None and observed.state in _ELSEWHERE:
        return Death(observed.state, False, f"{_ELSEWHERE[observed.state]}: {observed.reason}".rstrip(": "))
    stall = open_stall(happened)
    if stall is None:
        return Death("running", False, "it is running")
    silent = float(stall.get("silent_s") or 0.0)
    told = f"it is running, but had given no signal for {spoken(silent)} when that was noticed"
    return Death("running", True, told, silent)


def _death(end: ExitRecord, happened: list[Event], log: Path) -> Death:
    if end.ending in _CUT:
        return _cut(end, happened, log)
    by_itself = ("killed", "it did not end by itself") if end.signal else ("exited", "it exited by itself")
    word, how = _DEATHS.get(end.ending, by_itself)
    return Death(word, False, f"{how}: {end.reason}")


def _cut(end: ExitRecord, happened: list[Event], log: Path) -> Death:
    """A run that a limit ended: whether it still made progress, and whether it still printed."""
    decided = next((e for e in happened if e.event == "stopping"), None)
    silent = _silent_s(end, happened, decided)
    quiet = None
    if decided is not None:
        try:
            written = log.stat().st_mtime
            quiet = round(max(0.0, decided.t - written), 1)
        except OSError:
            pass
    how = f"it did not end by itself: {end.reason}"
    if silent is None:
        return Death("cut", False, f"{how}; it was getting on until then", quiet_s=quiet)
    death = Death("cut", True, "", silent, quiet)
    still = "it went on to print, but nothing that counts as progress" if death.chatty else "it hung"
    return replace(death, sentence=f"{how}; {still}, without a signal for {spoken(silent)}")


def _silent_s(end: ExitRecord, happened: list[Event], decided: Event | None) -> float | None:
    """Seconds without a signal before the end; None for a run that made progress."""
    if end.ending is Ending.FIRST_STEP_TIMEOUT:
        return round(end.duration_s, 1)
    limit = next((e for e in happened if e.event == "limit"), None)
    if end.ending is Ending.STALLED:
        return float(limit.get("limit_s") or 0.0) if limit else round(end.duration_s, 1)
    stall = open_stall(happened)
    if stall is None or decided is None:
        return None
    return round(decided.t - stall.t + float(stall.get("silent_s") or 0.0), 1)


def as_payload(explanation: Explanation) -> dict[str, Any]:
    """The flat JSON object. All log text is stripped of escapes and bounded, but still untrusted."""
    cause, death, found = explanation.diagnosis.cause, explanation.death, explanation.diagnosis
    position = _position(cause) if cause else {"line_number": None, "byte_offset": None}
    return {
        "failure": cause.kind.value if cause else None,
        "failure_line": cause.line if cause else None,
        **position,
        "times": cause.times if cause else None,
        "process_name": cause.process or None if cause else None,
        "frame": _frame(cause),
        "note": cause.note or None if cause else None,
        "policy": table().policy(cause.kind) if cause else None,
        "also": [_record(failure) for failure in found.also[:10]],
        "process": death.word if death else None,
        "hung": death.hung if death else None,
        "chatty": death.chatty if death else None,
        "silent_s": death.silent_s if death else None,
        "how": death.sentence if death else None,
        "try": list(explanation.tries),
        "tail": list(explanation.tail),
        "digest": list(found.digest),
        "untrusted": ["failure_line", "frame", "also", "tail", "digest"],
        "log_path": str(explanation.log),
    }


def _position(failure: Failure) -> dict[str, Any]:
    at = failure.position
    return {"line_number": at.number or None, "byte_offset": at.offset if at.offset >= 0 else None}


def _record(failure: Failure) -> dict[str, Any]:
    return {"failure": failure.kind.value, "line": failure.line, "times": failure.times, **_position(failure)}


def _frame(cause: Failure | None) -> dict[str, Any] | None:
    """The frame of an exception: the last one in the user's own code, else the last one."""
    if cause is None or cause.frame is None:
        return None
    at = cause.frame
    return {"path": at.path, "line": at.line, "function": at.function, "own": at.is_own}
