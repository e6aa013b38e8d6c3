"""A trainer whose steps nobody knows: its default first-step limit runs from the last new output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner import limits_and_stops as deciding
from autoresearch.runner import listener as listening
from autoresearch.runner.event_log import EventLog
from autoresearch.runner.limits_and_stops import Stopping
from autoresearch.runner.listener import Listener
from autoresearch.runner.spec import Spec

MINUTE = 60.0


class Watched:
    """A Runner's ears and its decision, on a log that the test writes and a clock that it turns."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.now = 1000.0
        for module in (listening, deciding):
            monkeypatch.setattr(module, "clock", lambda: self.now)
        step = {"kind": "step", "pattern": r"^step: (?P<step>\d+) loss", "needles": ["step:"]}
        given = {"first_step_s": 20 * MINUTE, "first_step_cap_s": 120 * MINUTE, "first_step_since_output": True}
        spec = Spec({"run": "r", "command": "x", "signals": [step], "limits": given | limits})
        self.log = directory / "run.log"
        self.log.write_bytes(b"")
        event_log = EventLog(str(directory), "")
        self.listener = Listener(str(directory), spec, event_log)
        self.listener.learn()
        self.stopping = Stopping(str(directory), spec, event_log, self.listener)
        self.listener.pace.start(self.now)

    def passes(self, seconds: float, printed: bytes = b"") -> str:
        """So much later, with this in the log by then: the ending that was decided, "" for none."""
        self.now += seconds
        with self.log.open("ab") as log:
            log.write(printed)
        self.stopping.check_limits()
        return self.stopping.decision.ending if self.stopping.decision else ""


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda **limits: Watched(tmp_path, monkeypatch, **limits)


@pytest.mark.parametrize("line", [b"epoch 1, all well\n", b".", b"\r 10%", b"\xff\n", b"\n"])
def test_each_output_begins_the_clock_again(watched: Any, line: bytes) -> None:
    run = watched()
    for _ in range(30):  # ten hours: the cap of two says nothing here
        assert run.passes(19 * MINUTE, line) == ""
    assert run.passes(21 * MINUTE) == "first_step_timeout"
    assert run.stopping.decision.reason == "no step is known, and nothing new was printed in time (limit 1200 s)"


def test_a_step_that_is_recognised_ends_the_clock(watched: Any) -> None:
    run = watched()
    assert run.passes(MINUTE, b"step: 1 loss 0.5\n") == ""
    run.listener.scan(1.0)
    assert run.passes(600 * MINUTE) == ""
