"""verl: settings on the command line, its loggers, checkpoints that contaminate."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.trainer import Recipe, Source, SourceFormat
from autoresearch.trainers import registry
from autoresearch.trainers.verl import Verl

VERL = Verl()
COMMAND = (
    "python3 -m verl.trainer.main_ppo data.seed=7 trainer.project_name=p trainer.experiment_name=e "
    'trainer.logger=\'["console","file"]\' actor_rollout_ref.actor.optim.lr=1e-6 trainer.n_gpus_per_node=4 '
    "+trainer.nnodes=2 data.train_files=$HOME/x"
)


def test_the_command_is_a_recipe() -> None:
    found = VERL.settings({}, COMMAND)
    assert VERL.sources(found) == (Source(SourceFormat.JSONL, "p/e.jsonl"),)
    assert VERL.seed(found) == 7
    assert VERL.gpus(found) == 8
    assert set(VERL.space(found)) == {"actor_rollout_ref.actor.optim.lr"}
    assert "data.train_files" not in found
    assert VERL.settings({"data": {"seed": 1}}, "x")["data"] == {"seed": 1}
    assert VERL.seed(VERL.settings({"data": {"seed": 1}}, COMMAND)) == 7


def test_sources() -> None:
    both = {"trainer": {"logger": ["console", "file", "tensorboard"], "experiment_name": "e"}}
    assert VERL.sources(both) == (
        Source(SourceFormat.JSONL, "verl_examples/e.jsonl"),
        Source(SourceFormat.TENSORBOARD, "tensorboard_log/verl_examples/e", 1),
    )


def test_the_supervised_trainer() -> None:
    command = (
        "torchrun --standalone --nnodes=2 --nproc_per_node=8 -m verl.trainer.sft_trainer data.val_files=/v "
        "optim.lr=1e-5 trainer.seed=3 trainer.logger=console"
    )
    found = VERL.settings({}, command)
    assert VERL.objective(found) == Objective("val/loss", Direction.MINIMIZE)
    assert (VERL.gpus(found), VERL.seed(found), VERL.seed_key_in(found)) == (None, None, "")
    assert set(VERL.space(found)) == {"optim.lr"}
    assert VERL.resumes(found) == ("checkpoints/gsm8k-sft/test/latest_checkpointed_iteration.txt",)
    alone = VERL.settings({}, "python -m verl.trainer.sft_trainer_ray trainer.n_gpus_per_node=4")
    assert (VERL.objective(alone), VERL.gpus(alone)) == (Objective("train/loss", Direction.MINIMIZE), 4)


def test_the_objective_is_not_the_penalty() -> None:
    assert VERL.objective({}) == Objective("critic/rewards/mean")
    assert VERL.objective({"algorithm": {"use_kl_in_reward": True}}) == Objective("critic/score/mean")


def test_the_space_has_no_key_without_effect() -> None:
    actor: dict[str, object] = {"optim": {"lr": "1e-6"}, "kl_loss_coef": 0.001}  # YAML 1.1 reads 1e-6 as a text
    lr, kl = "actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.actor.kl_loss_coef"
    assert set(VERL.space({"actor_rollout_ref": {"actor": actor}})) == {lr}
    assert set(VERL.space({"actor_rollout_ref": {"actor": {**actor, "use_kl_loss": True}}})) == {lr, kl}


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        ("python3 -m verl.trainer.main_ppo trainer.nnodes=2", 16),
        (
            "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=4 distillation.enabled=True "
            "distillation.n_gpus_per_node=2 distillation.nnodes=1",
            6,
        ),
        (
            "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=4 "
            "reward.reward_model.enable_resource_pool=True reward.reward_model.nnodes=1",
            12,
        ),
        (
            "python3 -m verl.trainer.main_ppo trainer.v1.trainer_mode=separate_async trainer.n_gpus_per_node=4 "
            "actor_rollout_ref.rollout.nnodes=1",
            8,
        ),
        (
            "python -m verl.experimental.fully_async_policy.fully_async_main trainer.n_gpus_per_node=2 "
            "rollout.n_gpus_per_node=6 rollout.nnodes=1",
            8,
        ),
    ],
)
def test_every_pool_takes_gpus(command: str, gpus: int) -> None:
    assert VERL.gpus(VERL.settings({}, command)) == gpus


@pytest.mark.parametrize(
    ("recipe", "wanted"),
    [
        (
            {"trainer": {"project_name": "p", "experiment_name": "e"}},
            ("checkpoints/p/e/latest_checkpointed_iteration.txt",),
        ),
        ({"trainer.default_local_dir": "/c"}, ("/c/latest_checkpointed_iteration.txt",)),
        ({"trainer.default_local_dir": "/c/${trainer.experiment_name}"}, ()),
        ({"trainer": {"resume_mode": "disable"}}, ()),
        ({"trainer": {"resume_mode": "resume_path"}}, ()),
    ],
)
def test_what_would_be_resumed(recipe: Recipe, wanted: tuple[str, ...]) -> None:
    assert VERL.resumes(recipe) == wanted


@pytest.mark.parametrize(
    ("name", "recipe", "resumes", "gpus"),
    [
        ("nemo_rl", {"checkpointing": {"checkpoint_dir": "/c"}}, ("/c/step_*",), None),
        ("nemo_rl", {"checkpointing": {"checkpoint_dir": "/c", "enabled": False}}, ("/c/step_*",), None),
        ("nemo_rl", {"cluster": {"gpus_per_node": 8, "num_nodes": 2}}, (), 16),
        ("slime", {"save": "/c", "load": "/c"}, ("/c/latest_checkpointed_iteration.txt",), None),
        ("slime", {"save": "/c", "load": "/d", "actor_num_gpus_per_node": 4, "rollout_num_gpus": 4}, (), 8),
        ("slime", {"actor_num_gpus_per_node": 4, "rollout_num_gpus": 4, "colocate": True}, (), 4),
        ("slime", {"actor_num_gpus_per_node": 4, "rollout_num_gpus": 6, "colocate": True}, (), 6),
        ("slime", {"actor_num_gpus_per_node": 4, "rollout_num_gpus": 6, "debug_train_only": True}, (), 4),
        ("openrlhf", {"ckpt.load_enable": True, "ckpt.path": "/c"}, ("/c/_actor",), None),
        ("openrlhf", {"train.colocate_all": True, "actor.num_nodes": 2}, (), 16),
        ("verl", {}, ("checkpoints/verl_examples/gsm8k/latest_checkpointed_iteration.txt",), None),
    ],
)
def test_contamination_and_gpus(name: str, recipe: Recipe, resumes: tuple[str, ...], gpus: int | None) -> None:
    trainer = registry.by_name(name)
    assert trainer.resumes(recipe) == resumes
    assert trainer.gpus(recipe) == gpus
