"""A campaign over an AgentJet recipe: every run has a name, files and checkpoints of its own."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.system

LAUNCHER = """
import os, sys
import yaml
conf = yaml.safe_load(open(sys.argv[sys.argv.index("--conf") + 1]))
common = conf["ajet"]["trainer_common"]
rate = 0.25 + 10 * common["kl_loss_coef"] + 0.001 * conf["data"]["seed"]
print("step:1 - critic/real_reward:0.500 - actor/kl_loss:0.001", flush=True)
for key, line in (
    ("val_print_to_markdown_file_path", "{'global_steps': 5, 'task_pass_rate@1': %r, 'pass_n': 4}" % rate),
    ("train_print_to_markdown_file_path", "{'actor/kl_loss': 0.1, 'training/global_step': 1}"),
):
    os.makedirs(os.path.dirname(common[key]), exist_ok=True)
    open(common[key], "a+").write(line + chr(10))
"""
RECIPE = """
ajet:
  experiment_name: mine
  data: {train_batch_size: 8}
  trainer_common: {n_gpus_per_node: 1, logger: tensorboard, total_training_steps: 5, test_freq: 5, kl_loss_coef: 0.002}
data: {seed: 3}
defaults: [ajet_default]
hydra: {searchpath: []}
"""
KEY = "ajet.trainer_common.kl_loss_coef"


def test_no_two_runs_share_a_name_or_a_file(camp: Any) -> None:
    bench = camp.bench
    (bench.repo / "ajet").mkdir()
    (bench.repo / "ajet" / "launcher.py").write_text(textwrap.dedent(LAUNCHER))
    (bench.repo / "agent.yaml").write_text(RECIPE)
    bench.blueprint("ok", command="python -m ajet.launcher --conf agent.yaml", trainer="agentjet", recipe="agent.yaml")
    bench.commit("a trainer")
    state = camp.run(space={KEY: [0.001, 0.004]}, proposer="grid", count=2, retests=0, confirm=False)
    rows = state.rows
    assert [row.index for row in rows] == [1, 1, 2]
    recipes = [yaml.safe_load(bench.git("show", f"{row.commit}:agent.yaml"))["ajet"] for row in rows]
    names = {recipe["experiment_name"] for recipe in recipes}
    assert len(names) == 3 and "mine" not in names
    for row, recipe in zip(rows, recipes, strict=True):
        common = recipe["trainer_common"]
        assert common["val_print_to_markdown_file_path"] == f"{row.result_dir}/validation.md"
        assert common["train_print_to_markdown_file_path"] == f"{row.result_dir}/training.md"
        assert Path(row.result_dir, "training.md").read_text().count("\n") == 1
        wanted = 0.25 + 10 * common["kl_loss_coef"] + 0.001 * (row.seed or 0)
        assert row.metric_value is not None and abs(row.metric_value - wanted) < 1e-9  # the console has none
        assert (row.metric_name, row.metric_step) == ("task_pass_rate@1", 5)  # no line names a step
    assert sorted(row.seed for row in rows) == [3, 3, 4]
