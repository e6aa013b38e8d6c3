"""NeMo-RL: blocks whose step stands elsewhere, epochs, the single controller, recipes, limits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.nemo_rl import NemoRl, metric_of, seconds

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
NEMO = NemoRl()
Event = tuple[str, int, dict[str, float]]


def read(path: Path) -> list[Event]:
    found = list(read_source(Source(SourceFormat.CONSOLE, str(path)), Path(), 0, NEMO).readings)
    return [(r.kind.value, r.step, dict(r.metrics)) for r in found]


def said(tmp_path: Path, text: str) -> list[Event]:
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    return read(tmp_path / "run.log")


def mark(what: str, n: int, of: int) -> str:
    return f"\n{'=' * 25} {what} {n}/{of} {'=' * 25}\n"


def step(n: int, of: int, body: str = "  • Loss: 0.5000\n") -> str:
    return f"{mark('Step', n, of)}▶ Training policy...\n\n📊 Training Results:\n{body}\n⏱️  Timing:\n  • Total: 1.00s\n"


def test_steps_begin_again_with_every_epoch(tmp_path: Path) -> None:
    text = "".join(mark("Epoch", e, 3) + step(1, 2) + step(2, 2) for e in (1, 2, 3))
    assert [n for _, n, _ in said(tmp_path, text)] == [1, 2, 3, 4, 5, 6]


def test_a_resumed_run_counts_the_epochs_before(tmp_path: Path) -> None:
    assert [n for _, n, _ in said(tmp_path, mark("Epoch", 3, 3) + step(2, 10) + step(3, 10))] == [22, 23]


def test_the_announced_validation_knows_the_whole_count(tmp_path: Path) -> None:
    body = "  • Loss: 1.0000\n"
    validated = "▶ Starting validation at step 108...\n\n📊 Validation Results:\n    • Accuracy: 0.5000\n"
    text = mark("Epoch", 2, 3) + mark("Step", 8, 50) + validated + "\n📊 Training Results:\n" + body + step(9, 50)
    assert [(kind, n) for kind, n, _ in said(tmp_path, text)] == [("validation", 108), ("step", 108), ("step", 109)]


def test_ppo_and_dynamic_sampling_and_async(tmp_path: Path) -> None:
    body = (
        "  • Policy Loss: tensor(0.25)\n  • Generation KL Error: N/A\n  • Critic Loss: nan\n  • Critic LR: 5.00e-07\n"
        "  • Avg Filtered Reward: 0.7500\n  • Avg Total Reward: 0.2500\n  • Buffer Size: 12\n"
        "  • Avg Trajectory Age: 0.50 steps\n"
    )
    ((kind, n, metrics),) = said(tmp_path, step(7, 20, body))
    assert (kind, n) == ("step", 7)
    assert math.isnan(metrics.pop("train/critic/loss"))
    assert metrics == {
        "train/loss": 0.25,
        "train/critic/lr": 5e-07,
        "train/filtered_reward": 0.75,
        "train/reward": 0.25,
        "train/buffer_size": 12.0,
        "train/avg_trajectory_age": 0.5,
    }


def test_sft_and_named_validation_sets(tmp_path: Path) -> None:
    text = "▶ Starting validation at step 0...\n\n📊 Validation Results:\n    • Validation loss: 2.5000\n"
    text += "▶ Starting validation at step 4 for `hard` set..\n\n📊 Validation Results for `hard` set:\n"
    text += "    • Validation loss: 0.5000\n    • Validation rewards_chosen_mean: 1.0000\n"
    text += "\n  ⏱️  Validation Timing for `hard` set:\n    • Total validation time: 3.00s\n"
    assert said(tmp_path, text) == [
        ("validation", 0, {"validation/val_loss": 2.5}),
        ("validation", 4, {"validation-hard/loss": 0.5, "validation-hard/rewards_chosen_mean": 1.0}),
    ]


def test_the_single_controller(tmp_path: Path) -> None:
    text = "step_metrics={'loss': np.float64(0.5), 'kl_penalty': 0.001, 'who': 'x'}\n"
    text += "train step 3/20  trainer_v=3  lag=1  \n"
    assert said(tmp_path, text) == [("step", 3, {"train/loss": 0.5, "train/kl_penalty": 0.001})]


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
        "checkpoint_must_save_by": "00:03:45:00",
    },
    "logger": {"log_dir": "logs", "tensorboard_enabled": True, "wandb_enabled": False},
    "policy": {"optimizer": {"kwargs": {"lr": 5e-6}}},
    "loss_fn": {"reference_policy_kl_penalty": 0.01},
}


def test_a_recipe() -> None:
    assert NEMO.objective(GRPO) == Objective("validation/accuracy", Direction.MAXIMIZE)
    assert NEMO.sources(GRPO) == (Source(SourceFormat.TENSORBOARD, "logs/exp_*/tensorboard"),)
    assert (NEMO.seed(GRPO), NEMO.seed_key_in(GRPO), NEMO.seed_key) == (42, "grpo.seed", "grpo.seed")
    assert NEMO.time_limit(GRPO) == 3 * 3600 + 45 * 60
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
    assert NEMO.time_limit({}) is None


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
        ("val_reward", "validation/accuracy"),
        ("my_metric", "my_metric"),
    ],
)
def test_metric_names(name: str, wanted: str) -> None:
    assert metric_of(name) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("00:03:45:00", 13500.0),
        ("10:00:00:01", 864001.0),
        (2173501, 10 * 86400.0 + 3 * 3600 + 45 * 60 + 1),  # what YAML 1.1 makes of 10:03:45:01
        ("03:45:00", None),
        ("4h", None),
        (None, None),
        (True, None),
    ],
)
def test_the_form_of_the_limit(value: object, wanted: float | None) -> None:
    assert seconds(value) == wanted
