"""Campaigns over the flags of a script that nobody knows: in the command, in a shell script, or only in its help."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAIN = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--batch-size", type=int, default=8, help="(default: 8)")
parser.add_argument("--seed", type=int, default=3, help="of the draws (default: 3)")
parser.add_argument("--weight-decay", type=float, default=0.0)
if os.environ.get("AUTORESEARCH_RUN_ID") is None:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "", "--help sees no GPU"
args = parser.parse_args()
for step in (1, 2, 3):
    score = args.lr + args.batch_size / 1000 - args.weight_decay + args.seed / 1e6
    print(f"step: {step} | loss: 0.5 | score: {score:.6f}", flush=True)
"""
FAST = {"proposer": "grid", "baseline": 1, "retests": 0, "confirm": False}


def project(bench: Any, command: str, **files: str) -> None:
    """exp.md with this command for the script, and these files; committed."""
    (bench.repo / "train.py").write_text(textwrap.dedent(TRAIN))
    for name, text in files.items():
        (bench.repo / name.replace("__", ".")).write_text(text)
    bench.blueprint("ok", command=command, trainer="generic", notes="- step_line: pairs step\n", metric="score")
    bench.commit("a script of one's own")


def test_flags_of_the_command_and_of_the_program_alone(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.1")
    space = {"lr": [0.2, 0.3], "batch_size": [16]}
    plan = camp.bench.ask("campaign", camp.file(space=space, count=3, **FAST), "--dry-run")["plan"]
    assert plan["seeds"].startswith("flag --seed, from 3,")
    state = camp.run(space=space, count=3, **FAST)
    assert [row.command for row in state.rows] == [
        "python train.py --lr 0.1 --seed 3",
        "python train.py --lr 0.2 --batch-size 16 --seed 3",
        "python train.py --lr 0.3 --batch-size 16 --seed 3",
    ], camp.said()
    assert [round(row.metric_value or 0, 3) for row in state.rows] == [0.108, 0.216, 0.316]
    idea = state.ideas[1]
    assert idea.hypothesis.sentence == "lr 0.1 -> 0.2, batch-size 8 -> 16"
    diff = camp.bench.git("diff", f"{state.ideas[0].branch}..{idea.branch}")
    assert "python train.py --lr 0.2 --batch-size 16" in diff, diff
    assert camp.bench.ask("compare", "one:2", "one:3")["config"] == {"lr": [0.2, 0.3]}


def test_flags_and_variables_of_a_shell_script_are_changed_where_they_stand(camp: Any) -> None:
    script = "WD=0.25\nBS=${BS:-8}\npython train.py --lr 0.1 \\\n  --batch-size $BS --weight-decay $WD --seed 5\n"
    project(camp.bench, "bash run.sh", run__sh=script)
    space = {"lr": [0.2], "$WD": [0.5], "$BS": [16, 32]}
    state = camp.run(space=space, count=3, **{**FAST, "baseline": 2})
    values = {(row.index, row.replicate): (row.seed, round(row.metric_value or 0, 6)) for row in state.rows}
    assert values == {
        (1, 1): (5, round(0.1 + 0.008 - 0.25 + 5e-6, 6)),
        (1, 2): (6, round(0.1 + 0.008 - 0.25 + 6e-6, 6)),
        (2, 1): (5, round(0.2 + 0.016 - 0.5 + 5e-6, 6)),
        (3, 1): (5, round(0.2 + 0.032 - 0.5 + 5e-6, 6)),
    }, camp.said()
    diff = camp.bench.git("diff", f"{state.spec.base_commit}..{state.ideas[1].branch}", "--", "run.sh")
    assert "+WD=0.5" in diff and "+python train.py --lr 0.2 \\" in diff and "BS=16" not in diff
    assert "export BS=16; bash run.sh" in camp.bench.git("show", f"{state.ideas[1].branch}:.autoresearch/blueprint.md")


HYDRA = {
    "train.py": """
import hydra
print("a banner")

@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg):
    for step in (1, 2, 3):
        print(f"step: {step} | score: {cfg.model.optimizer.weight_decay + cfg.model.optimizer.lr:.6f}", flush=True)

main()
""",
    "configs/train.yaml": "defaults: [_self_, {model: linear}, {experiment: null}]\nseed: 1\n",
    "configs/model/linear.yaml": "optimizer: {lr: 0.25, weight_decay: 0.0}\nout: ${hydra:runtime.output_dir}\n",
    "configs/experiment/fast.yaml": "# @package _global_\nmodel: {optimizer: {lr: 0.5}}\n",
}


def test_the_keys_of_hydra_are_those_of_the_configuration_that_the_command_composes(camp: Any) -> None:
    pytest.importorskip("hydra")
    for name, text in HYDRA.items():
        (camp.bench.repo / name).parent.mkdir(parents=True, exist_ok=True)
        (camp.bench.repo / name).write_text(text)
    camp.bench.blueprint("ok", command="python train.py experiment=fast", trainer="generic", metric="score")
    camp.bench.commit("a program of hydra")
    wrong = camp.bench.ask("campaign", camp.file(space={"optim.lr": [0.1, 1]}, **FAST), "--dry-run", check=3)["error"]
    assert "did you mean model.optimizer.lr?" in wrong["message"], wrong
    space = {"+model.optimizer.weight_decay": [0.125, 0.25], "model.optimizer.lr": [1.0]}
    state = camp.run(space=space, count=2, **FAST)
    assert [row.command for row in state.rows] == [
        "python train.py experiment=fast",
        "python train.py experiment=fast model.optimizer.weight_decay=0.125",
    ], "its lr stands in configs/experiment/fast.yaml, and is changed there"
    assert [row.metric_value for row in state.rows] == [0.5, 1.125]
    queue = {"queue": camp.ideas({"slug": "more", "overrides": {"model.optimizer.weight_decay": 0.25}}), "count": 2}
    assert camp.bench.ask("campaign", camp.file(prefix="autoresearch/two", **queue), "--dry-run")["state"] == "planned"
