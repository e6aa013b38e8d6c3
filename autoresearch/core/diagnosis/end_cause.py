"""Why a run ended, where its own output does not say it, or says only what came of it."""

from __future__ import annotations

from autoresearch.core.diagnosis.failure import Failure
from autoresearch.core.diagnosis.failure_kinds import CERTAIN_KINDS, FailureKind
from autoresearch.core.run.ending import Ending

_FROM_OUTSIDE = frozenset({1, 9, 15})  # HUP, KILL, TERM: what kills by name sends
_OURS = (Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.MAX_TIME, Ending.LAUNCH_FAILED, Ending.FINISHED)


def killed_from_outside(ending: Ending, cause: str, returncode: int | None) -> bool:
    """Whether somebody else's signal ended the trainer or its Runner. returncode: 128 + n for signal n."""
    if ending in _OURS:
        return False
    if ending is Ending.STOPPED:
        return cause in ("sigterm", "sigquit")
    return ending is Ending.LOST or (returncode or 0) - 128 in _FROM_OUTSIDE


def with_the_end(found: Failure | None, ending: Ending, *, killed: bool, kills: str) -> Failure | None:
    """The cause, given how it ended and what the log says.

    found: the log's own root cause. killed: see `killed_from_outside`. kills: the command or line of a script of the
    run that ends processes by name; "" for none. A log that names a certain cause is believed; else such a command is,
    as it ends what it should have left alone; and a run that was cut for its silence, for no reason told, stalled.
    """
    if found is not None and found.line.startswith("KeyboardInterrupt") and (killed or ending is Ending.STOPPED):
        found = None  # the trainer's last word when it is ended
    if found is not None and found.kind in CERTAIN_KINDS:
        return found
    if killed and kills:
        return Failure(FailureKind.KILLED_BY_AUTOKILL, kills)
    if found is None and ending is Ending.STALLED:
        return Failure(FailureKind.STALL, "")
    return found
