"""agent_roll.py and its one-episode check as real programs, against a stand-in for AgentJet that checks its calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

FAST = ["--batch-size", 1, "--grpo-repeat", 2, "--max-parallel", 2, "--total-training-steps", 2, "--n-gpu", 1]


@pytest.fixture
def roll(scaffold: Any, model: Any, stub: dict[str, str], tmp_path: Path) -> Callable[..., Any]:
    """Run one of the two files; gives what was printed and the calls that the server saw."""

    def run(name: str, *words: object, mode: str = "ok", agent: str = "ok", check: int = 0, made: Any = None) -> Any:
        log = tmp_path / "calls.jsonl"
        log.write_text("")
        made = made or scaffold(agent)
        env = {**stub, "STUB_LOG": str(log), "STUB_MODE": mode, "STUB_BASE_URL": model.url}
        done = made.run(name, *FAST, "--result-dir", tmp_path / "results", *words, check=check, **env)
        return done, [json.loads(line) for line in log.read_text().splitlines()]

    return run


def test_a_training_from_its_first_evaluation_to_its_last(roll: Any, model: Any, reaper: Any, tmp_path: Path) -> None:
    done, calls = roll("agent_roll.py", "--eval-interval", 1, "--eval-k", 2, "--lr", "3e-6")
    start = calls[0]
    assert start["call"] == "start" and start["lr"] == 3e-6
    assert (start["batch_size"], start["num_repeat"], start["n_gpu"], start["algorithm"]) == (1, 2, 1, "grpo")
    begun = {call["episode"]: call["type"] for call in calls if call["call"] == "begin"}
    ended = {call["episode"] for call in calls if call["call"] == "end"}
    aborted = {call["episode"] for call in calls if call["call"] == "abort"}
    assert ended | aborted == set(begun) and not ended & aborted, "each episode is ended once"
    assert {begun[episode] for episode in ended} == {"train"} and {begun[episode] for episode in aborted} == {"eval"}
    tasks = [call["task"] for call in calls if call["call"] == "end"]
    assert len(tasks) >= 4 and all(count % 2 == 0 for count in Counter(tasks).values())
    assert {key.removeprefix("Bearer sk-ajet-") for key in model.keys} == {episode[:8] for episode in begun}
    assert calls[-1]["call"] == "stop" and "[INFO] Training complete!" in done.stdout
    results = tmp_path / "results"
    steps = [line for line in (results / "val_results.md").read_text().splitlines() if line.startswith("## ")]
    assert steps in (["## Step 0", "## Step 1", "## Step 2"], ["## Step 0", "## Step 2"])  # what ran may fill two
    assert (results / "resolved_swarm_config.yaml").is_file()
    assert str(results / "train_results.md") in (results / "resolved_swarm_config.yaml").read_text()
    assert reaper.find() == []

    _published_shape(done, tmp_path)


def test_fewer_items_than_a_batch_are_refused_before_the_engine_starts(roll: Any) -> None:
    done, calls = roll("agent_roll.py", "--batch-size", 9, check=1)
    assert "a step takes 9 different items, and there are 2 to train on" in done.stderr and not calls


def _published_shape(done: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    """As field for field in AgentJet's own auto_train.py."""
    text = (tmp_path / "results" / "val_results.md").read_text()
    assert text.startswith(
        "\n## Step 0\n- dataset: data-held-out\n- pass_n: 2\n- total_tasks: 1\n- num_all_success_tasks: "
    )
    keys = [line.split(":")[0] for line in text.split("\n\n")[0].strip().splitlines()]
    assert keys[1:] == [
        *("- dataset", "- pass_n", "- total_tasks", "- num_all_success_tasks", "- num_pass_n_tasks"),
        *("- task_pass_rate@1", "- task_pass_rate@2", "- mean_reward", "- std_reward", "- n_rollouts"),
    ]
    summary = (tmp_path / "results" / "eval_results.log").read_text().splitlines()[0]
    assert summary.startswith("[EVAL @ step 0] data-held-out  mean_reward=") and summary in done.stdout
    assert summary.endswith("  n_tasks=1  n_rollouts=2")
    assert "EVAL data-held-out @ step 0: 100%|██████████| 2/2 [" in done.stdout


def test_only_the_configuration(roll: Any, tmp_path: Path) -> None:
    _, calls = roll("agent_roll.py", "--prepare-only", "--experiment-name", "mine")
    assert calls == []
    config = json.loads((tmp_path / "results" / "resolved_swarm_config.yaml").read_text())
    assert config["experiment_name"] == "mine" and config["swarm_mode"] is True


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("boot_dies", "the engine went offline; the server's log says why"),
        ("no_server", "no swarm server answers at http://localhost:10086"),
        ("busy", "the engine is ENGINE.ROLLING: something trains already"),
        ("lost", "the engine went offline; the server's log says why"),
    ],
)
def test_an_engine_that_cannot_be_used_ends_the_training(roll: Any, reaper: Any, mode: str, why: str) -> None:
    done, calls = roll("agent_roll.py", "--eval-interval", 0, mode=mode, check=1)
    assert f"agent_roll: {why}" in done.stderr and "Traceback" not in done.stderr
    assert mode in ("boot_dies", "lost") or calls == []
    assert reaper.find() == []


def test_an_engine_that_runs_may_be_stopped_first(roll: Any) -> None:
    _, calls = roll("agent_roll.py", "--eval-interval", 0, "--engine", "restart", "--prepare-only", mode="busy")
    assert calls == []
    _, calls = roll("agent_roll_one_episode_debug.py", "--engine", "restart", mode="busy")
    assert [call["call"] for call in calls][:2] == ["stop", "start"]


def test_an_agent_that_never_works_ends_the_training_instead_of_retrying_for_ever(roll: Any, scaffold: Any) -> None:
    done, calls = roll("agent_roll.py", "--eval-interval", 0, agent="crash", check=1)
    kinds = Counter(call["call"] for call in calls)
    assert kinds["end"] == 0 and 6 <= kinds["abort"] == kinds["begin"] <= 14
    assert "episodes in a row gave no reward" in done.stderr
    assert "gave no reward: the agent ended with 1: ValueError: no such tool" in done.stdout


def test_an_episode_that_comes_too_late_is_not_an_agent_that_fails(roll: Any) -> None:
    done, calls = roll("agent_roll.py", "--eval-interval", 0, mode="late")
    assert "was not taken: SwarmClient error 400" in done.stdout and calls[-1]["call"] == "stop"


def test_one_episode_is_given_back(roll: Any, model: Any) -> None:
    done, calls = roll("agent_roll_one_episode_debug.py", "--item", "row-000001")
    assert json.loads(done.stdout.splitlines()[-1]) == {"item": "row-000001", "reward": 1.0}
    assert [call["call"] for call in calls] == ["start", "begin", "abort"] and len(model.asked) == 1


def test_one_episode_that_fails_is_given_back_and_never_tried_again(roll: Any, model: Any) -> None:
    done, calls = roll("agent_roll_one_episode_debug.py", agent="crash", check=1)
    assert [call["call"] for call in calls] == ["start", "begin", "abort"] and len(model.asked) == 1
    assert "the agent ended with 1" in json.loads(done.stdout.splitlines()[-1])["error"]


def test_one_episode_that_the_server_never_gives(roll: Any, scaffold: Any) -> None:
    made = scaffold()
    path = made.place / "agent_roll_one_episode_debug.py"
    path.write_text(path.read_text().replace("BEGIN_S = 300.0", "BEGIN_S = 1.0"))
    done, _ = roll("agent_roll_one_episode_debug.py", mode="no_episode", check=1, made=made)
    assert "the server gives no episode: 1 s are over" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_training_that_is_told_to_end_leaves_no_agent(
    scaffold: Any, model: Any, stub: Any, reaper: Any, tmp_path: Path, eventually: Any, number: signal.Signals
) -> None:
    made = scaffold("hang")
    env = {**stub, "STUB_LOG": str(tmp_path / "calls"), "STUB_BASE_URL": model.url}
    words = [sys.executable, made.place / "agent_roll.py", "--eval-interval", "0", *map(str, FAST)]

    with subprocess.Popen(words, env={**os.environ, **env}, stdout=subprocess.DEVNULL, cwd=tmp_path) as process:
        eventually(lambda: len(reaper.find()) >= 5)  # itself, two episodes, two agents ...
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert reaper.find() == []
