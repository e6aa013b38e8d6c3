"""What holds for every framework: its own command, and its example."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.shell import read_shell
from autoresearch.trainers import ray_job, registry

BLUEPRINTS = Path(__file__).parents[2] / "blueprints"
COMMANDS = {
    "tinygrpo": [
        "python -m autoresearch.tinygrpo --conf r.yaml",
        "cd x && /venv/bin/python -u -m autoresearch.tinygrpo --conf r.yaml",
    ],
    "agentjet": [
        "python -m ajet.launcher --conf tests/bench/benchmark_math/benchmark_math.yaml --with-ray",
        "cd /data/ajet && NO_COLOR=1 ajet --conf exp.yaml --backbone verl",
        "/venv/bin/python -u ajet/launcher.py --conf=exp.yaml",
        "bash -c 'exec /venv/bin/ajet --conf exp.yaml'",
    ],
    "verl": [
        "python3 -m verl.trainer.main_ppo trainer.nnodes=1",
        "python verl/trainer/main_ppo.py",
        "python3 -m verl.experimental.one_step_off_policy.main_ppo",
        "torchrun --standalone --nproc_per_node=8 -m verl.trainer.sft_trainer data.train_files=x",
        "python3 -m recipe.dapo.main_dapo",
        "python -m verl.experimental.fully_async_policy.fully_async_main",
    ],
    "nemo_rl": [
        "uv run examples/run_grpo.py --config examples/configs/grpo_math_1B.yaml grpo.max_num_steps=20",
        "uv run python examples/run_dpo.py",
        "python /opt/nemo_rl/examples/run_sft.py",
        "uv run ./examples/nemo_gym/run_grpo_nemo_gym.py",
        "nrl-k8s run job.yaml",
        "uv run ./examples/run_grpo_single_controller.py",
        "uv run examples/run_xtoken_off_policy_distillation.py",
        "uv run examples/run_vlm_grpo.py",
    ],
    "trl": [
        "trl grpo --config grpo.yaml --learning_rate 1e-6",
        "/venv/bin/trl sft --model_name_or_path x",
        "accelerate launch -m trl.scripts.dpo --config c.yaml",
        "accelerate launch --num_processes 4 examples/scripts/grpo_vlm.py",
        "python /src/trl/scripts/rloo.py",
        "accelerate launch examples/scripts/async_grpo.py",
        "accelerate launch examples/scripts/ppo/ppo.py",
        "python examples/scripts/openenv/wordle.py",
    ],
    "openrlhf": [
        "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray --train.seed 1",
        "python /src/openrlhf/cli/train_ppo_ray.py",
        "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --adam.lr 5e-6",
        "deepspeed --module openrlhf.cli.train_rm",
    ],
    "slime": [
        "cd /root/slime && bash scripts/run-qwen3-4B.sh",
        "bash /root/slime/examples/coding_agent_rl/run_qwen36_35b_a3b_swe_8nodes.sh",
        "ray job submit --address=http://127.0.0.1:8265 -- python3 train.py --colocate \\\n  --num-rollout 300",
        "python3 -u train_async.py --rollout-batch-size 32",
    ],
}
FOREIGN = [
    *("python run_grpo.py --conf c.yaml", "python train.py", "bash run.sh"),
    *("ajet-swarm start --swarm-port=10086", "ajet --swarm-server --conf s.yaml"),
    *("cd /data/ajet ; python roll.py", "echo ajet", "python train.py --conf ajet.yaml"),
    *("python train.py --overlay", "python -m overlords.trainer.main", "echo autoresearch tinygrpo", ""),
    *("echo nemo", "trl vllm-serve", "python -m openrlhf.cli.serve_rm", "python slimer/x.py"),
    *(
        "python3 -m verl.trainer.main_generation_server",
        "python -m verl.trainer.main_eval",
        "python -m verl.model_merger",
    ),
    *("uv run python examples/run_eval.py", "python examples/scripts/make_data.py"),
]


@pytest.mark.parametrize(("name", "command"), [(name, c) for name, commands in COMMANDS.items() for c in commands])
def test_the_framework_of_a_command(name: str, command: str) -> None:
    assert [t.name for t in registry.every() if t.recognises(command)] == [name]
    assert registry.choose("", read_shell(command)).name == name


@pytest.mark.parametrize("command", FOREIGN)
def test_nobody_claims_a_command_that_says_nothing(command: str) -> None:
    assert registry.choose("", read_shell(command)).name == "generic"


EXAMPLES = {  # blueprint: its trainer, and its recipe if it has one
    "agentjet.md": ("agentjet", "agentjet.yaml"),
    "verl.md": ("verl", ""),
    "nemo_rl.md": ("nemo_rl", "nemo-rl-grpo.yaml"),
    "openrlhf.md": ("openrlhf", ""),
    "trl.md": ("trl", "trl-grpo.yaml"),
    "slime.md": ("slime", ""),
    "slime_coding_agent.md": ("slime", ""),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_framework(name: str) -> None:
    """Its command is recognised, its recipe is found fault with by nobody, its metric is the usual one."""
    blueprint = parse_blueprint((BLUEPRINTS / "examples" / name).read_bytes(), name)
    trainer = registry.choose("", read_shell(blueprint.launch_command))
    wanted, file = EXAMPLES[name]
    assert trainer.name == blueprint.notes.trainer == wanted
    recipe = yaml.safe_load((BLUEPRINTS / "recipes" / file).read_text()) if file else {}
    if trainer.takes_arguments:
        recipe = trainer.settings(recipe, blueprint.launch_command)
    assert trainer.lint(recipe, "/code", blueprint.result_dir) == ray_job.lint(blueprint.launch_command) == ()
    assert trainer.seed(recipe) is not None
    usual = trainer.objective(recipe)
    assert usual is not None
    assert (usual.metric, usual.direction) == (blueprint.notes.metric, blueprint.notes.direction)
