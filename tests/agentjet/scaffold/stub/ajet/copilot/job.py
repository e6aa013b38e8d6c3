"""Stand-in for ajet/copilot/job.py: the keyword arguments of AgentJetJob, its config, its dump."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

KNOWN = [
    "ensure_new_experiment",
    "base_yaml_config",
    "experiment_dir",
    "project_name",
    "experiment_name",
    "logging",
    "n_gpu",
    "model",
    "algorithm",
    "num_repeat",
    "batch_size",
    "swarm_mode",
    "swarm_mode_sample_collection_method",
    "max_env_worker",
    "backbone",
    "max_prompt_length",
    "max_response_length",
    "max_response_length_in_one_turn",
    "max_model_len",
    "mini_batch_num",
    "lora_rank",
    "lora_alpha",
    "lora_target_modules",
    "lora_load_format",
    "layered_summon",
    "gpu_memory_utilization",
    "lr",
    "ppo_epochs",
    "compute_madness_checklist",
]


class AgentJetJob:
    def __init__(self, **given: Any) -> None:
        unknown = set(given) - set(KNOWN)
        if unknown:
            raise TypeError(f"unexpected keyword arguments {unknown}")
        self.given = given
        self.batch_size, self.num_repeat = given["batch_size"], given["num_repeat"]
        common = SimpleNamespace(train_print_to_markdown_file_path=None, val_before_train=False)
        self.config = SimpleNamespace(ajet=SimpleNamespace(trainer_common=common))

    def dump_job_as_yaml(self, yaml_path: str) -> str:
        with open(yaml_path, "w", encoding="utf-8") as file:
            json.dump(self.given | vars(self.config.ajet.trainer_common), file)
        return yaml_path
