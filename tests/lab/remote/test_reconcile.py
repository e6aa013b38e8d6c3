"""What is concluded from one look and one answer, as tables; each with its near miss."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import DirectoryState, JobState, Observation
from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote.reconcile import (
    BEATS_S,
    FROZEN_S,
    HOPELESS_S,
    LATE_S,
    SAYS_S,
    START_S,
    UNKNOWN_S,
    Memory,
    Settled,
    settle,
)

PENDING, RUNNING = Observation(JobState.PENDING, "PENDING", "Resources"), Observation(JobState.RUNNING, "RUNNING")
OVER, UNKNOWN = Observation(JobState.OVER, "FAILED"), Observation(JobState.UNKNOWN)
FAILED = Observation(JobState.OVER, "NODE_FAIL", "the node died", Ending.LOST, "node_failed")
PREEMPTED = Observation(JobState.OVER, "PREEMPTED", "preempted", Ending.LOST, "preempted", outranks=True)
HOPELESS = Observation(JobState.PENDING, "PENDING", "PartitionNodeLimit", hopeless=True)
NOT_TOLD = Observation(JobState.PENDING, "ImagePullBackOff", "Back-off pulling image", hopeless=None)
NOTHING, CLAIMED = DirectoryState(), DirectoryState(claimed=True)
ALIVE = DirectoryState(claimed=True, alive=True)
BEATING = DirectoryState(claimed=True, beat=1.0)
EVALUATING = DirectoryState(claimed=True, alive=True, evaluating=True)
DONE = DirectoryState(claimed=True, exit={"ending": "finished", "cause": "", "reason": "the trainer exited with 0"})
TERMED = DirectoryState(
    claimed=True, exit={"ending": "stopped", "cause": "sigterm", "reason": "the Runner received SIGTERM"}
)
ASKED = {"how": "now", "reason": "enough", "t": 1.0}

Look = tuple[float, DirectoryState | None, Observation | None]


def after(*looks: Look, asked: Any = None, limit_s: float = 3600.0) -> Settled:
    """What is settled after these looks: (at, seen, said)."""
    memory = Memory()
    for at, seen, said in looks:
        found = settle(memory, seen, said, 1000.0 + at, pending_limit_s=limit_s, stop_request=asked)
    return found


LIVES: list[tuple[str, tuple[Look, ...], RunState]] = [
    ("in the queue", ((0, NOTHING, PENDING),), RunState.PENDING),
    ("in the queue, nearly at the limit", ((0, NOTHING, PENDING), (3599, NOTHING, PENDING)), RunState.PENDING),
    (
        "suspended: the limit is for those that never began",
        ((0, CLAIMED, PENDING), (9999, CLAIMED, PENDING)),
        RunState.PENDING,
    ),
    ("started, its Runner not yet", ((0, NOTHING, RUNNING), (START_S - 1, NOTHING, RUNNING)), RunState.STARTING),
    ("it runs", ((0, ALIVE, RUNNING),), RunState.RUNNING),
    ("it runs, whatever the launcher says", ((0, ALIVE, FAILED), (999, ALIVE, FAILED)), RunState.RUNNING),
    ("no sign of life for a while", ((0, BEATING, RUNNING), (FROZEN_S - 1, BEATING, RUNNING)), RunState.RUNNING),
    ("it is measured", ((0, EVALUATING, RUNNING),), RunState.EVALUATING),
    (
        "its lock says nothing, its heart beats",
        ((0, BEATING, UNKNOWN), (BEATS_S - 1, BEATING, UNKNOWN)),
        RunState.RUNNING,
    ),
    ("over, but the record may be late", ((0, CLAIMED, OVER), (LATE_S - 1, CLAIMED, OVER)), RunState.RUNNING),
    ("over before it showed, perhaps", ((0, NOTHING, OVER), (LATE_S - 1, NOTHING, OVER)), RunState.STARTING),
    ("not listed yet", ((0, NOTHING, UNKNOWN), (UNKNOWN_S - 1, NOTHING, UNKNOWN)), RunState.STARTING),
    ("nobody reaches its files", ((0, ALIVE, RUNNING), (1, None, OVER), (9999, None, OVER)), RunState.UNREACHABLE),
    ("nobody asks its launcher", ((0, NOTHING, None), (9999, NOTHING, None)), RunState.UNREACHABLE),
    ("its launcher is silent, it lives", ((0, ALIVE, None),), RunState.RUNNING),
    ("signalled, and who did it is asked", ((0, TERMED, RUNNING), (SAYS_S - 1, TERMED, UNKNOWN)), RunState.RUNNING),
]


@pytest.mark.parametrize(("looks", "state"), [case[1:] for case in LIVES], ids=[case[0] for case in LIVES])
def test_it_lives(looks: tuple[Look, ...], state: RunState) -> None:
    found = after(*looks)
    assert found.record is None and found.state is state


ENDS: list[tuple[str, tuple[Look, ...], tuple[str, str], bool]] = [
    ("the record says it", ((0, DONE, RUNNING),), ("finished", ""), False),
    ("the record beats the launcher", ((0, DONE, FAILED),), ("finished", ""), False),
    ("the record beats silence", ((0, DONE, None),), ("finished", ""), False),
    ("preempted: the Runner saw a TERM", ((0, TERMED, RUNNING), (1, TERMED, PREEMPTED)), ("lost", "preempted"), False),
    (
        "signalled, and nobody says why",
        ((0, TERMED, UNKNOWN), (SAYS_S, TERMED, UNKNOWN)),
        ("stopped", "sigterm"),
        False,
    ),
    (
        "signalled, and its launcher is silent",
        ((0, TERMED, None), (SAYS_S, TERMED, None)),
        ("stopped", "sigterm"),
        False,
    ),
    ("signalled, the launcher knows no better", ((0, TERMED, OVER),), ("stopped", "sigterm"), False),
    ("the pending limit", ((0, NOTHING, PENDING), (3600, NOTHING, PENDING)), ("launch_failed", "pending_limit"), True),
    (
        "it could never start",
        ((0, NOTHING, HOPELESS), (HOPELESS_S, NOTHING, HOPELESS)),
        ("launch_failed", "never_starts"),
        True,
    ),
    (
        "its image never came, between two tries nothing is said of it",
        ((0, NOTHING, HOPELESS), (59, NOTHING, NOT_TOLD), (HOPELESS_S, NOTHING, NOT_TOLD)),
        ("launch_failed", "never_starts"),
        True,
    ),
    ("over without a record", ((0, CLAIMED, OVER), (LATE_S, CLAIMED, OVER)), ("lost", "no_exit_record"), False),
    (
        "over without a Runner",
        ((0, NOTHING, OVER), (LATE_S, NOTHING, OVER)),
        ("launch_failed", "no_exit_record"),
        False,
    ),
    ("its node died", ((0, BEATING, FAILED), (LATE_S, BEATING, FAILED)), ("lost", "node_failed"), False),
    (
        "its launcher says for ever that it runs, and it gives no sign of life",
        *(((0, BEATING, RUNNING), (FROZEN_S, BEATING, RUNNING)), ("lost", "no_heartbeat"), True),
    ),
    ("gone, its heart still", ((0, BEATING, UNKNOWN), (UNKNOWN_S, BEATING, UNKNOWN)), ("lost", "job_gone"), True),
    ("gone, never begun", ((0, NOTHING, UNKNOWN), (UNKNOWN_S, NOTHING, UNKNOWN)), ("lost", "job_gone"), True),
    (
        "its directory is not seen there",
        ((0, NOTHING, RUNNING), (START_S, NOTHING, RUNNING)),
        ("launch_failed", "not_shared"),
        True,
    ),
]


@pytest.mark.parametrize(("looks", "says", "remove"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_it_ends(looks: tuple[Look, ...], says: tuple[str, str], remove: bool) -> None:
    found = after(*looks)
    assert found.record is not None and found.state is RunState.ENDED
    assert (found.record["ending"], found.record["cause"]) == says
    assert found.remove is remove and found.record["reason"]


@pytest.mark.parametrize(
    "looks",
    [
        ((0, CLAIMED, OVER), (5, None, OVER), (LATE_S, CLAIMED, OVER)),
        ((0, CLAIMED, OVER), (5, CLAIMED, None), (LATE_S, CLAIMED, OVER)),
        ((0, NOTHING, UNKNOWN), (30, NOTHING, None), (UNKNOWN_S, NOTHING, UNKNOWN)),
        ((0, NOTHING, RUNNING), (30, None, None), (START_S, NOTHING, RUNNING)),
        ((0, NOTHING, HOPELESS), (30, NOTHING, PENDING), (HOPELESS_S, NOTHING, HOPELESS)),
        ((0, BEATING, RUNNING), (1, None, None), (9000, None, None), (9001, BEATING, UNKNOWN)),
    ],
)
def test_what_was_timed_begins_anew_after_silence(looks: tuple[Look, ...]) -> None:
    assert after(*looks).record is None


def test_the_queue_is_timed_through_silence() -> None:
    found = after((0, NOTHING, PENDING), (10, NOTHING, None), (3600, NOTHING, PENDING))
    assert found.record is not None and found.record["cause"] == "pending_limit"
    found = after((0, NOTHING, PENDING), (3600, NOTHING, None))
    assert found.record is None, "nobody answers: nothing is concluded"


@pytest.mark.parametrize(
    ("looks", "ends"),
    [
        (((0, NOTHING, OVER),), True),
        (((0, NOTHING, UNKNOWN), (LATE_S, NOTHING, UNKNOWN)), True),
        (((0, NOTHING, UNKNOWN), (LATE_S - 1, NOTHING, UNKNOWN)), False),
        (((0, CLAIMED, OVER), (LATE_S, CLAIMED, OVER)), True),
        (((0, CLAIMED, OVER), (LATE_S - 1, CLAIMED, OVER)), False),
        (((0, NOTHING, PENDING),), False),
        (((0, ALIVE, RUNNING),), False),
    ],
)
def test_it_was_asked_to_stop(looks: tuple[Look, ...], ends: bool) -> None:
    found = after(*looks, asked=ASKED)
    assert (found.record is not None) is ends
    if found.record:
        assert (found.record["ending"], found.record["cause"], found.record["reason"]) == (
            "stopped",
            "stop_request",
            "enough",
        )


def test_a_signal_that_we_asked_for_is_not_asked_about() -> None:
    found = after((0, TERMED, RUNNING), asked=ASKED)
    assert found.record is not None and found.record["ending"] == "stopped"


CANCELLED = Observation(JobState.OVER, "CANCELLED", "cancelled", Ending.STOPPED, "cancelled", outranks=True)
OOM = Observation(JobState.OVER, "OUT_OF_MEMORY", "too much memory", Ending.CRASHED, "memory", outranks=True)


@pytest.mark.parametrize(
    ("exit_record", "said", "cause"),
    [
        ({"ending": "stopped", "cause": "stop_request"}, CANCELLED, "stop_request"),  # ours, and tidied up after it
        ({"ending": "finished", "cause": ""}, CANCELLED, ""),
        ({"ending": "max_time", "cause": "walltime"}, CANCELLED, "walltime"),
        ({"ending": "crashed", "cause": "exit_code", "returncode": 1}, OOM, "exit_code"),
        ({"ending": "crashed", "cause": "signal", "returncode": 139}, OOM, "signal"),  # a segmentation fault is its own
        ({"ending": "crashed", "cause": "signal", "returncode": 137}, OOM, "memory"),
        ({"ending": "stopped", "cause": "sigterm"}, CANCELLED, "cancelled"),
        ({"ending": "stopped", "cause": "sigterm"}, FAILED, "sigterm"),  # what it says is for a run without a record
        ({"ending": "crashed", "cause": "signal", "returncode": 143}, PREEMPTED, "preempted"),
    ],
)
def test_only_a_signal_from_outside_is_outranked(exit_record: dict[str, Any], said: Observation, cause: str) -> None:
    found = after((0, DirectoryState(claimed=True, exit=exit_record), said))
    assert found.record is not None and found.record["cause"] == cause
