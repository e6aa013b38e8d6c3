"""Logs of many programs, read without a declaration: whole, by the readers, and as they grow, by the Runner."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import SourceReadings, read_source
from autoresearch.runner.event_log import EventLog
from autoresearch.runner.listener import Listener
from autoresearch.runner.spec import Spec
from autoresearch.trainers.registry import by_name
from tests.format_samples import HERE, NEAR_MISSES, SAMPLES, Sample


def read(path: Path, metrics: tuple[str, ...] = ()) -> SourceReadings:
    trainer = by_name("generic", metrics=metrics)
    return read_source(Source(SourceFormat.CONSOLE, str(path)), Path("/"), 0, trainer, ended=True)


def heard(log: Path, run_dir: Path, seed: int, metric: str = "") -> Listener:
    """The Runner's listener at the end of a run whose log grew by random pieces."""
    run_dir.mkdir()
    signals = [asdict(one) for one in by_name("generic").signals()]
    spec = Spec({"run": "r", "command": "x", "trainer": "generic", "objective": {"metric": metric}, "signals": signals})
    listener = Listener(str(run_dir), spec, EventLog(str(run_dir), ""))
    listener.learn()
    data, dice, at = log.read_bytes(), random.Random(seed), 0
    while at < len(data):
        piece = dice.randint(1, 4000)
        with (run_dir / "run.log").open("ab") as file:
            file.write(data[at : at + piece])
        at += piece
        listener.scan(60.0)
    listener.finish()
    listener.follower.close()
    return listener


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path.stem)
def test_a_program_that_nobody_declared_is_read(sample: Sample) -> None:
    for metrics in ((), (sample.metric,)):
        assert not sample.faults(read(sample.path, metrics).readings), metrics


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path.stem)
def test_the_runner_sees_the_same_steps_however_the_log_grows(sample: Sample, tmp_path: Path) -> None:
    listener = heard(sample.path, tmp_path / "run", sum(sample.path.stem.encode()))
    assert listener.reader.finder is not None
    steps = listener.pace.first_step, listener.pace.last_step
    if listener.reader.finder.changed_from:  # it took another number first, and told both
        assert steps[1] in {one.last for one in sample.steps}
        assert (tmp_path / "run/events.jsonl").read_text().count('"steps_found"') == 2
    else:
        assert steps in {(one.first, one.last) for one in sample.steps}


def test_an_error_that_is_printed_again_and_again_is_told_once(tmp_path: Path) -> None:
    again = "Traceback (most recent call last):\nValueError: 1\n" * 500
    (tmp_path / "log").write_text(again + "CUDA error: out of memory\n")
    heard(tmp_path / "log", tmp_path / "run", 1)
    told = [line for line in (tmp_path / "run/events.jsonl").read_text().splitlines() if '"event": "error"' in line]
    assert len(told) == 2 and "out of memory" in told[1]


@pytest.mark.parametrize("path", NEAR_MISSES, ids=lambda path: path.stem)
def test_output_without_steps_has_none(path: Path, tmp_path: Path) -> None:
    assert read(path).readings == ()
    assert heard(path, tmp_path / "1", 1).pace.first_step is None


@pytest.mark.parametrize("log", ["loss 1.0|loss 0.5|loss 0.3|loss nan|", "step 1 loss 1|step 2 loss 0.5|loss: NaN|"])
def test_a_loss_that_is_no_number_is_read_though_its_line_holds_no_digit(log: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(log.replace("|", "\n"))
    value = read(tmp_path / "run.log", ("loss",)).readings[-1].metrics["loss"]
    assert value != value


def test_what_was_taken_is_told() -> None:
    sample = next(sample for sample in SAMPLES if sample.path.stem == "iter-pipes")
    assert "`iter`" in read(sample.path).summary


def test_every_log_names_its_source() -> None:
    logs = yaml.safe_load((HERE / "index.yaml").read_text())
    assert {entry["file"] for entry in logs if entry["source"]} == {path.name for path in HERE.glob("*.log")}
    near = yaml.safe_load((HERE / "near-misses" / "index.yaml").read_text())
    assert {name for name, source in near.items() if source} == {path.name for path in NEAR_MISSES}
