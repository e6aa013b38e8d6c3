"""The lines and files, read back the way that a monitor would, and pass@k."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest

from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.training import open_report, pass_at_k, validation_metrics


def test_files_are_begun_anew_in_directories_that_may_not_exist_and_hold_each_line_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "b" / name for name in ("val.md", "train.md", "metrics.jsonl")]
    recipe = Recipe(
        val_print_to_markdown_file_path=str(paths[0]),
        train_print_to_markdown_file_path=str(paths[1]),
        metrics_jsonl_path=str(paths[2]),
    )
    for _ in range(2):
        with open_report(recipe, io.StringIO()) as report:
            report.validation(0, {"task_pass_rate@1": 0.5}, "countdown")
            report.training(1, {"actor/kl_loss": float("inf"), "actor/lr": 0.1})
            assert [path.read_text() for path in paths] == [
                "{'task_pass_rate@1': 0.5, 'target_dataset_name': 'countdown_val'}\n",
                "{'actor/kl_loss': inf, 'actor/lr': 0.1}\n",
                '{"step": 0, "data": {"task_pass_rate@1": 0.5}}\n'
                '{"step": 1, "data": {"actor/kl_loss": null, "actor/lr": 0.1}}\n',
            ]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer(n: int) -> None:
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(correct, n, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


def test_validation_metrics() -> None:
    correct = np.array([[True, True, True, True], [False, False, True, False], [False] * 4])
    metrics = validation_metrics(correct, np.where(correct, 1.0, 0.1), 25)
    names = ("global_steps", "pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks(pass@4)")
    assert list(metrics) == [*names, *(f"task_pass_rate@{k}" for k in (1, 2, 4)), "mean_reward", "std_reward"]
    assert list(metrics.values()) == pytest.approx(
        [25, 4, 3, 1, 2, 5 / 12, (1 + 1 / 2 + 0) / 3, 2 / 3, (5 + 0.7) / 12, 0.9 * (5 / 12 * 7 / 12) ** 0.5],
        abs=1e-6,
    )
