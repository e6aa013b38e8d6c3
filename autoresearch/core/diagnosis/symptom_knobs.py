"""Knobs: the recipe key of the same setting in each framework, so that hypotheses can name concrete keys.

Key names from verl (volcengine/verl at b178a3cd, trainer/config), TRL (huggingface/trl at f2cd5771, GRPOConfig),
NeMo-RL (NVIDIA-NeMo/RL at 7ea279ab, examples/configs/grpo_math_1B.yaml), slime (THUDM/slime at 624b824a,
utils/arguments.py), OpenRLHF (at 3c3be623, cli/train_ppo_ray.py), AgentJet (`trainers.agentjet_keys`), tinygrpo.
A recipe may use the names of another version: these names are only hints, the recipe's own keys are decisive.
"""

from __future__ import annotations

from collections.abc import Mapping

_ACTOR, _ROLLOUT, _AJET = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "ajet.trainer_common"

KNOBS: Mapping[str, Mapping[str, str]] = {
    "lr": {
        "verl": f"{_ACTOR}.optim.lr",
        "trl": "learning_rate",
        "nemo_rl": "policy.optimizer.kwargs.lr",
        "slime": "lr",
        "openrlhf": "actor.adam.lr",
        "agentjet": f"{_AJET}.optim.lr",
        "tinygrpo": "lr",
    },
    "warmup": {
        "verl": f"{_ACTOR}.optim.lr_warmup_steps",
        "trl": "warmup_steps",
        "agentjet": f"{_AJET}.optim.lr_warmup_steps",
        "tinygrpo": "lr_warmup_steps",
    },
    "kl": {
        "verl": f"{_ACTOR}.kl_loss_coef (with {_ACTOR}.use_kl_loss)",
        "trl": "beta",
        "nemo_rl": "loss_fn.reference_policy_kl_penalty",
        "slime": "kl_loss_coef (with use_kl_loss)",
        "openrlhf": "algo.kl.init_coef",
        "agentjet": f"{_AJET}.kl_loss_coef (with {_AJET}.use_kl_loss)",
        "tinygrpo": "kl_coef",
    },
    "kl_estimator": {
        "verl": f"{_ACTOR}.kl_loss_type",
        "nemo_rl": "loss_fn.reference_policy_kl_type",
        "slime": "kl_loss_type",
        "openrlhf": "algo.kl.estimator",
        "agentjet": f"{_AJET}.kl_loss_type",
    },
    "clip_high": {
        "verl": f"{_ACTOR}.clip_ratio_high",
        "trl": "epsilon_high",
        "nemo_rl": "loss_fn.ratio_clip_max",
        "slime": "eps_clip_high",
        "openrlhf": "actor.eps_clip_low_high",
        "tinygrpo": "clip_high",
    },
    "entropy": {
        "verl": f"{_ACTOR}.entropy_coeff",
        "trl": "entropy_coef",
        "slime": "entropy_coef",
        "openrlhf": "actor.entropy_coef",
        "tinygrpo": "entropy_coef",
    },
    "temperature": {
        "verl": f"{_ROLLOUT}.temperature",
        "trl": "temperature",
        "nemo_rl": "policy.generation.temperature",
        "slime": "rollout_temperature",
        "openrlhf": "rollout.temperature",
        "agentjet": "ajet.rollout.temperature",
        "tinygrpo": "temperature",
    },
    "group": {
        "verl": f"{_ROLLOUT}.n",
        "trl": "num_generations",
        "nemo_rl": "grpo.num_generations_per_prompt",
        "slime": "n_samples_per_prompt",
        "openrlhf": "rollout.n_samples_per_prompt",
        "agentjet": "ajet.rollout.num_repeat",
        "tinygrpo": "group_size",
    },
    "prompts": {
        "verl": "data.train_batch_size",
        "nemo_rl": "grpo.num_prompts_per_step",
        "slime": "rollout_batch_size",
        "openrlhf": "rollout.batch_size",
        "agentjet": "ajet.data.train_batch_size",
        "tinygrpo": "batch_size",
    },
    "updates": {
        "verl": f"{_ACTOR}.ppo_mini_batch_size, {_ACTOR}.ppo_epochs",
        "trl": "num_iterations, steps_per_generation",
        "nemo_rl": "policy.train_global_batch_size",
        "slime": "num_steps_per_rollout",
        "openrlhf": "train.batch_size, train.max_epochs",
        "agentjet": f"{_AJET}.mini_batch_num, {_AJET}.ppo_epochs",
        "tinygrpo": "mini_batches, ppo_epochs",
    },
    "length": {
        "verl": "data.max_response_length",
        "trl": "max_completion_length",
        "nemo_rl": "policy.max_total_sequence_length",
        "slime": "rollout_max_response_len",
        "openrlhf": "rollout.max_new_tokens",
        "agentjet": "ajet.data.max_response_length",
    },
    "overlong": {
        "trl": "mask_truncated_completions",
        "nemo_rl": "grpo.overlong_filtering, grpo.reward_shaping.enabled",
        "openrlhf": "reward.overlong_buffer_len, reward.overlong_penalty_factor",
    },
    "aggregate": {
        "verl": f"{_ACTOR}.loss_agg_mode",
        "trl": "loss_type",
        "nemo_rl": "loss_fn.token_level_loss",
        "slime": "calculate_per_token_loss",
        "tinygrpo": "loss_agg",
    },
    "std_norm": {
        "verl": "algorithm.norm_adv_by_std_in_grpo",
        "trl": "scale_rewards",
        "nemo_rl": "grpo.normalize_rewards",
        "slime": "disable_grpo_std_normalization",
        "openrlhf": "algo.advantage.no_std_norm",
        "tinygrpo": "norm_adv_by_std",
    },
    "filter": {
        "nemo_rl": "grpo.use_dynamic_sampling",
        "slime": "dynamic_sampling_filter_path, over_sampling_batch_size",
        "openrlhf": "algo.dynamic_filtering_enable",
        "agentjet": "ajet.rollout.enable_oversample",
    },
    "correction": {
        "verl": f"algorithm.rollout_correction.rollout_is (with {_ROLLOUT}.calculate_log_probs)",
        "trl": "vllm_importance_sampling_correction, vllm_importance_sampling_cap",
        "nemo_rl": "loss_fn.use_importance_sampling_correction, loss_fn.truncated_importance_sampling_type",
        "slime": "use_tis, tis_clip",
        "openrlhf": "algo.advantage.is_correction_enable",
    },
    "age": {
        "nemo_rl": "grpo.async_grpo.max_trajectory_age_steps",
        "openrlhf": "train.async_queue_size",
    },
    "grad_clip": {
        "verl": f"{_ACTOR}.grad_clip",
        "trl": "max_grad_norm",
        "nemo_rl": "policy.max_grad_norm",
        "slime": "clip_grad",
        "agentjet": f"{_AJET}.optim.grad_clip",
        "tinygrpo": "grad_clip",
    },
    "precision": {"nemo_rl": "policy.precision", "trl": "bf16", "openrlhf": "ds.param_dtype"},
    "tokens_per_gpu": {
        "verl": f"{_ACTOR}.ppo_max_token_len_per_gpu (with {_ACTOR}.use_dynamic_bsz)",
        "trl": "per_device_train_batch_size",
        "nemo_rl": "policy.train_micro_batch_size",
        "slime": "max_tokens_per_gpu (with use_dynamic_batch_size)",
        "openrlhf": "train.max_tokens_per_gpu (with train.dynamic_batch_enable)",
    },
    "checkpointing": {
        "verl": "actor_rollout_ref.model.enable_gradient_checkpointing",
        "trl": "gradient_checkpointing",
        "nemo_rl": "policy.dtensor_cfg.activation_checkpointing",
        "openrlhf": "actor.gradient_checkpointing_enable",
    },
    "engine_memory": {
        "verl": f"{_ROLLOUT}.gpu_memory_utilization",
        "trl": "vllm_gpu_memory_utilization",
        "nemo_rl": "policy.generation.vllm_cfg.gpu_memory_utilization",
        "slime": "sglang_mem_fraction_static",
        "openrlhf": "vllm.gpu_memory_utilization",
        "agentjet": "ajet.rollout.gpu_memory_utilization",
    },
    "partial": {"slime": "partial_rollout", "openrlhf": "train.partial_rollout_enable"},
}


def key_of(knob: str, trainer: str) -> str:
    """The recipe key of a knob in a framework; "" where it has none that we know."""
    name = "agentjet" if trainer.startswith("agentjet") else trainer
    return KNOBS.get(knob, {}).get(name, "")
