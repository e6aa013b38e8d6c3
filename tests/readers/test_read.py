"""The best source of a metric, what the others add, and where they disagree."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import Best, read_source
from autoresearch.trainers import registry
from tests.readers.best_source import read_best

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
RATE = Objective("task_pass_rate@1")
TINY, VERL = registry.by_name("tinygrpo"), registry.by_name("verl")

JSONL = Source(SourceFormat.JSONL, "m.jsonl", 0)
DICTS = Source(SourceFormat.DICT_LINES, "val.md", 1)
LOG = Source(SourceFormat.CONSOLE, "run.log", 100)


def best(tmp_path: Path, objective: Objective | None = RATE, **offsets: int) -> Best:
    named = {"jsonl": "m.jsonl", "dicts": "val.md", "log": "run.log"}
    skip = {named[key]: value for key, value in offsets.items()}
    return read_best([LOG, DICTS, JSONL], skip, trainer=TINY, objective=objective, base=tmp_path)


def test_three_sources_that_agree() -> None:
    sources = [
        Source(SourceFormat.JSONL, "tinygrpo.jsonl", 0),
        Source(SourceFormat.DICT_LINES, "tinygrpo_val.md", 1),
        Source(SourceFormat.CONSOLE, "tinygrpo.log", 100),
    ]
    found = read_best(sources, {}, trainer=TINY, objective=RATE, base=SAMPLES)
    assert found.where == "tinygrpo.jsonl"
    assert found.warnings == ()
    assert RATE.series(found.readings) == [(0, 0.004883), (2, 0.007812), (4, 0.007812)]
    assert [r.step for r in found.readings if r.kind is SignalKind.STEP] == [1, 2, 3, 4]
    for source in sources:
        alone = read_best([source], {}, trainer=TINY, objective=RATE, base=SAMPLES)
        assert RATE.series(alone.readings) == RATE.series(found.readings)


def test_what_a_declared_line_names_and_is_no_number(tmp_path: Path) -> None:
    lines = ("iter 1 loss 0.5, 3\n", "iter 2 loss 0.25, 4\n", "iter two loss 0.1 5\n")
    (tmp_path / "run.log").write_text("".join(lines))
    trainer = registry.by_name("generic", (r"step ^iter (?P<step>\S+) loss (?P<loss>\S+) (?P<n>\d+)",))
    for objective in (Objective("n"), Objective("loss"), None):
        found = read_best([LOG], {}, trainer=trainer, objective=objective, base=tmp_path)
        assert [(r.step, r.metrics) for r in found.readings] == [(1, {"n": 3}), (2, {"n": 4})]
        told = [text.partition(": ")[2] for text in found.warnings if "no source holds" not in text]
        assert told == [
            "where the declared line names `loss`, `0.5,` is no number",
            "where the declared line names `step`, `two` is no step, so the line is left out",
        ]


def test_the_next_source_where_the_best_lacks_the_metric(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 1, "data": {"actor/pg_loss": 0.5}}\n')
    (tmp_path / "val.md").write_text("{'global_steps': 1, 'task_pass_rate@1': 0.25}\n")
    found = best(tmp_path)
    assert found.where == "val.md"
    assert found.warnings == ()
    assert [(r.kind.value, r.step) for r in found.readings] == [("step", 1), ("validation", 1)]


def test_a_disagreement_is_told_and_the_better_source_believed(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 5, "data": {"task_pass_rate@1": 0.25}}\n')
    (tmp_path / "run.log").write_text("step:5 - global_steps:5 - task_pass_rate@1:0.75 - mean_reward:0.5\n")
    found = best(tmp_path)
    assert RATE.series(found.readings) == [(5, 0.25)]
    (warning,) = found.warnings
    assert all(word in warning for word in ("step 5", "0.25", "0.75", "m.jsonl", "run.log"))
    assert found.readings[0].metrics["mean_reward"] == 0.5


@pytest.mark.parametrize(
    ("jsonl", "console", "told"),
    [
        ("0.2504", "0.250", False),
        ("0.25049", "0.25", False),
        ("0.2504", "0.252", True),
        ("null", "nan", False),
        ("null", "inf", False),
        ("null", "0.5", True),
        ("0.5", "nan", True),
        ("123456.7", "123457", False),
    ],
)
def test_rounding_is_no_disagreement(tmp_path: Path, jsonl: str, console: str, told: bool) -> None:
    (tmp_path / "m.jsonl").write_text(f'{{"step": 5, "data": {{"task_pass_rate@1": {jsonl}}}}}\n')
    (tmp_path / "run.log").write_text(f"step:5 - task_pass_rate@1:{console} - mean_reward:0.5\n")
    assert bool(best(tmp_path).warnings) is told


def test_many_disagreements_are_counted(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("".join(f'{{"step": {n}, "task_pass_rate@1": 0.5}}\n' for n in range(9)))
    (tmp_path / "val.md").write_text("".join(f"{{'global_steps': {n}, 'task_pass_rate@1': 0.6}}\n" for n in range(9)))
    warnings = best(tmp_path).warnings
    assert len(warnings) == 1 and "at 8 more steps" in warnings[0]


def test_a_source_that_ends_early_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 5, "task_pass_rate@1": 0.5}\n{"step": 10, "task_pass')
    (tmp_path / "val.md").write_text(
        "{'global_steps': 5, 'task_pass_rate@1': 0.5}\n{'global_steps': 10, 'task_pass_rate@1': 0.6}\n"
    )
    found = best(tmp_path)
    assert RATE.series(found.readings) == [(5, 0.5)]
    assert "step 10" in found.warnings[0]


def test_nowhere(tmp_path: Path) -> None:
    assert best(tmp_path).warnings == ("no source holds task_pass_rate@1; no metric was read at all",)
    (tmp_path / "m.jsonl").write_text('{"step": 5, "task_pass_rate@2": 0.5}\n')
    found = best(tmp_path)
    assert found.where == ""
    assert "task_pass_rate@2" in found.warnings[0]
    assert len(found.readings) == 1


def test_bytes_before_the_offset_belong_to_an_earlier_run(tmp_path: Path) -> None:
    old = "{'global_steps': 50, 'task_pass_rate@1': 0.99}\n"
    (tmp_path / "val.md").write_text(old + "{'global_steps': 1, 'task_pass_rate@1': 0.25}\n")
    found = best(tmp_path, dicts=len(old))
    assert RATE.series(found.readings) == [(1, 0.25)]


def test_counted_steps_and_named_ones_are_two_axes(tmp_path: Path) -> None:
    lines = [f"{{'loss': {1 / n}, 'epoch': {n / 10}}}" for n in (1, 2, 3)]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "m.jsonl").write_text("".join(f'{{"step": {n * 10}, "reward": {n}, "loss": {n}}}\n' for n in (1, 2, 3)))
    sources = [LOG, Source(SourceFormat.JSONL, "m.jsonl", authority=5)]
    for metric, steps in (("reward", [10, 20, 30]), ("epoch", [1, 2, 3])):
        objective = Objective(metric)
        found = read_best(sources, {}, trainer=registry.by_name("generic"), objective=objective, base=tmp_path)
        assert [reading.step for reading in found.readings] == steps and found.warnings == ()
        assert {reading.ordinal for reading in found.readings} == {metric == "epoch"}


def test_nan_reaches_the_objective() -> None:
    loss = Objective("actor/pg_loss")
    source = Source(SourceFormat.CONSOLE, "tinygrpo_nan.log")
    found = read_best([source], {}, trainer=TINY, objective=loss, base=SAMPLES)
    series = loss.series(found.readings)
    assert math.isnan(series[-1][1])
    assert loss.last(series) is None
    assert loss.best(series) is not None


def test_absolute_paths_and_missing_files(tmp_path: Path) -> None:
    source = Source(SourceFormat.JSONL, str(SAMPLES / "tinygrpo.jsonl"))
    assert len(read_source(source, tmp_path, 0, TINY).readings) == 7
    for form in SourceFormat:
        assert read_source(Source(form, "none"), tmp_path, 0, TINY).readings == ()


def odd_files(place: Path) -> dict[str, Path]:
    """What training may put in the place of a metrics file, in `place`, by a word of what is said; "": it is read."""
    place.mkdir()
    inside, outside = place / "real.jsonl", place.parent / "answers.json"
    for path in (inside, outside):
        path.write_text('{"step": 1, "loss": 0.5}\n')
    os.mkfifo(place / "fifo.jsonl")
    with (place / "large.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    found = {"FIFO": place / "fifo.jsonl", "larger": place / "large.jsonl"}
    for name, target in {"device": "/dev/zero", "link to": outside, "": inside}.items():
        found[name] = place / f"link-{name.partition(' ')[0]}.jsonl"
        found[name].symlink_to(target)
    return found


@pytest.mark.parametrize("source_format", [one for one in SourceFormat if one is not SourceFormat.CONSOLE])
def test_what_is_no_plain_file_of_the_run_is_not_read_and_it_is_said(tmp_path: Path, source_format: str) -> None:
    """Nothing waits for it: neither of a FIFO, nor for the end of a terabyte of zeros."""
    for why, path in odd_files(tmp_path / "results").items():
        source = Source(source_format, str(path), 0)
        read = read_source(source, tmp_path, 0, TINY, within=(str(tmp_path / "results"),))
        if why:
            assert not read.readings, why
            if source_format is not SourceFormat.WANDB:
                assert [f"{path} is not read: it is " in text and why in text for text in read.warnings] == [True], why
        elif source_format == SourceFormat.JSONL:
            assert [reading.metrics for reading in read.readings] == [{"loss": 0.5}] and not read.warnings


def test_links_that_trackers_make_are_followed(tmp_path: Path) -> None:
    """W&B's `latest-run`, a trainer's `checkpoints/latest`; without a sandbox out of the results, too."""
    real = tmp_path / "results" / "wandb" / "run-20260101_000000-abc" / "files"
    real.mkdir(parents=True)
    (real / "wandb-history.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    (tmp_path / "results/wandb/latest-run").symlink_to(real.parent.name)
    (tmp_path / "mine").symlink_to(real)
    for where, within in (("results/wandb/latest-run", [str(tmp_path / "results")]), ("mine/..", [])):
        source = Source(SourceFormat.JSONL, f"{where}/files/wandb-history.jsonl")
        assert read_source(source, tmp_path, 0, TINY, within=within).readings, where
