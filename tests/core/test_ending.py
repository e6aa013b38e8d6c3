"""Facts and judgements, and the exit codes that follow from facts."""

from __future__ import annotations

import pytest

from autoresearch.core.run.ending import Ending, Verdict, exit_code, lone_verdict


@pytest.mark.parametrize(
    ("ending", "measured", "verdict", "code"),
    [
        (Ending.FINISHED, True, Verdict.KEEP, 0),
        (Ending.FINISHED, False, Verdict.UNMEASURED, 13),
        (Ending.CRASHED, True, Verdict.CRASH, 10),
        (Ending.CRASHED, False, Verdict.CRASH, 10),
        (Ending.FIRST_STEP_TIMEOUT, False, Verdict.CRASH, 11),
        (Ending.MAX_TIME, True, Verdict.KEEP, 12),
        (Ending.MAX_TIME, False, Verdict.CRASH, 12),
        (Ending.STALLED, True, Verdict.CRASH, 10),
        (Ending.STOPPED, True, Verdict.DISCARD, 10),
        (Ending.STOPPED, False, Verdict.DISCARD, 10),
        (Ending.LAUNCH_FAILED, False, Verdict.CRASH, 10),
        (Ending.LOST, True, Verdict.CRASH, 10),  # never a success
    ],
)
def test_what_follows_from_an_ending(ending: Ending, measured: bool, verdict: Verdict, code: int) -> None:
    assert lone_verdict(ending, measured=measured) is verdict
    assert exit_code(ending, measured=measured) == code


@pytest.mark.parametrize("ending", list(Ending))
def test_without_a_value_nothing_is_kept_and_what_returned_0_is_unmeasured(ending: Ending) -> None:
    unmeasured = lone_verdict(ending, measured=False) is Verdict.UNMEASURED
    assert unmeasured == (ending is Ending.FINISHED)
    assert lone_verdict(ending, measured=False, failed=True) in (Verdict.CRASH, Verdict.DISCARD)
