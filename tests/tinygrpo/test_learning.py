"""It learns: a seeded run whose outcome is far from the thresholds."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest


@pytest.mark.system
def test_sort_is_learnt_and_generalises(start: Callable[..., subprocess.Popen[str]]) -> None:
    """pass@1 on held-out prompts, before training and after it."""
    recipe = ("task=sort", "total_steps=60", "sft_steps=400", "loss_agg=seq-mean-token-mean")
    out, err = start("test_freq=0", "hidden=48", *recipe).communicate(timeout=600)
    last = out.splitlines()[-1]
    assert last.startswith("FINAL "), err
    before = re.search(r"task_pass_rate@1:(\S+)", out)
    assert before and float(before[1]) < 0.25
    assert json.loads(last.removeprefix("FINAL "))["task_pass_rate@1"] > 0.7
