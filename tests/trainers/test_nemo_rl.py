"""NeMo-RL: blocks whose step stands elsewhere, names of metrics, recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.nemo_rl import NemoRl, metric_of

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
NEMO = NemoRl()
Event = tuple[str, int, dict[str, float]]


def read(path: Path) -> list[Event]:
    found = list(read_source(Source(SourceFormat.CONSOLE, str(path)), Path(), 0, NEMO).readings)
    return [(r.kind.value, r.step, dict(r.metrics)) for r in found]


def said(tmp_path: Path, text: str) -> list[Event]:
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    return read(tmp_path / "run.log")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    raw = (SAMPLES / "nemo_grpo.log").read_text(encoding="utf-8")
    cut = raw[: raw.rindex("Avg Reward: 0.25") + len("Avg Reward: 0.2")]
    assert said(tmp_path, cut)[-1] == ("step", 2, {"train/loss": 0.0131, "train/gen_kl_error": 0.001})


GRPO: Recipe = {
    "grpo": {"seed": 42, "val_period": 10, "max_num_steps": 20},
    "checkpointing": {
        "enabled": True,
        "checkpoint_dir": "results/grpo",
        "metric_name": "val:accuracy",
        "higher_is_better": True,
    },
    "logger": {"log_dir": "logs", "tensorboard_enabled": True, "wandb_enabled": False},
    "policy": {"optimizer": {"kwargs": {"lr": 5e-6}}},
    "loss_fn": {"reference_policy_kl_penalty": 0.01},
}


def test_a_recipe() -> None:
    assert NEMO.objective(GRPO) == Objective("validation/accuracy", Direction.MAXIMIZE)
    assert NEMO.sources(GRPO) == (Source(SourceFormat.TENSORBOARD, "logs/exp_*/tensorboard"),)
    assert (NEMO.seed(GRPO), NEMO.seed_key_in(GRPO), NEMO.seed_key) == (42, "grpo.seed", "grpo.seed")
    outputs = NEMO.outputs(GRPO)
    assert outputs == (Output("logger.log_dir", "logs"), Output("checkpointing.checkpoint_dir", "checkpoints"))
    assert set(NEMO.space(GRPO)) == {"policy.optimizer.kwargs.lr", "loss_fn.reference_policy_kl_penalty"}


def test_other_algorithms() -> None:
    sft: Recipe = {"sft": {"seed": 7}}
    assert NEMO.objective(sft) == Objective("validation/val_loss", Direction.MINIMIZE)
    assert (NEMO.seed(sft), NEMO.seed_key_in(sft)) == (7, "sft.seed")
    assert NEMO.objective({"dpo": {}}) == Objective("validation-default/loss", Direction.MINIMIZE)
    assert NEMO.objective({"grpo": {}}) == Objective("validation/accuracy", Direction.MAXIMIZE)
    assert NEMO.objective({}) is None
    assert NEMO.objective({"grpo": {}, "async_rl": {}}) == Objective("train/reward")
    teachers: Recipe = {"distillation": {}, "checkpointing": {"metric_name": "train:loss", "higher_is_better": False}}
    assert NEMO.objective(teachers) == Objective("train/loss", Direction.MINIMIZE)


def test_the_command_wins_over_the_recipe() -> None:
    command = "uv run examples/run_grpo.py --config c.yaml grpo.seed=3 ++checkpointing.metric_name=val:pass_k"
    settings = NEMO.settings(GRPO, command)
    assert NEMO.seed(settings) == 3
    assert NEMO.objective(settings) == Objective("validation/pass_k", Direction.MAXIMIZE)
    alone = NEMO.settings({}, "uv run examples/run_sft.py sft.seed=5 'logger.log_dir=/a b' sft.val_period=$P")
    assert (NEMO.seed(alone), alone["logger.log_dir"], "sft.val_period" in alone) == (5, "/a b", False)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("val:accuracy", "validation/accuracy"),
        ("val:val_loss", "validation/val_loss"),
        ("val:total_reward/mean", "validation/total_reward/mean"),
        ("val:validation-default_loss", "validation-default/loss"),
        ("val:validation-hard_set_sft_loss", "validation-hard_set/sft_loss"),
        ("train:reward", "train/reward"),
        ("my_metric", "my_metric"),
    ],
)
def test_metric_names(name: str, wanted: str) -> None:
    assert metric_of(name) == wanted
