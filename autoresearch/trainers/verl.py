"""verl: PPO and GRPO, with Ray for orchestration and vLLM or SGLang for rollouts.

As of verl-project/verl 1dda039b (and volcengine/verl b178a3cd, its former repository). Formats: verl/utils/tracking.py
(loggers), verl/utils/logger/aggregate_logger.py (console lines), and the progress messages of three loops:
verl/trainer/ppo/v1/trainer_base.py (`trainer.use_v1`, the default), ppo/ray_trainer.py (the old one),
verl/experimental/fully_async_policy (its step is the version of the weights, its lines have a prefix in brackets).
verl/trainer/sft_trainer.py prints the same lines with train/loss and val/loss. Values come as `%.3f`, as plain floats
and as np.float64(...), see `core.metrics.signal`; `step:0` only validates. The KL to the reference is printed with
`use_kl_loss` or `use_kl_in_reward`; actor/ppo_kl, the KL to the sampling policy, always is.

Overrides: in a hydra YAML, or `a.b=c` at the end of the command. Leaves behind: `checkpoints/<project>/<experiment>`,
from which the next run with that name resumes, as `resume_mode` is auto; a Ray that it started itself ends with it. It
has no time limit and saves nothing on a signal; `total_training_steps` ends a run cleanly. The file logger overwrites
its file at every start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import VERL_STEP, VERL_VALIDATION, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import HOLD_S, SILENT_S, CommandFramework, own_directory, words_of

_LOOP = "verl_loop"  # stored beside the recipe's keys: sft, sft_ray, apart, or missing for PPO on one pool
_SFT = later(r"\b\w*sft_trainer(?P<ray>_ray)?\b")
_APART = later(r"\bverl[./]experimental[./](?:fully_async_policy|one_step_off_policy)\b")
_BESIDE = (  # separate resource pools: the key that enables one, and the group with its size
    ("reward.reward_model.enable_resource_pool", "reward.reward_model"),
    ("distillation.enabled", "distillation"),
)
_COMMAND = later(
    r"\bverl(?:\.(?:trainer|experimental|recipe)\b|/(?:trainer|experimental|recipe)/)(?![./]?main_(?:eval|generation))"
    r"|\bmain_ppo\b|\brecipe[./]\w{1,60}[./]main_"
)

_ACTOR = "actor_rollout_ref.actor"


_LINES = (
    VERL_STEP,
    VERL_VALIDATION,
    SignalPattern(
        SignalKind.PROGRESS,
        r"test_gen_batch meta info:"  # a validation batch begins
        r"|Training from scratch"
        r"|(?:engine|manager|dataloader) initialized(?=[\r\n,]|\Z)"  # boot of the current default loop, on stderr
        r"|\[ASYNC MAIN\] |\[FullyAsyncTrainer\] sample collected [1-9]",
        HOLD_S,
        ("test_gen_batch meta info:", "Training from scratch", " initialized", "[ASYNC MAIN] ", "sample collected "),
    ),
    words_of(SignalKind.PROGRESS, ("all initialize finished, ready to fit",), SILENT_S),
)


class Verl(CommandFramework):
    """verl's console, JSONL logger and recipe (hydra YAML, nested or as dotted keys)."""

    name = "verl"
    command = _COMMAND
    imports = later(r"(?m)^\s*(?:from|import)\s+verl\.trainer\b")
    lines = _LINES
    hydra = True
    in_full = "trainer.logger: [console, file]"
    seed_key = "data.seed"  # orders the prompts; sampling has its own actor_rollout_ref.rollout.seed, which is 42
    outputs_named = (
        Output("trainer.default_local_dir", "checkpoints"),
        Output("trainer.rollout_data_dir", "rollouts"),
        Output("trainer.validation_data_dir", "validation"),
    )

    def objective(self, recipe: Recipe) -> Objective | None:
        """The mean training reward, as names of validation metrics depend on data that the recipe does not show.

        If the KL penalty is part of the reward, the reward falls as the policy moves; the score without it is used
        then.
        """
        if is_sft(recipe):
            return Objective("val/loss" if text_of(recipe, "data.val_files") else "train/loss", Direction.MINIMIZE)
        penalised = true_at(recipe, "algorithm.use_kl_in_reward")
        return Objective("critic/score/mean" if penalised else "critic/rewards/mean", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The file logger's JSONL, then TensorBoard's files, if the recipe enables them.

        The environment may redirect them: VERL_FILE_LOGGER_PATH, VERL_FILE_LOGGER_ROOT, TENSORBOARD_DIR.
        """
        project, experiment = names(recipe)
        loggers = _loggers(recipe)
        found = []
        if "file" in loggers:
            found.append(Source(SourceFormat.JSONL, f"{project}/{experiment}.jsonl"))
        if "tensorboard" in loggers:
            found.append(Source(SourceFormat.TENSORBOARD, f"tensorboard_log/{project}/{experiment}", 1))
        return tuple(found)

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's overrides over it, plus its loop."""
        return {**super().settings(recipe, command), **of_command(command)}

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The marker file of a checkpoint under this experiment's name, unless resume_mode excludes it."""
        if text_of(recipe, "trainer.resume_mode") not in ("", "auto"):
            return ()
        folder = text_of(recipe, "trainer.default_local_dir") or "/".join(("checkpoints", *names(recipe)))
        return () if "$" in folder else (f"{folder}/latest_checkpointed_iteration.txt",)

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """The same checkpoint directory, from which `resume_mode: auto` takes the last one."""
        folder = own_directory(recipe, "trainer.default_local_dir")
        settings = {"trainer.default_local_dir": folder, "trainer.resume_mode": "auto"}
        return Continuation(settings, f"{folder}/latest_checkpointed_iteration.txt") if folder else None

    def gpus(self, recipe: Recipe) -> int | None:
        """GPUs of the trainer and of every separate resource pool."""
        return gpus(recipe) if _configured(recipe) or is_sft(recipe) else None

    def seed(self, recipe: Recipe) -> int | None:
        return None if is_sft(recipe) else super().seed(recipe)

    def seed_key_in(self, recipe: Recipe) -> str:
        """Empty for SFT: nothing reads its trainer.seed, and its sampler always starts from 0."""
        return "" if is_sft(recipe) else self.seed_key

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Checkpoints, dumps, and the experiment's name, which all of them use by default."""
        return (*super().outputs(recipe), *([Output("trainer.experiment_name")] if _configured(recipe) else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """The two settings that verl's examples tune first, around the recipe's values; the KL only if it is on."""
        on = true_at(recipe, f"{_ACTOR}.use_kl_loss")
        return around(recipe, f"{_ACTOR}.optim.lr", *([f"{_ACTOR}.kl_loss_coef"] if on else []), "optim.lr")  # SFT's


def _loggers(recipe: Recipe) -> tuple[str, ...]:
    value = look_up(recipe, "trainer.logger")
    if isinstance(value, str):
        return () if "$" in value else tuple(re.findall(r"\w+", value))  # the words of a resolver are not logger names
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def _configured(recipe: Recipe) -> bool:
    """Whether the recipe has verl's `trainer` keys, nested or dotted."""
    return look_up(recipe, "trainer") is not None or any(str(key).startswith("trainer.") for key in recipe)


def of_command(command: str) -> dict[str, object]:
    """The loop that this command starts, as a key beside those of the recipe."""
    sft = _SFT.search(command)
    if sft:
        return {_LOOP: "sft_ray" if sft["ray"] else "sft"}
    return {_LOOP: "apart"} if _APART.search(command) else {}


def is_sft(recipe: Recipe) -> bool:
    """Whether the command behind these settings starts verl's SFT trainer."""
    return text_of(recipe, _LOOP).startswith("sft")


def names(recipe: Recipe) -> tuple[str, str]:
    """Project and experiment, which name files and checkpoints; verl's defaults where the recipe has none."""
    usual = ("gsm8k-sft", "test") if is_sft(recipe) else ("verl_examples", "gsm8k")
    said = (text_of(recipe, "trainer.project_name"), text_of(recipe, "trainer.experiment_name"))
    return (said[0] or usual[0], said[1] or usual[1])


def gpus(recipe: Recipe) -> int | None:
    """GPUs of the trainer plus separate ones for rollouts, reward model and teacher; None if unknown."""
    loop = text_of(recipe, _LOOP)
    if loop == "sft":  # torchrun's
        return None
    usual = 1 if loop == "sft_ray" else 8
    pools = [product(recipe, ("trainer.n_gpus_per_node", usual), ("trainer.nnodes", 1))]
    if loop == "apart":
        pools.append(product(recipe, ("rollout.n_gpus_per_node", 8), ("rollout.nnodes", 1)))
    if text_of(recipe, "trainer.v1.trainer_mode") == "separate_async":
        own = whole_number(recipe, "trainer.n_gpus_per_node") or 8
        keys = ("actor_rollout_ref.rollout.n_gpus_per_node", own), ("actor_rollout_ref.rollout.nnodes", 0)
        pools.append(product(recipe, *keys))
    for switch, pool in _BESIDE:
        if true_at(recipe, switch):
            pools.append(product(recipe, (f"{pool}.n_gpus_per_node", 8), (f"{pool}.nnodes", 0)))
    known = [pool for pool in pools if pool is not None]
    return sum(known) if len(known) == len(pools) else None
