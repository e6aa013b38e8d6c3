"""Which lines of a log look most like a metric's name."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.nearest_lines import nearest_lines

LOG = [
    "loading 8 shards of gsm8k",
    "epoch 1: train loss 0.9",
    "Eval Pass Rate: 41.0%",
    "pass_at_1 = 0.40",
    "pass_at_1 = 0.41",
    "done in 312 s",
    "",
]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("pass_at_k", "pass_at_1 = 0.41"),
        ("eval/pass_rate", "Eval Pass Rate: 41.0%"),
        ("TRAIN_LOSS", "epoch 1: train loss 0.9"),
    ],
)
def test_the_nearest_comes_first(name: str, first: str) -> None:
    found = nearest_lines([name], LOG)
    assert (found[0], len(found)) == (first, 3)


def test_lines_that_differ_in_numbers_alone_are_one() -> None:
    found = nearest_lines(["accuracy"], [f"acuracy: 0.{n}" for n in range(9)] + ["hello", "bye"])
    assert found == ["acuracy: 0.8", "bye", "hello"] or found == ["acuracy: 0.8", "hello", "bye"]
