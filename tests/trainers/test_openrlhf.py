"""OpenRLHF: its logger's lines and no quoted ones, both loops, flags with dots."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.trainers.openrlhf import OpenRlhf
from tests.line_signals import read_line

OPEN = OpenRlhf()


COMMAND = (
    "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray --train.seed 7 "
    "--actor.adam.lr 5e-7 --algo.kl.init_coef=0.01 --train.colocate_all --ckpt.path /c --ckpt.load_enable"
)


def test_flags() -> None:
    found = OPEN.settings({}, COMMAND)
    assert (OPEN.seed(found), OPEN.seed({}), OPEN.seed_key) == (7, 42, "train.seed")
    assert set(OPEN.space(found)) == {"actor.adam.lr", "algo.kl.init_coef"}
    assert OPEN.outputs(found) == (Output("ckpt.output_dir", "model"), Output("ckpt.path", "checkpoints"))
    assert OPEN.arguments({"algo.kl.init_coef": 0.1}) == ("--algo.kl.init_coef", "0.1")


@pytest.mark.parametrize(
    ("recipe", "metric"),
    [
        ({}, "rollout/reward_mean"),
        ({"ckpt.best_metric_key": "eval_aime_pass1"}, "eval_aime_pass1"),
        ({"ckpt": {"best_metric_key": "none"}}, "rollout/reward_mean"),
    ],
)
def test_objective(recipe: Recipe, metric: str) -> None:
    assert OPEN.objective(recipe) == Objective(metric)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("3/8 [00:10<00:10,  2.60s/it, gpt_loss=1.5, lr=5e-6]", ("step", 12, {"gpt_loss": 1.5, "lr": 5e-6})),
        ("0/8 [00:10<?, ?it/s, loss=0.693, acc=0.5]", ("step", 9, {"loss": 0.693, "acc": 0.5})),
        ("8/8 [00:10<00:00,  2.60s/it, gpt_loss=1.5]", None),  # the last one, drawn again
        ("3/8 [00:10<00:10,  2.60s/it]", None),
        ("3/8 [00:10<00:10,  2.60s/it, act_loss=0.1", None),
    ],
)
def test_the_bars_of_other_trainers(line: str, wanted: tuple[str, int, dict[str, float]] | None) -> None:
    reading = read_line(OPEN, f"Train step of epoch 1:  38%|####      | {line}")
    assert (reading and (reading.kind.value, reading.step, dict(reading.metrics))) == wanted


def test_the_bar_of_an_evaluation() -> None:
    done = read_line(OPEN, "Eval stage of steps 40: 100%|####| 2/2 [00:10<00:00,  2.6s/it, eval gpt_loss=1.05]")
    assert done is not None
    assert (done.kind.value, done.step, dict(done.metrics)) == ("validation", 40, {"eval_gpt_loss": 1.05})
    assert read_line(OPEN, "Eval stage of steps 40:  50%|##  | 1/2 [00:10<00:00,  2.6s/it, eval gpt_loss=1.1]") is None


def test_the_other_trainers_and_their_flags() -> None:
    sft = OPEN.settings(
        {}, "deepspeed --num_gpus 4 --module openrlhf.cli.train_sft --adam.lr 5e-6 --eval.dataset /e --eval.steps 40"
    )
    assert OPEN.objective(sft) == Objective("eval_gpt_loss", Direction.MINIMIZE)
    assert (OPEN.gpus(sft), set(OPEN.space(sft))) == (None, {"adam.lr"})
    rm = OPEN.settings({}, "deepspeed --module openrlhf.cli.train_rm --ckpt.load_enable")
    assert (OPEN.objective(rm), OPEN.gpus(rm)) == (Objective("loss", Direction.MINIMIZE), None)
    assert OPEN.resumes(rm) == ("./ckpt/checkpoints_rm/latest",)


@pytest.mark.parametrize(
    ("flags", "gpus"),
    [
        ("--train.colocate_all", 8),
        ("--train.colocate_all --actor.num_nodes 2", 16),
        ("--train.colocate_all --train.async_enable --vllm.num_engines 4 --vllm.tensor_parallel_size 2", 16),
        ("--actor.num_gpus_per_node 4", 4 + 8 + 8 + 8),  # with a reference, a critic and a reward model of eight each
        ("--actor.num_gpus_per_node 4 --algo.kl.init_coef 0 --train.colocate_critic_reward", 4 + 8),
        (
            "--actor.num_gpus_per_node 4 --ref.num_gpus_per_node 4 --algo.advantage.estimator reinforce "
            "--reward.remote_url http://h --vllm.num_engines 2",
            4 + 4 + 2,
        ),
        ("", None),
    ],
)
def test_gpus(flags: str, gpus: int | None) -> None:
    assert OPEN.gpus(OPEN.settings({}, f"python -m openrlhf.cli.train_ppo_ray {flags}")) == gpus


def test_tensorboard_is_called_as_the_console() -> None:
    found = OPEN.sources({"logger.tensorboard_dir": "/t", "logger.wandb.run_name": "a"})
    assert found == (Source(SourceFormat.TENSORBOARD, "/t/a"),)
    assert OPEN.sources({"logger": {"tensorboard_dir": "/t"}}) == (Source(SourceFormat.TENSORBOARD, "/t/*"),)
    names = ["train/rollout/reward_mean", "eval/eval_aime_pass1", "train/kl"]
    assert [OPEN.key_of(name) for name in names] == ["rollout/reward_mean", "eval_aime_pass1", "kl"]
