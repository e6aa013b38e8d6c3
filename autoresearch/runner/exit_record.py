"""Builds the exit record: how and why the run ended, with measurements."""

from __future__ import annotations

import signal

from .basics import SCHEMA, clock, wall
from .limits_and_stops import StopDecision
from .loop import Loop
from .spawn import how_it_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def why_it_ended(decision: StopDecision | None, failure: str, status: int | None) -> StopDecision:
    """Ending, cause and reason: from a stop decision first, else the exit code. `failure`: an error of the Runner."""
    if decision and decision.ending != "launch_failed":
        return decision
    if failure:
        return StopDecision("crashed", "runner_error", failure)
    if decision:
        return decision
    code, number, words = how_it_ended(status)
    if code == 0:
        return StopDecision("finished", "", f"the trainer {words}")
    if number == signal.SIGKILL:
        words += ", not by the Runner: often the out-of-memory killer"
    return StopDecision("crashed", "exit_code" if number is None else "signal", f"the trainer {words}")


def exit_record(run: str, loop: Loop, failure: str, disk_full: str, **more: object) -> dict[str, Any]:
    """The exit record as a JSON object, with `more` entries. `disk_full`: clause naming the full disk; "" for none."""
    status = loop.statuses.get(loop.trainer)
    code, number, _ = how_it_ended(status)
    why, pace, tree = why_it_ended(loop.stopping.decision, failure, status), loop.listener.pace, loop.tree
    error, reason = loop.listener.error, why.reason
    if disk_full and why.ending == "crashed" and not error.get("error_kind"):  # its own message did not fit on the disk
        reason = f"{reason}; {disk_full}"
        error = {"error_kind": "disk_full", "error": disk_full}
    lived = (loop.ended_at or clock()) - pace.started if pace.started else 0.0
    return {
        "schema": SCHEMA,
        "run": run,
        "ending": why.ending,
        "cause": why.cause,
        "reason": reason,
        "returncode": code,
        "signal": number,
        "first_step_s": None if pace.first_s is None else round(pace.first_s, 3),
        "first_step": pace.first_step,
        "kl": pace.kl,
        "last_step": pace.last_step,
        "steps_seen": pace.steps,
        **error,
        "duration_s": round(lived, 3),
        "started": loop.started_wall,
        "ended": loop.ended_wall or wall(),
        "peak_memory_bytes": loop.peak_memory,
        "term_sent": tree.term_sent,
        "kill_sent": tree.kill_sent,
        "left": tree.left,
        "log_bytes_at_stop": loop.stopping.log_bytes,
        **more,
    }
