"""An idea whose reward never moved is marked and not discarded; replicates without a seed are called so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAINER = """
import sys
recipe = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())
lr = float(recipe["lr"])
for n in range(1, 7):
    reward = 0.5 if lr > 0.4 else n / 10
    print(f"step:{n} - actor/kl_loss:0.001 - critic/rewards/mean:{reward}", flush=True)
rate = 0.01 if lr > 0.2 else 0.5
print(f"step:6 - global_steps:6 - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
"""


def test_a_constant_reward_discards_nothing(camp: Any) -> None:
    (camp.bench.repo / "train.py").write_text(TRAINER)
    (camp.bench.repo / "recipe.yaml").write_text("lr: 0.1\n")
    queue = camp.ideas({"slug": "stuck", "overrides": {"lr": 0.5}}, {"slug": "worse", "overrides": {"lr": 0.3}})
    planned = camp.bench.ask("campaign", camp.file(queue=queue, count=3, baseline=3), "--dry-run")
    assert "nothing fixes data.seed, which verl would take" in planned["plan"]["seeds"]
    state = camp.run(queue=queue, count=3, baseline=3, retests=0, confirm=False)
    stuck, worse = camp.idea("stuck"), camp.idea("worse")
    assert (stuck.rows[0].failure, worse.rows[0].failure) == ("no_signal", "")
    assert "critic/rewards/mean is 0.5 in all 6 steps" in stuck.rows[0].description
    assert (list(stuck.judged), len(worse.judged)) == ([], 1)
    assert [row.seed for row in state.baseline.rows] == [0, 0, 1]
    report = (Path(camp.place.path) / "report.md").read_text()
    assert "Runs are equal, whatever their seed" in report
    assert "No signal (the reward never changed, or the gradient was zero): #2 lr=0.5." in report
