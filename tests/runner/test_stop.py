"""Stop requests: by file and by signal, now and after the current step."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_a_trainer_that_saves_and_exits_with_0_was_still_stopped(yard: Any, until: Any) -> None:
    live = yard.start("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: b"ready" in live.log())
    live.ask_to_stop(reason="enough")
    record = live.record()
    assert (record["ending"], record["returncode"]) == ("stopped", 0)
    assert b"saved" in live.log()


def test_a_deaf_trainer_is_killed_after_the_grace(yard: Any, until: Any) -> None:
    deaf = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
    live = yard.start(deaf, limits={"grace_s": 0.3})
    until(lambda: b"ready" in live.log())
    live.ask_to_stop(reason="enough")
    record = live.record()
    assert (record["ending"], record["signal"]) == ("stopped", 9)
    assert record["kill_sent"] >= 1


@pytest.mark.parametrize(
    ("number", "ending", "cause"),
    [
        (signal.SIGTERM, "stopped", "sigterm"),
        (signal.SIGINT, "stopped", "sigint"),
        (signal.SIGUSR1, "max_time", "walltime"),  # what a scheduler sends before it ends the job
    ],
)
def test_signals_to_the_runner(yard: Any, number: int, ending: str, cause: str) -> None:
    live = yard.start("sleep 1000")
    live.event("started")
    live.process.send_signal(number)
    record = live.record()
    assert (record["ending"], record["cause"]) == (ending, cause)


def test_a_scheduler_that_signals_both_at_once(yard: Any) -> None:
    """The trainer may die before our own signal arrives; it was stopped all the same."""
    live = yard.start("sleep 1000", patch="runner.SCHEDULER_S = 600.0")
    os.kill(live.event("started")["pid"], signal.SIGTERM)
    live.event("ended")
    live.process.terminate()
    assert live.record()["ending"] == "stopped"


def test_a_trainer_that_somebody_else_terminated_crashed(yard: Any) -> None:
    live = yard.start("sleep 1000")
    os.kill(live.event("started")["pid"], signal.SIGTERM)
    record = live.record()
    assert (record["ending"], record["cause"], record["returncode"]) == ("crashed", "signal", 143)


def test_a_second_interrupt_skips_the_grace(yard: Any, until: Any) -> None:
    live = yard.start("trap '' TERM; echo ready; while :; do sleep 0.05; done", limits={"grace_s": 600.0})
    until(lambda: b"ready" in live.log())
    live.process.send_signal(signal.SIGINT)
    live.event("stopping")
    live.process.send_signal(signal.SIGINT)
    assert live.record()["signal"] == 9


def test_a_stop_before_the_start_and_during_prepare(yard: Any, until: Any) -> None:
    live = yard.make("touch started")
    live.ask_to_stop(reason="changed my mind")
    assert yard.launch(live).record()["ending"] == "stopped"
    live = yard.make("touch started", prepare=["touch preparing; sleep 1000"])
    yard.launch(live)
    until((yard.root / "preparing").exists)
    live.ask_to_stop(reason="changed my mind")
    record = live.record()
    assert (record["ending"], record["returncode"]) == ("stopped", None)
    assert not (yard.root / "started").exists()
