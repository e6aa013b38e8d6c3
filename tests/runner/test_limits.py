"""Limits and signals. A limit that must not fire too early is some seconds, for the sake of a loaded machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.system

VALIDATION = {"kind": "validation", "pattern": r"step:\d+ - val-core/", "hold_s": 300.0}
STEP = r"printf 'step:1 - actor/kl_loss:np.float64(0.25) - x:1\n'"


def with_signals(yard: Any, *more: dict[str, Any]) -> list[dict[str, Any]]:
    spec = json.loads((yard.make("true").dir / "spec.json").read_text())
    return [*spec["signals"], *more]


@pytest.mark.parametrize(
    ("command", "kl"),
    [
        (STEP + "; sleep 1000", 0.25),
        (r"printf '\rstep:1 - actor/kl_loss:0.5\rstep:1 - actor/kl'; sleep 1000", 0.5),
        (r"printf 'step:1 - actor/kl_lo'; sleep 0.3; printf 'ss:0.125\n'; sleep 1000", 0.125),
        (r"printf '\033[36m(T pid=1)\033[0m step:1 - \033[1mactor/kl_loss:2e-4\033[0m\n'; sleep 1000", 2e-4),
        (r"printf 'step:0 - val-core/acc:0.5\nstep:1 - actor/lr:1\n'; sleep 1000", None),
    ],
)
def test_the_first_step_is_seen_at_once(yard: Any, command: str, kl: float | None) -> None:
    live = yard.start(command)
    first = live.event("first_step")
    assert (first["step"], first["kl"]) == (1, kl)
    live.process.terminate()
    record = live.record()
    assert (record["first_step"], record["kl"], record["last_step"]) == (1, kl, 1)
    assert record["first_step_s"] == first["first_step_s"]


def test_validation_holds_it_too_and_is_an_event(yard: Any) -> None:
    command = "echo 'step:0 - val-core/acc:0.5'; sleep 6; " + STEP
    live, record = yard.ended(command, limits={"first_step_s": 5.0}, signals=with_signals(yard, VALIDATION))
    assert (record["ending"], live.names().count("validation")) == ("finished", 1)
    assert "val-core/acc:0.5" in live.event("validation")["text"]


def test_a_step_that_was_printed_but_not_read_yet_counts(yard: Any) -> None:
    """The limit is on what was printed: the log is scanned once more before it fires."""
    patch = "loop.PACE_S = 60.0"  # nothing is read by itself after the first look
    command = "sleep 0.2; yes | head -c 3000000; " + STEP + "; sleep 6"
    live = yard.start(command, patch=patch, limits={"first_step_s": 5.0})
    assert live.record()["ending"] == "finished"


def test_prepare_counts_into_the_time_in_all(yard: Any) -> None:
    live, record = yard.ended("touch started", prepare=["sleep 1000"], limits={"max_s": 0.3})
    assert (record["ending"], record["returncode"], record["duration_s"]) == ("max_time", None, 0.0)
    assert not (yard.root / "started").exists()
    assert "started" not in live.names()


def test_a_stall_is_reported_once_and_so_is_its_end(yard: Any) -> None:
    step = "echo step:$i - actor/x:1; "
    waits = "until [ -e go ]; do sleep 0.05; done"
    command = f"for i in 1 2 3; do {step} sleep 0.05; done; {waits}; for i in 4 5; do {step} done"
    live = yard.start(command, patch="listener.STALL_FLOOR_S = 1.0; listener.STALL_FACTOR = 1")
    live.event("stall")
    (yard.root / "go").touch()
    assert live.record()["ending"] == "finished"
    assert [n for n in live.names() if n in ("stall", "resumed")] == ["stall", "resumed"]


def test_errors_and_nan_are_told_once(yard: Any) -> None:
    error = {"kind": "error", "pattern": r"^(?P<kind>\w+Error): (?P<text>.*)", "hold_s": 0}
    nan = {"kind": "nan", "pattern": r"loss:nan", "hold_s": 0}
    line = r"\033[31mValueError\033[0m: bad \033[1mthing\033[0m\nloss:nan\n"
    loud = f"for i in 1 2 3; do printf '{line}'; sleep 0.15; done"
    live, record = yard.ended(loud, signals=with_signals(yard, error, nan))
    assert [n for n in live.names() if n in ("error", "nan")] == ["error", "nan"]
    assert (live.event("error")["kind"], live.event("error")["text"]) == ("ValueError", "bad thing")
    assert (record["error_kind"], record["error"]) == ("ValueError", "bad thing")


def test_a_kl_of_nan_is_a_nan(yard: Any) -> None:
    live, record = yard.ended("echo 'step:1 - actor/kl_loss:nan'")
    assert (record["kl"], record["first_step"]) == (None, 1)
    assert "nan" in live.names()


def test_the_wall_clock_is_not_trusted(yard: Any) -> None:
    """An hour forth and back, every other time it is asked."""
    jump = "import itertools, time; jumps, true = itertools.cycle((3600, -3600)), time.time; "
    jump += "time.time = lambda: true() + next(jumps)"
    _, record = yard.ended(STEP + "; sleep 0.5; exit 7", patch=jump, limits={"max_s": 600.0})
    assert (record["ending"], record["returncode"]) == ("crashed", 7)
    assert 0.4 < record["duration_s"] < 600
