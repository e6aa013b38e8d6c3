"""Real launch scripts: which trainer, recipe, metric and GPUs are read from them, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.blueprint.finding import Finding
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples/launch_scripts"
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/home/me"}
REWARD, ROLLOUT = "critic/rewards/mean", "rollout/reward_mean"
GRPO, GYM = "examples/configs/grpo_math_1B.yaml", "examples/nemo_gym/launch_nemo_gym_multinode_training.sh"
RUN = "examples/run_grpo.py --config examples/configs/grpo_smoke.yaml"
SUITE = "grpo-llama3.2-1b-instruct-1n8g-fsdp2tp1.v3"
SLURM = (
    'COMMAND="uv run ./examples/run_grpo.py --config examples/configs/grpo_math_8B.yaml cluster.num_nodes=2" '
    'CONTAINER=C MOUNTS="$PWD:$PWD" sbatch --wait --nodes=2 ray.sub'
)
VLM = (
    "accelerate launch --config_file examples/accelerate_configs/deepspeed_zero3.yaml examples/scripts/grpo_vlm.py "
    "--model_name_or_path Qwen/Qwen2.5-VL-3B-Instruct --output_dir grpo-Qwen2.5-VL-3B-Instruct --learning_rate 1e-5"
)

UNREAD = "$"  # of 3 of 27: a sum in $(( ))
CASES = [  # folder, command, trainer, recipe, metric, GPUs on all nodes, one of its settings
    *(
        ("verl", f"bash examples/{script}", "verl", recipe, metric, gpus, (key, value))
        for script, recipe, metric, gpus, key, value in (
            ("grpo_trainer/run_qwen2-7b.sh", "", REWARD, 8, "data.train_batch_size", 1024),
            ("grpo_trainer/run_qwen2-7b_math_megatron.sh", "", REWARD, 8, "actor_rollout_ref.actor.optim.lr", 1e-6),
            ("grpo_trainer/run_qwen3-235b_megatron_96gb.sh", "", REWARD, 32, "data.max_response_length", UNREAD),
            ("gmpo_trainer/test_dapo_7b_math.sh", "", REWARD, 64, "data.max_response_length", UNREAD),
            ("ppo_trainer/run_deepseek7b_llm.sh", "", REWARD, 8, "critic.optim.lr", 1e-5),
            ("cispo_trainer/run_cispo_qwen2_5_0_5b_gsm8k.sh", "", REWARD, 1, "trainer.total_epochs", 3),
            ("gspo_trainer/test_gspo_3b_math_slurm.sh", "", REWARD, 8, "actor_rollout_ref.rollout.n", 16),
            (
                "sglang_multiturn/run_qwen2.5-3b_gsm8k_multiturn.sh",
                *("examples/sglang_multiturn/config/gsm8k_multiturn_grpo.yaml", REWARD, 8),
                *("actor_rollout_ref.rollout.n", 16),
            ),
            ("sft/gsm8k/run_qwen_05_sp2.sh 4 /data/out", "", "val/loss", 4, "trainer.default_local_dir", "/data/out"),
        )
    ),
    ("slime", "bash scripts/run-glm4-9B.sh", "slime", "", "eval/aime", 8, ("num_layers", 40)),
    ("slime", "bash examples/search-r1/run_qwen2.5_3B.sh", "slime", "", "rollout/raw_reward", 4, ("lr", 1e-6)),
    (
        *("slime", "bash examples/fully_async/run-qwen2.5-0.5B-fully_async.sh", "slime", "", "rollout/raw_reward"),
        *(None, ("rollout_num_gpus", UNREAD)),
    ),
    ("nemo-rl", "uv run python examples/run_grpo.py", "nemo_rl", GRPO, "validation/accuracy", 1, None),
    (
        *("nemo-rl", "uv run examples/run_grpo.py --config examples/configs/grpo_math_1B_megatron.yaml", "nemo_rl"),
        *("examples/configs/grpo_math_1B_megatron.yaml", "validation/accuracy", 1, None),
    ),
    (
        *("nemo-rl", f"bash tests/test_suites/llm/{SUITE}.sh", "nemo_rl", ""),  # `sed` makes its name
        *("validation/accuracy", None, ("grpo.max_num_steps", 500)),
    ),
    ("nemo-rl", SLURM, "nemo_rl", "examples/configs/grpo_math_8B.yaml", "validation/accuracy", 16, None),
    (
        *("nemo-rl", f"NUM_ACTOR_NODES=2 REPO_LOCATION=$PWD bash {GYM} --config={GRPO}", "nemo_rl", GRPO),
        *("validation/accuracy", 2, ("cluster.num_nodes", 2)),
    ),
    *(
        ("OpenRLHF", f"bash examples/scripts/{script}.sh", "openrlhf", "", metric, gpus, (key, value))
        for script, metric, gpus, key, value in (
            ("train_sft", "gpt_loss", None, "adam.lr", 5e-6),
            ("train_dpo_llama", "loss", None, "train.batch_size", 256),
            ("train_rm", "loss", None, "adam.lr", 9e-6),
            ("train_ppo_ray_hybrid_engine", ROLLOUT, 8, "actor.adam.lr", 5e-7),
            ("train_reinforce_baseline_ray_agent_async", ROLLOUT, 8, "algo.advantage.estimator", "reinforce_baseline"),
            ("train_ppo_with_reward_fn", ROLLOUT, 8, "actor.adam.lr", 5e-7),
            ("train_dapo_ray_hybrid_engine", ROLLOUT, 8, "algo.kl.init_coef", 1e-3),
        )
    ),
    ("trl", "trl grpo --config grpo_config.yaml", "trl", "grpo_config.yaml", "reward", 4, None),
    (
        *("trl", "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name trl-lib/Capybara --output_dir X"),
        *("trl", "", "loss", None, ("output_dir", "X")),
    ),
    ("trl", VLM, "trl", "", "reward", None, ("learning_rate", 1e-5)),
]


def asked(folder: str, command: str, tmp_path: Path) -> tuple[TrainerSettings, list[Finding]]:
    path = tmp_path / "b.md"
    path.write_text(
        f"## [exp_codebase_dir]\n- dir: {SAMPLES / folder}\n## [exp_yaml_path]\n- path: NA\n"
        f"## [exp_launch_command]\n- command:\n```bash\n{command}\n```\n## [exp_result_dir]\n- dir: {tmp_path}/out\n"
    )
    resolved = resolve_blueprint(read_blueprint(path), environ=ENV)
    trainer = registry.for_blueprint(resolved.blueprint, resolved.shell_reading)
    settings = ask_trainer(trainer, resolved)
    return settings, settings.findings_of_run()


@pytest.mark.parametrize(
    ("folder", "command", "trainer", "recipe", "metric", "gpus", "setting"),
    CASES,
    ids=[c[1][-50:] for c in CASES],
)
def test_what_a_launch_script_says(
    folder: str, command: str, trainer: str, recipe: str, metric: str, gpus: int | None,
    setting: tuple[str, object] | None, tmp_path: Path,
) -> None:  # fmt: skip
    settings, findings = asked(folder, command, tmp_path)
    found, script_submits = settings.resolved.recipe, GYM in command
    assert settings.trainer.name == trainer
    assert str(found.relative_to(SAMPLES / folder) if found else "") == recipe
    assert settings.objective is not None and settings.objective.metric == metric
    assert settings.trainer.gpus(settings.whole) == (None if metric == "val/loss" else gpus)
    assert settings.gpus_needed({}) == (0 if "sbatch" in command or script_submits else gpus or 0)
    if setting and setting[1] == UNREAD:
        assert setting[0] not in settings.whole, "what is unknown is no setting"
    elif setting:
        assert settings.whole[setting[0]] == setting[1]
    assert {f.code for f in findings if f.severity == "error"} == (
        {"kills_by_name", "stops_ray"} if folder == "slime" else set()
    )


def test_output_that_goes_into_a_file_is_followed(tmp_path: Path) -> None:
    train = "uv run examples/run_grpo.py --config examples/configs/grpo_smoke.yaml"
    settings, findings = asked("nemo-rl", f'LOG_DIR=$(date +%s); {train} > "$LOG_DIR/run.log" 2>&1', tmp_path)
    assert not [f for f in findings if f.severity == "error"] and settings.output == "?", "its process will tell"
    for command in (f"{train} > /dev/null", f"{train} 2> errors", f"{train} > >(tee log)", "mkdir x > log; " + train):
        assert asked("nemo-rl", command, tmp_path)[0].output == ""
    for redirected in ("> logs/a 2>&1", ">> logs/a", "&> logs/a", f"> {tmp_path}/logs/a"):
        settings, _ = asked("nemo-rl", f"{train} {redirected}", tmp_path)
        home = tmp_path if str(tmp_path) in redirected else settings.resolved.codebase
        assert settings.output == f"{home}/logs/a"
    settings, _ = asked("nemo-rl", f'LOG_DIR=/logs; {train} > "$LOG_DIR/run.log" 2>&1', tmp_path)
    assert settings.output == "/logs/run.log"


def test_a_script_without_a_place_for_a_seed_gets_a_variable(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("exec python train.py --num-rollout 3 $ARGS\n")
    path = tmp_path / "b.md"
    path.write_text(f"## [exp_codebase_dir]\n- dir: {tmp_path}\n## [exp_launch_command]\n- command: ssh h ./run.sh\n")
    resolved = resolve_blueprint(read_blueprint(path), environ=ENV)
    assert str(ask_trainer(registry.by_name("slime"), resolved).seed_way) == "variable AUTORESEARCH_SEED"
    usual = asked("slime", "python train.py", tmp_path)[0].resolved
    assert ask_trainer(registry.by_name("slime"), usual).seed_way.fixed == 42


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        ("torchrun --standalone --nproc_per_node=8 train.py", 8),
        ("torchrun --nnodes=2 --nproc-per-node ${N:-4} -m verl.trainer.sft_trainer", 4),
        ("accelerate launch --num_processes 4 train.py", 4),
        ("accelerate launch --num_machines 2 --num_processes 16 train.py", 8),
        ("accelerate launch --cpu --num_processes 4 train.py", 0),
        ("tune run --nproc_per_node 2 full_finetune_distributed --config llama3_1/8B_full", 2),
        ("CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --nproc_per_node 2 train.py", 2),
        ("CUDA_VISIBLE_DEVICES=-1 torchrun --nproc_per_node 2 train.py", 0),
        ("torchrun --nproc_per_node=gpu train.py", 0),
        ("python train_zero_math.py --gpus 8 --max-gpus 9", 8),
        ("python train.py trainer.placement.policy_num_gpus_per_node=4 trainer.devices=2", 4),
        ("printf 'num_processes: 6' > z.yaml; accelerate launch --config_file z.yaml train.py", 0),  # not there yet
        ("srun torchrun --nproc_per_node 4 train.py", 0),
    ],
)
def test_gpus_of_a_command_that_starts_a_process_for_each(command: str, gpus: int, tmp_path: Path) -> None:
    assert asked("trl", command, tmp_path)[0].gpus_needed({}) == gpus


@pytest.mark.parametrize("by", ["srun --label", "ssh -p 22 h", "sbatch --wait"])
def test_gpus_of_another_machine_are_not_looked_for_here(by: str, tmp_path: Path) -> None:
    settings, _ = asked("nemo-rl", f"COMMAND='uv run {RUN}' {by} uv run {RUN} cluster.gpus_per_node=8", tmp_path)
    assert (settings.trainer.name, settings.gpus_needed({})) == ("nemo_rl", 0)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("num_processes: 4", 4),
        ("num_processes: 16\nnum_machines: 2", 8),
        ("not: [yaml", 0),
    ],
)
def test_the_processes_in_the_yaml_of_accelerate(text: str, gpus: int, tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(text)
    (tmp_path / "train.py").write_text("print('loss', 0.5)\n")
    command = "accelerate launch --config_file fsdp.yaml train.py"
    assert asked(str(tmp_path), command, tmp_path)[0].gpus_needed({}) == gpus
    more = command.replace("train.py", "--num_processes 3 train.py")  # a flag comes before the file
    assert asked(str(tmp_path), more, tmp_path)[0].gpus_needed({}) == 3


@pytest.mark.parametrize(
    ("line", "trainer"),
    [
        ("from trl import GRPOTrainer", "trl"),
        ("from verl.trainer.main_ppo import run_ppo", "verl"),
        ("from nemo_rl.algorithms.grpo import grpo_train", "nemo_rl"),
        ("import slime_mould", "generic"),
        ("# from nemo_rl.algorithms.grpo import grpo_train", "generic"),
    ],
)
def test_a_program_is_of_the_trainer_that_it_imports(line: str, trainer: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{line}\n")
    assert asked(str(tmp_path), "python mine.py", tmp_path)[0].trainer.name == trainer
