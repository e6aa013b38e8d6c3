"""Numbers that measure different things under one name, or without the GPU, stand in no decision together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch import cli
from autoresearch.core.controller.scheduler import tried_again
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.lab.parts import Parts
from autoresearch.lab.results import row_lookup
from autoresearch.lab.results.collect import collect
from autoresearch.lab.results.compare import compare
from autoresearch.records import campaign_records, exit_record, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.index import Index
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir

pytestmark = pytest.mark.system


@pytest.fixture
def made(campaign: Callable[..., Any]) -> Any:
    """Three runs of a baseline under AgentJet's own trainer, of which an idea wants to be better."""
    made = campaign()
    made.idea("other")
    for row in list(made.state().rows):
        campaign_records.append_row(made.place, replace(row, trainer="agentjet"), again=True)
    return made


def spec_of(made: Any, trainer: str) -> RunSpec:
    row = replace(made.state().rows[0], index=2, run_id="other-000001", run_dir=str(made.place.path / "other-1"))
    return replace(made.run_spec(row, "other", "m.jsonl"), trainer=trainer)


def test_a_run_of_the_other_mode_is_not_judged(made: Any) -> None:
    end = ExitRecord("other-000001", Ending.FINISHED, "")
    verdict = made.judged(spec_of(made, "agentjet_swarm"), end, 0.99)
    assert (verdict.verdict, verdict.judged) == (Verdict.DISCARD, False)
    assert "not judged" in verdict.reason and "reward >= 1" in verdict.reason and "reward > 0" in verdict.reason
    same = made.judged(spec_of(made, "agentjet"), end, 0.99)
    assert same.judged and "not judged" not in same.reason


def test_a_run_that_was_not_judged_does_not_stop_the_others(made: Any) -> None:
    made.run("other", 0.99, "discard", trainer="agentjet_swarm", curve=False)
    made.verdict("smoke", "other", run="other-000001")
    spec = replace(spec_of(made, "agentjet"), run="other-000002")
    assert made.judged(spec, ExitRecord(spec.run, Ending.FINISHED, ""), 0.99).judged


def test_compare_and_ledger_say_so(made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.run("other", 0.99, trainer="agentjet_swarm", curve=False)

    def none(socket: str) -> Any:
        raise AssertionError(socket)

    parts = Parts(environ=os.environ, index=Index(tmp_path / "index"), launcher=none)
    found = compare(row_lookup.find(f"{made.place.path}:1", parts), row_lookup.find(f"{made.place.path}:2", parts))
    assert found["metrics"]["difference"] is None and "measure different things" in found["not_comparable"]
    assert cli.run(["compare", f"{made.place.path}:1", f"{made.place.path}:2"]) == 0
    assert "not compared: task_pass_rate@1 of agentjet (solved is reward >= 1)" in capsys.readouterr().out
    assert cli.run(["ledger", "show", str(made.place.ledger)]) == 0
    assert "warning: not to be compared" in capsys.readouterr().err
    assert cli.run(["ledger", "show", str(made.place.ledger), "--json"]) == 0
    out, err = capsys.readouterr()
    assert '"warning": "not to be compared' in out and not err


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
