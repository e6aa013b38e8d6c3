"""What is told of a run elsewhere, from the files of this machine."""

from __future__ import annotations

import time
from typing import Any

from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote.reconcile import about, clause
from autoresearch.lab.runs.record_lost import record_lost
from autoresearch.lab.runs.run_status import RunWatch, as_payload, seconds_since
from autoresearch.records import order_file, recorded_run
from autoresearch.records.order_file import Observed
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import write_json


def test_before_anybody_looked(ground: Any) -> None:
    rundir = ground.order()
    told = about(rundir)
    assert (told["place"], told["launcher"], told["job"], told["seen"]) == ("yard", "slurm", None, None)
    assert clause(told, RunState.STARTING) == "yard, not submitted yet"


def test_in_words(ground: Any) -> None:
    rundir = ground.order()
    now = time.time()
    order_file.observe(rundir, Observed("pending", now, "Resources", "PENDING"))
    assert "waits since" in clause(about(rundir), RunState.PENDING)
    more = {"code": "unauthorized", "hint": "set RAY_AUTH_TOKEN"}
    order_file.observe(rundir, Observed("unreachable", now - 75, "401", "", "n3", more))
    told = about(rundir, now=now)
    assert told["unreachable_since"] == now - 75 and told["node"] == "n3"
    words = "yard, not submitted yet on n3, no answer since 75 s: 401 (set RAY_AUTH_TOKEN)"
    assert clause(told, RunState.UNREACHABLE, now=now) == words
    order_file.observe(rundir, Observed("running", now, "", "RUNNING", "n3"))
    assert clause(about(rundir), RunState.RUNNING) == "yard, not submitted yet on n3"
    rundir.looked.touch()
    assert clause(about(rundir), RunState.RUNNING, now=time.time() + 300).endswith(", seen 300 s ago")
    assert clause({}, RunState.RUNNING) == ""


def test_times_of_another_machine(ground: Any) -> None:
    """Its boot clock says nothing here; its wall times were made ours."""
    rundir = ground.order()
    spec, now = recorded_run.read(rundir), time.time()
    assert RunWatch(RecordedRun(rundir, spec)).status().elapsed_s == 0.0
    far = {"started": now - 100.0, "started_boot": 9e9, "trainer_started_boot": 9e9 + 60.0, "boot_id": "another"}
    assert 100.0 <= seconds_since(far, spec) < 160.0
    assert 40.0 <= seconds_since(far, spec, since="trainer_started_boot") < 100.0
    write_json(rundir.runner, far)
    told = as_payload(RunWatch(RecordedRun(rundir, spec)))
    assert 100.0 <= told["elapsed_s"] < 160.0 and told["deadline_s"] <= 200.0 and told["place"] == "yard"


def test_nobody_buries_or_sweeps_a_run_elsewhere(ground: Any) -> None:
    rundir = ground.order()
    write_json(rundir.runner, {"pid": 1, "started": 1.0})
    assert rundir.state(now=time.time() + 1e6) is RunState.STARTING
    record_lost(rundir, reason="it looks dead from here")
    assert not rundir.exit_record.exists()
