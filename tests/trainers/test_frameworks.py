"""What holds for every framework: its sample wherever it is cut, its own lines and no others, its own command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import ReadsCommands, Source, SourceFormat, Trainer
from autoresearch.readers.read import read_source
from autoresearch.runner.line_patterns import LinePattern, Scanner, group
from autoresearch.runner.log_follower import LogFollower
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
BLUEPRINTS = Path(__file__).parents[2] / "blueprints"
EVENTS = (SignalKind.STEP, SignalKind.VALIDATION)

OWN = {  # sample: its trainer, the signals in it, and the first step that the Runner sees with its KL
    "verl_np1.log": ("verl", {"step": 1, "validation": 1}, (b"1", b"0.000741")),
    "verl_ok_np2_ray.log": ("verl", {"step": 3, "validation": 1}, (b"1", b"0.00074127")),
    "verl_raise_np2_ray.log": ("verl", {"step": 1, "validation": 1}, (b"1", b"0.00074127")),
    "verl_ray_260.log": ("verl", {"step": 3, "validation": 1}, (b"1", b"0.001")),
    "verl_raise_ray_260.log": ("verl", {"step": 3, "validation": 1}, (b"1", b"0.001")),
    "openrlhf_ray_260.log": ("openrlhf", {"step": 3, "validation": 1}, (b"1", b"0.001")),
    "slime_ray_260.log": ("slime", {"step": 3, "validation": 1}, (b"0", b"0.000")),
    "agentjet.log": ("agentjet", {"step": 1, "validation": 2}, (b"1", b"0.0009313225746154785")),
    "nemo_grpo.log": ("nemo_rl", {"step": 2, "validation": 2}, (b"", b"")),
    "trl_v4.log": ("trl", {"step": 1, "validation": 1}, (b"", b"0.0")),
    "trl_v5_tqdm.log": ("trl", {"step": 6, "validation": 2}, (b"", b"0")),
    "trl_v5_grpo.log": ("trl", {"step": 6, "validation": 3}, (b"", b"0")),
    "trl_v5_beta0.log": ("trl", {"step": 6, "validation": 3}, (b"", b"")),
    "trl_v5_no_bar.log": ("trl", {"step": 6, "validation": 3}, (b"", b"0")),
    "openrlhf.log": ("openrlhf", {"step": 1, "validation": 1}, (b"1", b"0.000213")),
    "slime.log": ("slime", {"step": 1, "validation": 1}, (b"0", b"0.0")),
}

FAMILIES = [{"verl", "agentjet"}]  # who prints the same lines

COMMANDS = {
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
    *("echo nemo", "trl vllm-serve", "python -m openrlhf.cli.serve_rm", "python slimer/x.py"),
    *(
        "python3 -m verl.trainer.main_generation_server",
        "python -m verl.trainer.main_eval",
        "python -m verl.model_merger",
    ),
    *("uv run python examples/run_eval.py", "python examples/scripts/make_data.py"),
]


def scan(trainer: Trainer, chunk: bytes, start: int = 0) -> list[tuple[str, int]]:
    events = []
    for signal in (s for s in trainer.signals() if s.kind in EVENTS):
        found = re.finditer(signal.pattern.encode("latin-1"), chunk, re.MULTILINE)
        events += [(signal.kind.value, start + m.start()) for m in found]
    return sorted(events)


@pytest.mark.parametrize("name", OWN)
def test_the_signals_of_a_sample(name: str) -> None:
    kinds = [kind for kind, _ in scan(registry.by_name(OWN[name][0]), (SAMPLES / name).read_bytes())]
    assert {kind: kinds.count(kind) for kind in kinds} == OWN[name][1]


@pytest.mark.parametrize("name", OWN)
def test_the_runner_sees_the_first_step(name: str) -> None:
    trainer, _, wanted = OWN[name]
    steps = [s for s in registry.by_name(trainer).signals() if s.kind is SignalKind.STEP]
    scanner = Scanner(LinePattern(s.kind.value, s.pattern, s.hold_s, s.needles) for s in steps)
    follower = LogFollower(str(SAMPLES / name))
    seen = []
    for chunk in follower.poll():
        start = follower.offset - len(chunk)
        seen += [(group(m, "step"), group(m, "kl")) for _, m, _ in scanner.scan(chunk, start)]
    follower.close()
    assert seen[0] == wanted


@pytest.mark.parametrize("name", OWN)
def test_it_does_not_matter_where_the_log_is_cut(name: str) -> None:
    raw, trainer = (SAMPLES / name).read_bytes(), registry.by_name(OWN[name][0])
    whole = scan(trainer, raw)
    cuts = {max(raw.rfind(b"\n", 0, at), raw.rfind(b"\r", 0, at)) + 1 for at in range(0, len(raw) + 1, 7)}
    for cut in cuts:
        assert sorted(scan(trainer, raw[:cut]) + scan(trainer, raw[cut:], cut)) == whole, cut


@pytest.mark.parametrize("name", [p.name for p in sorted(SAMPLES.glob("*.log")) if "tiny" not in p.name])
@pytest.mark.parametrize("trainer", sorted({own[0] for own in OWN.values()}))
def test_nobody_claims_the_lines_of_another(name: str, trainer: str) -> None:
    known = registry.by_name(trainer)
    own = OWN.get(name, ("",))[0]
    mine = own == trainer or any({own, trainer} <= family for family in FAMILIES)
    assert bool(scan(known, (SAMPLES / name).read_bytes())) == mine
    assert bool(read_source(Source(SourceFormat.CONSOLE, name), SAMPLES, 0, known).readings) == mine


@pytest.mark.parametrize(("name", "command"), [(name, c) for name, commands in COMMANDS.items() for c in commands])
def test_the_framework_of_a_command(name: str, command: str) -> None:
    assert [t.name for t in registry.every() if t.recognises(command)] == [name]
    assert registry.choose("", command).name == name


@pytest.mark.parametrize("command", FOREIGN)
def test_nobody_claims_a_command_that_says_nothing(command: str) -> None:
    assert registry.choose("", command).name == "generic"


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
    trainer = registry.choose("", blueprint.launch_command)
    wanted, file = EXAMPLES[name]
    assert trainer.name == blueprint.notes.trainer == wanted
    recipe = yaml.safe_load((BLUEPRINTS / "recipes" / file).read_text()) if file else {}
    if isinstance(trainer, ReadsCommands):
        recipe = trainer.settings(recipe, blueprint.launch_command)
        assert trainer.lint_command(blueprint.launch_command) == ()
    assert trainer.lint(recipe) == ()
    assert trainer.seed(recipe) is not None
    usual = trainer.objective(recipe)
    assert usual is not None
    assert (usual.metric, usual.direction) == (blueprint.notes.metric, blueprint.notes.direction)
    if (limit := trainer.time_limit(recipe)) is not None:
        assert limit < blueprint.max_time_s


@pytest.mark.parametrize("trainer", registry.every(), ids=lambda t: t.name)
def test_no_pattern_nests_possessive_repeats(trainer: Trainer) -> None:
    """They miss matches in Python before 3.11.5."""
    for signal in trainer.signals():
        assert not re.search(r"\)[*+?}]\+|\)\{[\d,]+\}\+", signal.pattern)
        assert signal.needles
