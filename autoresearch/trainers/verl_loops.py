"""verl's loops: which one a command starts, its default project and experiment, and how many GPUs it takes.

Defaults: verl/trainer/config/ppo_trainer.yaml, sft_trainer_engine.yaml and
verl/experimental/fully_async_policy/config/fully_async_ppo_trainer.yaml (verl-project/verl at 1dda039b).
"""

from __future__ import annotations

from autoresearch.core.run.recipe_keys import product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Recipe
from autoresearch.core.text.regex import later

_LOOP = "verl_loop"  # stored beside the recipe's keys: sft, sft_ray, apart, or missing for PPO on one pool
_PROCESSES = "verl_processes"
_SFT = later(r"\b\w*sft_trainer(?P<ray>_ray)?\b")
_APART = later(r"\bverl[./]experimental[./](?:fully_async_policy|one_step_off_policy)\b")
_TORCHRUN = later(r"--nproc[_-]per[_-]node[= ](?P<n>\d{1,4})\b")
_NODES = later(r"--nnodes[= ](?P<n>\d{1,4})\b")
_BESIDE = (  # separate resource pools: the key that enables one, and the group with its size
    ("reward.reward_model.enable_resource_pool", "reward.reward_model"),
    ("distillation.enabled", "distillation"),
)


def of_command(command: str) -> dict[str, object]:
    """The loop that this command starts, and its number of processes, as keys beside those of the recipe."""
    sft = _SFT.search(command)
    if sft:
        found: dict[str, object] = {_LOOP: "sft_ray" if sft["ray"] else "sft"}
        processes, nodes = _TORCHRUN.search(command), _NODES.search(command)
        if processes:
            found[_PROCESSES] = int(processes["n"]) * (int(nodes["n"]) if nodes else 1)
        return found
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
    if loop == "sft":
        return whole_number(recipe, _PROCESSES)
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
