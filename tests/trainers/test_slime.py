"""slime: dicts on stderr, counted from 0, with and without KL; flags; a Ray job with a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.trainers.slime import Slime
from tests.line_signals import read_line

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
SLIME = Slime()
AT = "[2026-04-15 07:58:10] train_metric_utils.py:139 - "


@pytest.mark.parametrize(
    ("line", "kind", "step", "key", "value"),
    [
        (AT + "rollout 7: {'rollout/raw_reward': 0.5}", "step", 7, "rollout/raw_reward", 0.5),
        ("model.py:649 - step 11: {'train/loss': -6.05e-09, 'train/step': 11}", "step", 11, "train/loss", -6.05e-09),
        (AT + "critic-step 3: {'train/critic-value_loss': 0.5}", "step", 3, "train/critic-value_loss", 0.5),
        (AT + "passrate 2: {'passrate/pass@4': 0.25}", "step", 2, "passrate/pass@4", 0.25),
        (AT + "eval 20: {'eval/aime': np.float64(0.4)}", "validation", 20, "eval/aime", 0.4),
    ],
)
def test_lines(line: str, kind: str, step: int, key: str, value: float) -> None:
    reading = read_line(SLIME, line)
    assert reading is not None
    assert (reading.kind.value, reading.step, dict(reading.metrics)) == (kind, step, {key: value})


JOB = (
    "ray job submit --address=http://127.0.0.1:8265 -- python3 train.py --use-kl-loss --kl-loss-coef 0.01 --lr 1e-6 "
    "--eval-interval 20 --eval-prompt-data aime /root/aime.jsonl --save /ckpt/a --load /ckpt/a --rollout-seed 7 "
    '"${MODEL_ARGS[@]}" --colocate'
)


def test_flags() -> None:
    found = SLIME.settings({}, JOB)
    assert (found["use_kl_loss"], found["kl_loss_coef"], found["colocate"]) == (True, 0.01, True)
    assert SLIME.objective(found) == Objective("eval/aime")
    assert SLIME.seed(found) == 7
    assert SLIME.seed({}) == 42
    assert SLIME.outputs(found) == (Output("save", "checkpoints"), Output("load", "checkpoints"))
    assert set(SLIME.space(found)) == {"lr", "kl_loss_coef"}
    assert set(SLIME.space({"lr": 1e-6, "kl_loss_coef": 0.01})) == {"lr"}  # without --use-kl-loss it has no effect
    assert [f.code for f in SLIME.lint_command(JOB)] == ["ray_job_unnamed"]


def test_without_evaluation_the_rollouts_are_the_metric() -> None:
    assert SLIME.objective({}) == Objective("rollout/raw_reward")
    assert SLIME.objective({"eval_prompt_data": "aime"}) == Objective("rollout/raw_reward")
    alone = SLIME.settings({}, "python3 train.py --eval-prompt-data /data/a.jsonl --eval-interval 5")
    assert SLIME.objective(alone) == Objective("eval/aime")  # what slime calls a path without a name


def test_tensorboard() -> None:
    on: Recipe = {"use_tensorboard": True, "tb_project_name": "p", "tb_experiment_name": "e"}
    assert SLIME.sources(on) == (Source(SourceFormat.TENSORBOARD, "tensorboard_log/p/e"),)
    assert SLIME.sources({**on, "tb_experiment_name": None}) == (
        Source(SourceFormat.TENSORBOARD, "tensorboard_log/p/*"),
    )
    assert SLIME.sources({}) == ()
    assert SLIME.arguments({"lr": 1e-06, "use_kl_loss": True, "colocate": False}) == ("--lr", "1e-06", "--use-kl-loss")
