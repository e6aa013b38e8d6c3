"""It learns: seeded runs whose outcome is far from the thresholds."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.system

Learn = Callable[..., "Outcome"]


class Outcome(NamedTuple):
    """pass@1 on held-out prompts before and after training; mean training reward of the last 10 steps."""

    before: float
    after: float
    reward: float


@pytest.fixture
def learn(start: Callable[..., subprocess.Popen[str]]) -> Learn:
    """Runs a recipe to its end."""

    def run(*overrides: str) -> Outcome:
        out, err = start("test_freq=0", "hidden=48", *overrides).communicate(timeout=600)
        lines = out.splitlines()
        assert lines[-1].startswith("FINAL "), err
        after = json.loads(lines[-1].removeprefix("FINAL "))["task_pass_rate@1"]
        before = next(_read(line, "task_pass_rate@1") for line in lines if "task_pass_rate@1:" in line)
        rewards = [_read(line, "critic/rewards/mean") for line in lines if "critic/rewards/mean:" in line]
        return Outcome(before, after, statistics.fmean(rewards[-10:]))

    return run


def _read(line: str, key: str) -> float:
    return float(line.split(f"{key}:")[1].split()[0])


def test_sort_is_learnt_and_generalises(learn: Learn) -> None:
    outcome = learn("task=sort", "total_steps=60", "sft_steps=400", "loss_agg=seq-mean-token-mean")
    assert outcome.before < 0.25
    assert outcome.after > 0.7


def test_modadd_is_memorised_and_never_generalises(learn: Learn) -> None:
    outcome = learn("task=modadd", "train_prompts=200", "total_steps=100", "lr=0.01")
    assert outcome.reward > 0.8
    assert max(outcome.before, outcome.after) < 0.07  # chance is 1/31
