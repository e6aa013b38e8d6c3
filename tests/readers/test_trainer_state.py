"""trainer_state.json: the newest state, its history, and what is no history."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoresearch.readers.jsonl import read_trainer_state, state_file

HISTORY = [
    {"epoch": 0.03125, "loss": 0.25, "reward": 0.04573, "kl": 0.0, "step": 10},
    {"epoch": 0.0625, "eval_loss": -0.06924, "eval_reward": 0.04978, "step": 10},
    {"epoch": 0.1, "loss": "nan", "step": 20},
    {"train_runtime": 0.34, "train_loss": 0.01, "epoch": 0.1, "step": 20},
]


def put(path: Path, history: list[dict[str, object]], at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"global_step": 20, "log_history": history}))
    os.utime(path, (at, at))


def test_the_history_of_the_last_checkpoint(tmp_path: Path) -> None:
    put(tmp_path / "checkpoint-9" / "trainer_state.json", [], 1)
    put(tmp_path / "checkpoint-10" / "trainer_state.json", list(HISTORY), 2)
    (tmp_path / "checkpoint-11").mkdir()  # being written
    found = [(r.kind.value, r.step) for r in read_trainer_state(tmp_path)]
    assert found == [("step", 10), ("validation", 10), ("step", 20)]
    first = next(read_trainer_state(tmp_path / "checkpoint-10" / "trainer_state.json"))
    assert first.metrics == {"epoch": 0.03125, "loss": 0.25, "reward": 0.04573, "kl": 0.0}


def test_the_state_that_the_script_saved_at_its_end(tmp_path: Path) -> None:
    put(tmp_path / "checkpoint-10" / "trainer_state.json", [], 1)
    put(tmp_path / "trainer_state.json", list(HISTORY), 2)
    assert state_file(tmp_path) == tmp_path / "trainer_state.json"
    os.utime(tmp_path / "trainer_state.json", (0, 0))  # of an older run in the same directory
    assert state_file(tmp_path) == tmp_path / "checkpoint-10" / "trainer_state.json"


@pytest.mark.parametrize("text", ["", '{"log_history": [{"a": 1', "[]", '{"log_history": 3}', '{"log_history": [4]}'])
def test_no_history(tmp_path: Path, text: str) -> None:
    (tmp_path / "trainer_state.json").write_text(text)
    assert list(read_trainer_state(tmp_path)) == []
    assert list(read_trainer_state(tmp_path / "none")) == []
