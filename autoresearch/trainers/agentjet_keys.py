"""The keys of an AgentJet recipe, and the verl keys that AgentJet sets itself (modelscope/AgentJet).

From ajet/default_config/ajet_default.yaml at 01a9a0df, with keys of older versions (d20cce0e, c8e0bd8e) and newer ones
(ajet_config_schema.py at 1805d87e, docs); ajet/default_config/verl/config_auto_convertion_verl.jsonc at 0ff101a2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from autoresearch.core.run.recipe_keys import look_up
from autoresearch.core.run.trainer import Recipe

ROOT = "ajet"

_KNOWN = """
: project_name experiment_name experiment_dir backbone enable_swarm_mode enable_interchange_server
: enable_experimental_interchange_server swarm_mode_sample_collection_method
: swarm_mode_sample_collection_max_cached_episodes execute_test execute_testing_lambda
model: path
data: max_prompt_length max_response_length train_batch_size
rollout: user_workflow force_disable_toolcalls max_env_worker gamma compute_madness_checklist
rollout: agent_madness_termination agent_madness_reward max_response_length_in_one_turn max_model_len
rollout: tensor_model_parallel_size n_vllm_engine max_num_seqs name gpu_memory_utilization num_repeat temperature
rollout: top_p top_k enable_oversample submit_oversample_multiplier
context_tracker: fix_retokenization_drift log_tool_format_check log_tool_format_error_detail detect_timeline_snap
context_tracker: alien_llm_model alien_llm_response_length
context_tracker.timeline_merging_policy: timeline_compare_level ignore_tools
trainer_common: val_before_train val_pass_n val_only val_max_num_task_each_validation val_max_num_task_clip_method
trainer_common: val_print_to_markdown_file_path train_print_to_markdown_file_path save_freq test_freq
trainer_common: total_training_steps total_epochs nnodes n_gpus_per_node logger mini_batch_num use_kl_loss
trainer_common: kl_loss_coef kl_loss_type kl_penalty_type use_kl_in_reward ppo_epochs loss_extra_scale_ratio
trainer_common: ulysses_sequence_parallel_size checkpoint_base_dir save_trajectory_as_json_file
trainer_common.algorithm: adv_estimator use_kl_in_reward
lora: lora_rank lora_alpha target_modules load_format layered_summon lora_adapter_path
interchange_server: interchange_method interchange_server_port num_fastapi_process max_fastapi_threads
interchange_server: max_inference_tracker_threads already_started
task_runner: wrapper_type wrapper_multiprocessing_timeout llm_infer_submit_method
"""

_OPEN = (  # groups that are passed on whole, or belong to a plug-in
    *("task_reader", "task_judge", "debug", "rollout.multi_turn", "rollout.val_kwargs"),
    *("trainer_common.optim", "trainer_common.fsdp_config"),
)

_SETS = """
trainer_common: trainer total_epochs val_before_train val_only n_gpus_per_node nnodes logger checkpoint_base_dir
trainer_common: trainer total_training_steps save_freq test_freq
trainer_common.algorithm: algorithm adv_estimator
trainer_common: algorithm use_kl_in_reward
trainer_common: actor_rollout_ref.actor use_kl_loss kl_loss_coef kl_loss_type ulysses_sequence_parallel_size ppo_epochs
trainer_common: actor_rollout_ref.actor loss_extra_scale_ratio
trainer_common.optim: actor_rollout_ref.actor.optim optimizer optimizer_impl lr lr_warmup_steps_ratio
trainer_common.optim: actor_rollout_ref.actor.optim total_training_steps weight_decay lr_warmup_steps betas
trainer_common.optim: actor_rollout_ref.actor.optim min_lr_ratio num_cycles lr_scheduler_type zero_indexed_step
trainer_common.optim: actor_rollout_ref.actor.optim grad_clip
lora: actor_rollout_ref.model lora_rank lora_alpha target_modules
lora: actor_rollout_ref.rollout load_format layered_summon
data: data max_prompt_length max_response_length train_batch_size
rollout: actor_rollout_ref.rollout max_model_len max_num_seqs tensor_model_parallel_size temperature
rollout: actor_rollout_ref.rollout gpu_memory_utilization
model: actor_rollout_ref.model path
: trainer project_name experiment_name
"""  # ajet group: verl group, names common to both

_OTHER_NAMES = {
    "trainer_common.mini_batch_num": "actor_rollout_ref.actor.override_ppo_mini_batch_num",
    "trainer_common.kl_penalty_type": "algorithm.kl_penalty",
    "rollout.num_repeat": "actor_rollout_ref.rollout.n",
}


def unknown(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(key, nearest known key or "") for each key below `ajet` that is not in AgentJet's defaults."""
    known = set(_known())
    own = look_up(recipe, ROOT)
    for key in _leaves(own) if isinstance(own, Mapping) else ():
        if key in known or any(key.startswith(f"{group}.") for group in _OPEN):
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        last = key.rpartition(".")[2]
        same = [name for name in known if name.rpartition(".")[2] == last]
        yield f"{ROOT}.{key}", f"{ROOT}.{(same or near)[0]}" if same or near else ""


def set_twice(recipe: Recipe) -> Iterator[tuple[str, str, bool]]:
    """(ajet key, verl key, whether both are set and differ) for each of AgentJet's verl keys that the recipe sets."""
    for ours, theirs in _pairs():
        value = look_up(recipe, theirs)
        if value is not None:
            own = look_up(recipe, ours)
            yield ours, theirs, own is not None and str(own) != str(value)


def _known() -> Iterator[str]:
    for line in _KNOWN.strip().splitlines():
        group, _, names = line.partition(":")
        yield from (f"{group}.{name}" if group else name for name in names.split())


def _pairs() -> Iterator[tuple[str, str]]:
    for line in _SETS.strip().splitlines():
        group, _, rest = line.partition(":")
        theirs, *names = rest.split()
        prefix = f"{ROOT}.{group}." if group else f"{ROOT}."
        yield from ((f"{prefix}{name}", f"{theirs}.{name}") for name in names)
    yield from ((f"{ROOT}.{ours}", theirs) for ours, theirs in _OTHER_NAMES.items())


def _leaves(mapping: Mapping[object, object], prefix: str = "") -> Iterator[str]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
