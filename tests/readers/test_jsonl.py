"""JSONL files: verl's, tinygrpo's, flat ones, torn ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading
from autoresearch.readers.jsonl import read_jsonl

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"


def read(tmp_path: Path, data: bytes, offset: int = 0) -> list[Reading]:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(data)
    return list(read_jsonl(path, offset))


def kinds(readings: list[Reading]) -> list[tuple[str, int]]:
    return [(r.kind.value, r.step) for r in readings]


def test_the_sample() -> None:
    found = list(read_jsonl(SAMPLES / "tinygrpo.jsonl"))
    assert kinds(found) == [
        ("validation", 0),
        ("step", 1),
        ("step", 2),
        ("validation", 2),
        ("step", 3),
        ("step", 4),
        ("validation", 4),
    ]
    assert found[0].metrics["task_pass_rate@1"] == 0.004883


def test_null_is_nan() -> None:
    last = list(read_jsonl(SAMPLES / "tinygrpo_nan.jsonl"))[-1]
    assert math.isnan(last.metrics["actor/grad_norm"])
    assert last.step == 3


def test_training_and_validation_in_one_object(tmp_path: Path) -> None:
    found = read(tmp_path, b'{"step": 20, "data": {"actor/pg_loss": 0.1, "val-core/a/acc/mean@1": 0.5}}\n')
    assert kinds(found) == [("step", 20), ("validation", 20)]
    assert found[1].metrics == {"val-core/a/acc/mean@1": 0.5}


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b'{"step": 3, "loss": 0.5}', 3),
        (b'{"global_step": 3, "loss": 0.5}', 3),
        (b'{"training/global_step": 3, "loss": 0.5}', 3),
        (b'{"loss": 0.5}', 1),
        (b'{"loss": NaN, "step": 9}', 9),
        (b'{"loss": Infinity, "step": 9}', 9),
    ],
)
def test_flat_objects(tmp_path: Path, line: bytes, step: int) -> None:
    (found,) = read(tmp_path, line + b"\n")
    assert (found.kind.value, found.step) == ("step", step)
    assert "loss" in found.metrics


def test_what_is_no_object_is_skipped(tmp_path: Path) -> None:
    data = (
        b'\n[1]\n"x"\n7\nnull\nnot json\n{"step": 1, "data": {"actor/lr": "text"}}\n\xff\xfe{\n'
        + b"{" * 100_000
        + b'\n{"step": 2, "data": {"actor/lr": 1}}\n{"step": 3, "data": {"actor/lr": 0.'
    )
    assert kinds(read(tmp_path, data)) == [("step", 2)]


def test_a_whole_last_line_without_newline_counts(tmp_path: Path) -> None:
    assert kinds(read(tmp_path, b'{"step": 1, "loss": 1}\n{"step": 2, "loss": 1}')) == [("step", 1), ("step", 2)]


def test_bytes_of_an_earlier_run_and_holes(tmp_path: Path) -> None:
    old, new = b'{"step": 9, "loss": 1}\n', b'\0\0\0{"step": 1, "loss": 1}\n'
    assert kinds(read(tmp_path, old + new, len(old))) == [("step", 1)]


def test_a_missing_file(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []
    assert list(read_jsonl(tmp_path)) == []
