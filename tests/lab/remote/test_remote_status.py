"""What is told of a run elsewhere, from the files of this machine."""

from __future__ import annotations

import time
from typing import Any

from autoresearch.core.run.spec import RunState
from autoresearch.lab.remote.reconcile import about, clause
from autoresearch.lab.runs.record_lost import record_lost
from autoresearch.lab.runs.run_status import RunWatch, as_payload, seconds_since
from autoresearch.records import recorded_run
from autoresearch.records.files import write_json
from autoresearch.records.recorded_run import RecordedRun


def test_before_anybody_looked(ground: Any) -> None:
    rundir = ground.order()
    told = about(rundir)
    assert (told["place"], told["launcher"], told["job"], told["seen"]) == ("yard", "slurm", None, None)
    assert clause(told, RunState.STARTING) == "yard, not submitted yet"


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
