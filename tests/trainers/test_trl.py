"""TRL: dicts of numbers or of texts, the step of the bar behind them, a flat recipe and its flags."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.trainers.trl import Trl
from tests.line_signals import read_line
from tests.readers.best_source import read_best

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
TRL = Trl()


def read(path: Path) -> list[tuple[str, int, dict[str, float]]]:
    found = list(read_source(Source(SourceFormat.CONSOLE, str(path)), Path(), 0, TRL).readings)
    return [(r.kind.value, r.step, dict(r.metrics)) for r in found]


def test_a_bar_says_how_many_steps_lie_between(tmp_path: Path) -> None:
    line = "{'loss': 0.5, 'epoch': %s}\n\r %d%%|##  | %d/100 [00:10<01:00, 1.1it/s]"
    bars = "\r  0%|    | 0/100 [00:00<?, ?it/s]\r  5%|#   | 5/100 [00:05<01:00, 1.1it/s]\r   \r"
    text = bars + line % (0.1, 10, 10) + "\r   \r" + line % (0.2, 20, 20) + "\r    \r"
    text += "{'loss': 0.25, 'epoch': 0.3}\n"
    (tmp_path / "run.log").write_text(text)
    assert [(n, metrics["loss"]) for _, n, metrics in read(tmp_path / "run.log")] == [(10, 0.5), (20, 0.5), (21, 0.25)]


def test_a_dict_that_names_its_step_needs_no_bar(tmp_path: Path) -> None:
    first = "{'loss': 0.63, 'epoch': 0.08, 'step': 500}\n 33%|#   | 501/1500 [01:00<02:00]\n"
    last = "{'loss': 0.59, 'epoch': 0.26, 'step': 1500}\n"
    (tmp_path / "run.log").write_text(f"  0%|    | 0/1500 [00:00<?, ?it/s]\n{first}{last}")
    assert [(n, metrics["loss"]) for _, n, metrics in read(tmp_path / "run.log")] == [(500, 0.63), (1500, 0.59)]


def test_the_bar_of_an_evaluation_tells_no_step(tmp_path: Path) -> None:
    bars = "\r  0%|    | 0/6 [00:00<?, ?it/s]\r 50%|#   | 3/6 [00:05<01:00, 1.1it/s]\r   \r"
    text = bars + "{'loss': 0.5, 'epoch': 0.1}\n\r 25%|#   | 1/4 [00:01<00:03, 1it/s]\r 50%|#   | 3/6 [00:05<01:00]\n"
    (tmp_path / "run.log").write_text(text)
    assert [n for _, n, _ in read(tmp_path / "run.log")] == [3]


def test_the_trainer_state_is_believed_and_agrees(tmp_path: Path) -> None:
    console = read(SAMPLES / "trl_v5_tqdm.log")
    history = [{**metrics, "reward": metrics["reward"] + 1e-6, "step": n} for k, n, metrics in console if k == "step"]
    (tmp_path / "checkpoint-6").mkdir()
    (tmp_path / "checkpoint-6" / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    sources = [*TRL.sources({"output_dir": str(tmp_path)}), Source(SourceFormat.CONSOLE, "trl_v5_tqdm.log", 100)]
    best = read_best(sources, {}, trainer=TRL, objective=Objective("reward"), base=SAMPLES)
    assert (best.where, best.warnings) == (str(tmp_path), ())
    assert Objective("reward").last(Objective("reward").series(best.readings)) == (6, 0.07217 + 1e-6)


def test_odd_values() -> None:
    bar = "100%|#| 6/6 [00:01<00:00, 1it/s]"
    reading = read_line(TRL, bar + "{'loss': nan, 'grad_norm': 'inf', 'rewards/r': None, 'epoch': 1.0}")
    assert reading is not None
    assert math.isnan(reading.metrics["loss"])
    assert math.isnan(reading.metrics["rewards/r"])
    assert reading.metrics["grad_norm"] == math.inf


RECIPE: Recipe = {"output_dir": "/o", "seed": 3, "learning_rate": "1e-6", "beta": 0.0, "num_generations": 8}


def test_a_recipe_and_its_flags() -> None:
    assert TRL.objective(RECIPE) == Objective("reward")
    assert TRL.sources(RECIPE) == (Source(SourceFormat.TRAINER_STATE, "/o"),)
    assert TRL.sources({**RECIPE, "save_strategy": "no"}) == ()
    board = Source(SourceFormat.TENSORBOARD, "/o/runs/*", 10)
    for asked in ("tensorboard", "all", ["wandb", "tensorboard"]):
        assert TRL.sources({**RECIPE, "report_to": asked})[1:] == (board,)
    assert TRL.sources({**RECIPE, "report_to": "all", "logging_dir": "/l"})[1].path == "/l"
    assert TRL.sources({**RECIPE, "report_to": ["wandb"]})[1:] == ()
    assert [TRL.key_of(tag) for tag in ("train/kl", "eval/rewards/r/mean", "lr")] == ["kl", "eval_rewards/r/mean", "lr"]
    assert (TRL.seed(RECIPE), TRL.seed({}), TRL.seed_key) == (3, 42, "seed")
    assert TRL.outputs(RECIPE) == (Output("output_dir", "output"),)
    assert set(TRL.space(RECIPE)) == {"learning_rate"}
    found = TRL.settings(RECIPE, "trl sft --config c.yaml --seed 5 --eval_strategy steps --bf16")
    assert (TRL.seed(found), found["bf16"]) == (5, True)
    assert TRL.objective(found) == Objective("eval_loss", Direction.MINIMIZE)
    assert TRL.objective({**RECIPE, "eval_strategy": "steps"}) == Objective("eval_reward")
    assert TRL.objective({}) is None
    assert TRL.arguments({"learning_rate": 3e-06, "bf16": True}) == ("--learning_rate", "3e-06", "--bf16")


@pytest.mark.parametrize(
    ("recipe", "command", "gpus"),
    [
        ({}, "trl grpo --num_processes 4", 4),
        ({"num_processes": 2}, "trl sft --config c.yaml", 2),
        ({"use_cpu": True}, "trl sft --config c.yaml", 0),
        ({}, "trl grpo --config c.yaml", None),
    ],
)
def test_gpus(recipe: Recipe, command: str, gpus: int | None) -> None:
    assert TRL.gpus(TRL.settings(recipe, command)) == gpus


def test_examples_of_experimental_trainers() -> None:
    found = TRL.settings({"output_dir": "/o"}, "accelerate launch examples/scripts/async_grpo.py")
    assert TRL.objective(found) == Objective("reward")
    assert TRL.objective(TRL.settings({}, "python examples/scripts/gspo.py")) == Objective("reward")
