"""A campaign that cannot go on says why: before its first run, in `status`, `wait` and `brief`, and when resumed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch.records.rundir import RunDir
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

SPACE = {"lr": {"low": 0.001, "high": 0.1, "log": True}}


def reasons(camp: Any) -> list[str]:
    """What the three commands say of it."""
    status, waited = camp.bench.ask("campaign", "status"), camp.bench.ask("wait", "last-campaign", "--for", "1s")
    assert status["state"] == waited["state"] == "dead"
    return [status["reason"], waited["reason"], camp.bench.ask("campaign", "status", "--full")["brief"][0]]


def test_what_the_proposer_lacks_is_said_before_the_first_run(camp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "optuna" else real(name, *a))
    path = camp.file(space=SPACE, count=4)
    before = camp.bench.picture()
    error = camp.bench.ask("campaign", path, "--yes", "--detach", check=6)["error"]
    assert error["code"] == "no_optuna" and "-m pip install 'optuna>=4'" in error["fix"]
    assert camp.bench.picture() == before


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TypeError("no such thing"), "internal error: TypeError: no such thing in test_own_faults.py, line "),
        (KeyboardInterrupt(), "its controller was interrupted in its own session (Ctrl-C)"),
    ],
)
def test_a_controller_that_ends_on_a_fault_of_its_own_leaves_the_reason(
    camp: Any, error: BaseException, said: str
) -> None:
    from autoresearch.lab.campaigns.controller import Controller

    def broken(self: Any) -> None:
        raise error

    queue = camp.ideas({"slug": "a", "overrides": {"lr": 0.2}})
    with mock.patch.object(Controller, "run", broken), pytest.raises((AssertionError, KeyboardInterrupt)):
        camp.run(queue=queue, count=2, confirm=False)
    assert all(said in reason for reason in reasons(camp))
    assert type(error).__name__ in camp.place.log.read_text()

    camp.bench.ask("campaign", "resume")  # the fault is gone
    assert camp.over().attempted == 2
    assert camp.bench.ask("campaign", "status")["reason"] == "stop condition met: 2/2 ideas attempted"


def test_a_run_gets_its_row_although_its_controller_was_stopped_and_killed_and_nobody_resumes(camp: Any) -> None:
    """Its Runner waits for a controller that lives, and becomes the collector when that is gone."""
    camp.start(queue=camp.ideas({"slug": "held", "overrides": {"mode": "hold"}}), count=2, confirm=False)
    camp.until(lambda: camp.live("held"))
    ((_, run),) = camp.state().live
    rundir = RunDir(Path(run.run_dir))
    controller = json.loads(camp.place.controller.read_bytes())["pid"]
    os.kill(controller, signal.SIGSTOP)
    camp.go.touch()
    camp.bench.until(rundir.exit_record.exists)
    assert not rundir.collected.exists()
    os.kill(controller, signal.SIGKILL)
    camp.bench.until(rundir.collected.exists)
    assert len(ledger_rows(camp.place.ledger, run.run)) == 1


def test_what_cannot_be_resumed_says_why(camp: Any) -> None:
    queue = camp.ideas({"slug": "held", "overrides": {"mode": "hold"}})
    camp.start(queue=queue, count=3, confirm=False)
    camp.until(lambda: camp.live("held"))
    camp.kill()
    assert all("its controller is gone and said nothing" in reason for reason in reasons(camp))

    Path(camp.bench.repo / queue).unlink()
    error = camp.bench.ask("campaign", "resume", check=6)["error"]
    assert error["message"].startswith("one cannot go on: ")
    assert "ideas.yaml: there is no such queue" in error["message"]
    assert all("there is no such queue" in reason for reason in reasons(camp))

    camp.ideas()
    camp.bench.ask("campaign", "resume")
    camp.go.touch()
    camp.phase("waiting")
    camp.bench.ask("campaign", "stop", "--drain")
    camp.over()
