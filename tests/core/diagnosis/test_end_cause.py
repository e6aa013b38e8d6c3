"""Causes that the log does not tell: what kills by name, and silence."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.failure import Failure, killed_from_outside, with_the_end
from autoresearch.core.diagnosis.failure_kinds import FailureKind
from autoresearch.core.run.ending import Ending

KILLS = "the command, line 1: python -m ajet.launcher --autokill"


@pytest.mark.parametrize(
    ("ending", "cause", "returncode", "killed"),
    [
        (Ending.CRASHED, "signal", 143, True),
        (Ending.CRASHED, "signal", 137, True),
        (Ending.CRASHED, "exit_code", 1, False),
        (Ending.CRASHED, "signal", 139, False),  # a segmentation fault is its own
        (Ending.LOST, "runner_died", None, True),
        (Ending.STOPPED, "sigterm", 143, True),
        (Ending.STOPPED, "stop_request", 143, False),  # somebody asked
        (Ending.MAX_TIME, "max_time", 143, False),  # that was us
        (Ending.FINISHED, "", 0, False),
    ],
)
def test_killed_from_outside(ending: Ending, cause: str, returncode: int | None, killed: bool) -> None:
    assert killed_from_outside(ending, cause, returncode) is killed


OOM = Failure(FailureKind.CUDA_OOM, "CUDA out of memory")
ERROR = Failure(FailureKind.PYTHON_ERROR, "SystemExit: 143")
CTRL_C = Failure(FailureKind.PYTHON_ERROR, "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("found", "ending", "killed", "kills", "kind"),
    [
        (None, Ending.CRASHED, True, KILLS, "killed_by_autokill"),
        (ERROR, Ending.CRASHED, True, KILLS, "killed_by_autokill"),
        (OOM, Ending.CRASHED, True, KILLS, "cuda_oom"),
        (None, Ending.LOST, True, KILLS, "killed_by_autokill"),
        (None, Ending.CRASHED, True, "", None),  # killed, but nothing of the run kills by name
        (ERROR, Ending.CRASHED, False, KILLS, "python_error"),  # it ended before the command killed anything
        (None, Ending.STALLED, False, "", "stall"),
        (OOM, Ending.STALLED, False, "", "cuda_oom"),
        (None, Ending.FIRST_STEP_TIMEOUT, False, "", None),
        (CTRL_C, Ending.STOPPED, False, "", None),  # the trainer's last word when it is ended
        (CTRL_C, Ending.LOST, True, "", None),
        (CTRL_C, Ending.CRASHED, False, "", "python_error"),
    ],
)
def test_with_the_end(found: Failure | None, ending: Ending, killed: bool, kills: str, kind: str | None) -> None:
    cause = with_the_end(found, ending, killed=killed, kills=kills)
    assert (cause and cause.kind.value) == kind
    if kind == "killed_by_autokill":
        assert cause is not None
        assert cause.line == KILLS
