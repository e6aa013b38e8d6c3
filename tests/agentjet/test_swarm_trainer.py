"""The swarm trainer: our watch's lines as the Runner sees them, the client's evaluations, lint."""

from __future__ import annotations

import re
from typing import Any

import pytest

from autoresearch.agentjet.swarm_trainer import AgentJetSwarm
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Circumstances, Recipe
from autoresearch.runner.line_patterns import LinePattern, Scanner, group
from autoresearch.trainers import registry

TRAINER = AgentJetSwarm()
EVAL = (
    "[EVAL @ step {}] {}  mean_reward=0.2167  std_reward=0.4120  task_pass_rate@1={}  task_pass_rate@4=36.67%"
    "  n_tasks=30  n_rollouts=120"
)


def seen(text: str) -> list[tuple[str, dict[str, str]]]:
    """What the Runner's own scanner makes of a log: kinds and named groups."""
    scanner = Scanner(LinePattern(s.kind, s.pattern, s.hold_s, s.needles) for s in TRAINER.signals())
    found = scanner.scan(text.encode(), 0)
    return [
        (p.kind, {name: group(m, name).decode() for name in ("step", "kl", "kind", "text") if group(m, name)})
        for p, m, _ in found
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[swarm] step 3", [("step", {"step": "3"})]),
        ("[swarm] step 3 kl 1e-05", [("step", {"step": "3", "kl": "1e-05"})]),
        ("[swarm] step 3 kl nan\r", [("step", {"step": "3", "kl": "nan"})]),
        ("[swarm] step 3 reward 0.625", [("step", {"step": "3"})]),
        ("[swarm] steps 3", []),
        ("he said [swarm] step 3", []),
        ("[swarm] engine ENGINE.BOOTING for 30 s", [("progress", {})]),
        ("[swarm] engine ENGINE.ROLLING global_step 3 completed 12/32 episodes", [("progress", {})]),
        ("[swarm] the engine has booted, in 93 s", [("ready", {})]),
        ("[swarm] engine ENGINE.OFFLINE", []),
        ("[swarm] error boot_failed: no verl", [("error", {"kind": "boot_failed", "text": "no verl"})]),
        ("[swarm] nan: loss at step 3", [("nan", {"text": "loss at step 3"})]),
        (EVAL.format(10, "AIME-2025", "21.67%"), [("validation", {})]),
        ("EVAL AIME-2025 @ step 0:  33%|███ | 1255/3840 [20:20<23:47, 1.81it/s]", [("progress", {})]),
        ("[swarm] one episode worked: reward 1 in 3 s", []),
    ],
)
def test_what_the_runner_takes_from_a_line(line: str, expected: list[Any]) -> None:
    assert seen(line + "\n") == expected


def test_only_boot_and_evaluation_hold_the_first_step_back() -> None:
    holds = {s.pattern: s.hold_s for s in TRAINER.signals() if s.kind is SignalKind.PROGRESS}
    assert sorted(hold >= 60 for hold in holds.values()) == [False, True, True]
    (rolling,) = [p for p, hold in holds.items() if hold < 60]
    assert re.search(rolling.encode(), b"[swarm] engine ENGINE.WEIGHT_SYNCING")


def test_evaluations_of_two_data_sets() -> None:
    reader = TRAINER.reader()
    found = [reader.line(EVAL.format(step, name, rate)) for step, name, rate in ((0, "A", "10%"), (0, "B", "30%"))]
    assert [r and (r.kind, r.step) for r in found] == [(SignalKind.VALIDATION, 0)] * 2
    assert found[1] and found[1].metrics["swarm/task_pass_rate@1"] == pytest.approx(0.2)
    assert found[1].metrics["swarm/B/mean_reward"] == 0.2167
    assert reader.line("[EVAL @ step 3] skipped") is None


def test_steps_of_the_server_and_of_our_watch() -> None:
    step = TRAINER.read_line("step:2 - actor/pg_loss:0.1 - actor/kl_loss:np.float64(0.002)")
    assert step and (step.step, step.metrics["actor/kl_loss"]) == (2, 0.002)
    ours = TRAINER.read_line("[swarm] step 3 kl 0.5")
    assert ours and (ours.kind, ours.step, ours.metrics) == (SignalKind.STEP, 3, {"actor/kl_loss": 0.5})
    pooled = TRAINER.read_line("[swarm] step 3 reward 0.625")
    assert pooled and (pooled.step, pooled.metrics) == (3, {"swarm/collected_reward/mean": 0.625})
    assert TRAINER.read_line("[swarm] engine ENGINE.ROLLING global_step 3") is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python agent_roll.py --split hard", "agentjet_swarm"),
        ("AJET_SWARM_URL=http://gpu7:10086 python train.py", "agentjet_swarm"),
        ("python -m tutorial.opencode_build_aime.agent_roll", "agentjet_swarm"),
        ("python -m tutorial.agent_roller_notes", "generic"),
        ("python -m ajet.launcher --conf x.yaml", "agentjet"),
        ("python my_agent_roller.py", "generic"),
    ],
)
def test_recognition(command: str, name: str) -> None:
    assert registry.choose("", command).name == name


def lengths(prompt: int, response: int, whole: int) -> Recipe:
    data = {"max_prompt_length": prompt, "max_response_length": response}
    return {"ajet": {"data": data, "rollout": {"max_model_len": whole}}}


@pytest.mark.parametrize(
    ("recipe", "codes"),
    [
        ({}, []),
        ({"ajet": {"trainer_common": {"val_before_train": True}}}, ["swarm_val_before_train"]),
        ({"ajet": {"trainer_common": {"val_only": "true", "test_freq": 10}}}, ["swarm_val_only", "swarm_test_freq"]),
        ({"ajet": {"trainer_common": {"val_print_to_markdown_file_path": "/r/v.md"}}}, ["swarm_val_file"]),
        (lengths(3000, 16000, 18000), ["lengths_do_not_fit"]),
        (lengths(3000, 15000, 18000), []),
        ({"ajet": {"lora": {"lora_rank": 32, "load_format": "auto"}}}, ["lora_sync"]),
    ],
)
def test_lint(recipe: Recipe, codes: list[str]) -> None:
    assert [finding.code for finding in TRAINER.lint(recipe)] == codes


def test_the_rest_of_what_a_trainer_says() -> None:
    recipe = {
        "ajet": {
            "experiment_name": "e",
            "project_name": "p",
            "trainer_common": {"n_gpus_per_node": 4, "kl_loss_coef": 0.002},
        }
    }
    assert TRAINER.resumes(recipe) == ("./saved_checkpoints/p/e/latest_checkpointed_iteration.txt",)
    assert TRAINER.resumes({}) == ()
    assert (TRAINER.gpus(recipe), TRAINER.gpus({})) == (4, None)
    assert list(TRAINER.space(recipe)) == ["ajet.trainer_common.kl_loss_coef"]
    objective = TRAINER.objective({})
    assert objective and objective.metric == "swarm/task_pass_rate@1"
    assert (TRAINER.seed({}), TRAINER.seed_key) == (None, "")


def test_a_model_whose_template_drops_thinking_is_named_by_recipe_or_environment() -> None:
    def told(recipe: Recipe, **environment: str) -> list[str]:
        here = Circumstances("/code", "/r", 1.0, environment, lambda _: True, lambda path: path == "/models/a")
        return [finding.code for finding in TRAINER.lint_here(recipe, here)]

    assert told({"ajet": {"model": {"path": "/models/a"}}}) == told({}, REMOTE_MODEL_PATH="/models/a")
    assert told({}, REMOTE_MODEL_PATH="/models/a") == ["drops_thinking"]
    assert told({}) == told({"ajet": {"model": {"path": "/models/b"}}}, REMOTE_MODEL_PATH="/models/a") == []
