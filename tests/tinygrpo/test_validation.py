"""pass@k, and the keys of a validation line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autoresearch.tinygrpo.validation import pass_at_k, validation_metrics


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer(n: int) -> None:
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(correct, n, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)


def test_validation_metrics() -> None:
    correct = np.array([[True, True, True, True], [False, False, True, False], [False] * 4])
    rewards = np.where(correct, 1.0, 0.1)
    metrics = validation_metrics(correct, rewards, 25)
    assert list(metrics) == [
        "global_steps",
        "pass_n",
        "total_tasks",
        "num_all_success_tasks",
        "num_pass_n_tasks(pass@4)",
        "task_pass_rate@1",
        "task_pass_rate@2",
        "task_pass_rate@4",
        "mean_reward",
        "std_reward",
    ]
    assert list(metrics.values()) == pytest.approx(
        [25, 4, 3, 1, 2, 5 / 12, (1 + 1 / 2 + 0) / 3, 2 / 3, (5 + 0.7) / 12, 0.9 * (5 / 12 * 7 / 12) ** 0.5],
        abs=1e-6,
    )
