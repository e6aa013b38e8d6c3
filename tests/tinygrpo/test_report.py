"""The lines and files, read back the way that a monitor would."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import pytest

from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.report import dict_line, jsonl_line, metric_line, open_report

METRICS = {
    "actor/kl_loss": 0.000420001234,
    "actor/pg_loss": float("nan"),
    "actor/lr": 1e-6,
    "training/global_step": 3,
}


def test_a_console_line_is_verls() -> None:
    line = metric_line(3, METRICS)
    assert line == "step:3 - actor/kl_loss:0.000420001 - actor/pg_loss:nan - actor/lr:1e-06 - training/global_step:3"
    match = re.search(r"\bstep:(\d+) - (.*)", line)
    assert match is not None
    pairs = [part.rpartition(":") for part in match[2].split(" - ")]
    read = {key: float(value) for key, _, value in pairs}
    assert read == pytest.approx(METRICS, rel=1e-5, nan_ok=True)


def test_a_jsonl_line_holds_null_for_nan_and_infinity() -> None:
    assert json.loads(jsonl_line(3, {**METRICS, "actor/grad_norm": float("inf")})) == {
        "step": 3,
        "data": {**METRICS, "actor/pg_loss": None, "actor/grad_norm": None},
    }


def test_a_dict_line_is_a_python_literal() -> None:
    assert ast.literal_eval(dict_line({"a": 1, "b": 0.5, "c": "sort_val"})) == {
        "a": 1,
        "b": 0.5,
        "c": "sort_val",
    }


def test_files_are_begun_anew_in_directories_that_may_not_exist(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "b" / name for name in ("val.md", "train.md", "metrics.jsonl")]
    recipe = Recipe(
        val_print_to_markdown_file_path=str(paths[0]),
        train_print_to_markdown_file_path=str(paths[1]),
        metrics_jsonl_path=str(paths[2]),
    )
    for _ in range(2):
        with open_report(recipe, io.StringIO()) as report:
            report.validation(0, {"task_pass_rate@1": 0.5})
            report.training(1, {"actor/kl_loss": 0.1})
    assert [path.read_text() for path in paths] == [
        "{'task_pass_rate@1': 0.5, 'target_dataset_name': 'countdown_val'}\n",
        "{'actor/kl_loss': 0.1}\n",
        '{"step": 0, "data": {"task_pass_rate@1": 0.5}}\n{"step": 1, "data": {"actor/kl_loss": 0.1}}\n',
    ]


def test_every_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with open_report(Recipe(metrics_jsonl_path=str(path)), io.StringIO()) as report:
        report.training(1, {"actor/kl_loss": 0.1})
        assert path.read_text().endswith("}\n")
