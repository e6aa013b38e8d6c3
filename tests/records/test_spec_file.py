"""spec.json: what is written is what is read, by us and by the Runner."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.errors import EnvironmentUnusable, NotFoundError
from autoresearch.records import exit_record, recorded_run
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.recorded_run import Outcome
from autoresearch.records.rundir import RunDir


@pytest.fixture
def rundir(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_everything_comes_back(rundir: RunDir, spec: RunSpec) -> None:
    defaults = {f.name for f in fields(RunSpec) if getattr(spec, f.name) == f.default}
    assert defaults == {"launcher"}  # the sample fills every other field, so nothing is compared by accident
    recorded_run.write(rundir, spec, {})
    assert recorded_run.read(rundir) == spec


def test_keys_of_another_version_are_ignored(rundir: RunDir, spec: RunSpec) -> None:
    recorded_run.write(rundir, spec, {})
    record = json.loads(rundir.spec.read_text())
    record["new"] = record["limits"]["new"] = record["signals"][0]["new"] = record["sources"][0]["new"] = 1
    del record["notes"], record["limits"]["grace_s"]
    rundir.spec.write_text(json.dumps(record))
    assert recorded_run.read(rundir) == replace(spec, notes="")


def test_a_reader_that_is_a_plug_in_is_a_word(rundir: RunDir, spec: RunSpec) -> None:
    mine = replace(spec, sources=(Source("mine", "/x/log"), Source(SourceFormat.JSONL, "/x/m.jsonl")))
    recorded_run.write(rundir, mine, {})
    assert recorded_run.read(rundir) == mine and recorded_run.read(rundir).sources[1].format is SourceFormat.JSONL


def test_an_extra_key_cannot_replace_one_of_the_spec(rundir: RunDir, spec: RunSpec) -> None:
    with pytest.raises(ValueError, match="command"):
        recorded_run.write(rundir, spec, {"command": "rm"})
    assert not rundir.spec.exists()


def test_a_missing_spec_and_a_damaged_one_give_a_sentence_each(rundir: RunDir, spec: RunSpec) -> None:
    with pytest.raises(NotFoundError, match=r"the run directory is gone \(No such file or directory\)"):
        recorded_run.read(rundir)
    rundir.spec.symlink_to(rundir.spec)  # one of the ways in which a file is there and cannot be read
    with pytest.raises(EnvironmentUnusable, match="cannot be read: Too many levels of symbolic links"):
        recorded_run.read(rundir)
    rundir.spec.unlink()
    recorded_run.write(rundir, spec, {})
    whole = json.loads(rundir.spec.read_text())
    for damaged in (
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        json.dumps({**whole, "limits": 5}).encode(),
        json.dumps({**whole, "signals": [{"kind": "?", "pattern": ""}]}).encode(),
    ):
        rundir.spec.write_bytes(damaged)
        with pytest.raises(NotFoundError, match=r"spec\.json is damaged: .") as caught:
            recorded_run.read(rundir)
        assert caught.value.code == "spec_damaged"


def test_an_outcome_comes_back_with_its_document_where_that_is_now(rundir: RunDir, spec: RunSpec) -> None:
    spec = replace(spec, result_dir=str(rundir.path / "results"))
    document = Path(spec.result_dir) / "results.md"
    recorded_run.write(rundir, spec, {})
    exit_record.write(rundir, end := ExitRecord(spec.run, Ending.FINISHED, ""))
    assert Outcome.load(rundir) is None, "it is not collected"
    row = LedgerRow(1, run_id=spec.run, status="discard", standing="pending", metric_value=0.5)
    outcome = Outcome(rundir, spec, end, row, document, warnings=("a", "b"))
    outcome.write()
    assert Outcome.load(rundir) == outcome
    moved = document.parent / "earlier" / spec.run / document.name
    moved.parent.mkdir(parents=True)
    moved.touch()
    assert Outcome.load(rundir) == replace(outcome, results=moved)
    rundir.collected.write_text('{"verdict": "of a newer version"}')
    assert Outcome.load(rundir) is None


def test_a_directory_that_is_gone_gives_one_sentence(tmp_path: Path, spec: RunSpec) -> None:
    with pytest.raises(EnvironmentUnusable, match=r"spec\.json cannot be written"):
        recorded_run.write(RunDir(tmp_path / "gone"), spec, {})
