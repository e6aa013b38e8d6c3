"""slime: dicts on stderr, counted from 0, with and without KL; flags; a Ray job with a name."""

from __future__ import annotations

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.trainers.slime import Slime

SLIME = Slime()


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
