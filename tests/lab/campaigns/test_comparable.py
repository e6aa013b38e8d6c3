"""What was measured without the GPU stands in no decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.controller.runs_and_retries import tried_again
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.results.collect import collect
from autoresearch.records import exit_record, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir

pytestmark = pytest.mark.system


def ended(row: LedgerRow, used: bool | None, ending: Ending = Ending.FINISHED) -> ExitRecord:
    end = ExitRecord(row.run_id, ending, "", returncode=0, gpu_used=used, gpu_count=1, duration_s=9.0)
    exit_record.write(RunDir(Path(row.run_dir)), end)
    return end


@pytest.mark.parametrize("why", ["first", "confirm"])
@pytest.mark.parametrize(
    ("baseline", "used", "ending", "fell_back"),
    [
        (True, False, Ending.FINISHED, True),
        (True, None, Ending.FINISHED, False),
        (True, True, Ending.FINISHED, False),
        (None, False, Ending.FINISHED, False),
        (False, False, Ending.FINISHED, False),
        (True, False, Ending.CRASHED, False),
    ],
)
def test_a_run_that_fell_back_to_the_cpu_measures_nothing_and_is_tried_again(
    campaign: Callable[..., Any], baseline: bool | None, used: bool | None, ending: Ending, fell_back: bool, why: str
) -> None:
    made = campaign()
    made.idea("other")
    ended(made.state().rows[0], baseline)
    row = made.run("other", 0.99, "discard")
    spec = replace(made.run_spec(row, "other", "m.jsonl"), why=why)
    verdict = made.judged(spec, ended(row, used, ending), 0.99)
    assert (verdict.failure == "cpu_fallback") is fell_back
    assert ("no GPU was used, though 1 was leased, and the baseline used one" in verdict.reason) is fell_back
    if fell_back:
        assert verdict.verdict is Verdict.CRASH
        made.run("other", 0.99, "crash", ending="finished", failure="cpu_fallback")
        idea = made.state().by_slug("other")
        assert idea.values == [0.99] and tried_again(made.state(), idea, idea.rows[-1])


def test_a_lone_run_that_left_its_gpu_idle_says_so_in_its_row(campaign: Callable[..., Any], tmp_path: Path) -> None:
    made = campaign()
    row = made.state().rows[0]
    spec = recorded_run.read(RunDir(Path(row.run_dir)))
    lone = replace(spec, run="lone-000001", ledger=str(tmp_path / "lone.tsv"), gpus=("GPU-1",))
    recorded_run.write(RunDir(Path(row.run_dir)), lone, {})
    ended(replace(row, run_id=lone.run), False)
    outcome = collect(RunDir(Path(row.run_dir)), Index(tmp_path / "index"))
    (found,) = Ledger(tmp_path / "lone.tsv").rows()
    assert found.status == "keep"
    assert found.flags == "no GPU was used, though 1 was leased" and found.flags in outcome.warnings
