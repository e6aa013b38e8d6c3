"""Objects and tables with metrics: JSONL, dicts, CSV, JSON, and the state of Hugging Face's Trainer."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import Source
from autoresearch.readers.jsonl import read_csv, read_json, read_jsonl, read_trainer_state, state_file
from autoresearch.readers.read import read_source, sniff
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"


def read(tmp_path: Path, data: bytes, offset: int = 0) -> list[Reading]:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(data)
    return list(read_jsonl(path, offset))


def kinds(readings: list[Reading]) -> list[tuple[str, int]]:
    return [(r.kind.value, r.step) for r in readings]


def test_the_sample() -> None:
    found = list(read_jsonl(SAMPLES / "tinygrpo.jsonl"))
    assert kinds(found) == [
        ("validation", 0),
        ("step", 1),
        ("step", 2),
        ("validation", 2),
        ("step", 3),
        ("step", 4),
        ("validation", 4),
    ]
    assert found[0].metrics["task_pass_rate@1"] == 0.004883


def test_null_is_nan() -> None:
    last = list(read_jsonl(SAMPLES / "tinygrpo_nan.jsonl"))[-1]
    assert math.isnan(last.metrics["actor/grad_norm"])
    assert last.step == 3


def test_training_and_validation_in_one_object(tmp_path: Path) -> None:
    found = read(tmp_path, b'{"step": 20, "data": {"actor/pg_loss": 0.1, "val-core/a/acc/mean@1": 0.5}}\n')
    assert kinds(found) == [("step", 20), ("validation", 20)]
    assert found[1].metrics == {"val-core/a/acc/mean@1": 0.5}


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b'{"step": 3, "loss": 0.5}', 3),
        (b'{"global_step": 3, "loss": 0.5}', 3),
        (b'{"training/global_step": 3, "loss": 0.5}', 3),
        (b'{"loss": 0.5}', 1),
        (b'{"loss": NaN, "step": 9}', 9),
        (b'{"loss": Infinity, "step": 9}', 9),
    ],
)
def test_flat_objects(tmp_path: Path, line: bytes, step: int) -> None:
    (found,) = read(tmp_path, line + b"\n")
    assert (found.kind.value, found.step) == ("step", step)
    assert "loss" in found.metrics


def test_numbers_in_quotes_count_and_a_coarser_step_is_of_the_last_finer_one(tmp_path: Path) -> None:
    """As fairseq writes them: an epoch in each object, and updates in those of training."""
    found = read(
        tmp_path,
        b'{"epoch": 25, "loss": "3.097", "num_updates": 53749, "clip": "100%"}\n{"epoch": 25, "valid_loss": 3.11}\n'
        b'{"epoch": 26, "loss": "3.095", "num_updates": 55899}\n{"epoch": 1e400, "loss": 1}\n',
    )
    assert [(one.step, one.metrics.get("loss"), one.metrics.get("valid_loss")) for one in found] == [
        (53749, 3.097, None),
        (53749, None, 3.11),
        (55899, 3.095, None),
        (55900, 1.0, None),
    ]


def test_what_is_no_object_is_skipped(tmp_path: Path) -> None:
    data = (
        b'\n[1]\n"x"\n7\nnull\nnot json\n{"step": 1, "data": {"actor/lr": "text"}}\n\xff\xfe{\n'
        + b"{" * 100_000
        + b'\n{"step": 2, "data": {"actor/lr": 1}}\n{"step": 3, "data": {"actor/lr": 0.'
    )
    assert kinds(read(tmp_path, data)) == [("step", 2)]


def test_a_whole_last_line_without_newline_counts(tmp_path: Path) -> None:
    assert kinds(read(tmp_path, b'{"step": 1, "loss": 1}\n{"step": 2, "loss": 1}')) == [("step", 1), ("step", 2)]


def test_bytes_of_an_earlier_run_and_holes(tmp_path: Path) -> None:
    old, new = b'{"step": 9, "loss": 1}\n', b'\0\0\0{"step": 1, "loss": 1}\n'
    assert kinds(read(tmp_path, old + new, len(old))) == [("step", 1)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "epoch,step,train_loss,val_loss\n0,49,0.5,\n0,99,,0.4\n1,149,0.3,0.2", [(49, 0.5), (99, None)]),
        ("a.tsv", "epoch\ttrain_loss\tnote\n3\t0.5\tbest, so far\n4\tnan\t\n", [(3, 0.5), (4, math.nan)]),
        ("a.csv", "train_loss;reward\r\n0.5;1\r\n0.25;2\r\n", [(1, 0.5), (2, 0.25)]),
        ("a.csv", "", []),
        ("a.json", '{\n "train_loss": 0.5,\n "name": "x"\n}', [(1, 0.5)]),
        ("a.json", '[{"step": 3, "train_loss": 0.5}, {"step": 5, "train_loss": 0.25}, 7]', [(3, 0.5), (5, 0.25)]),
        ("a.json", '{"step": 1, "train_loss": 0.5}\n{"step": 2, "train_loss": 0.4}\n{"st', [(1, 0.5), (2, 0.4)]),
        ("a.json", "{", []),
    ],
)
def test_tables_and_documents(tmp_path: Path, name: str, text: str, expected: list[tuple[int, float | None]]) -> None:
    (tmp_path / name).write_text(text)
    found = read_source(Source(sniff(tmp_path / name), name), tmp_path, 0, registry.by_name("generic")).readings
    assert repr([(one.step, one.metrics.get("train_loss")) for one in found]) == repr(expected)


def test_what_an_earlier_run_wrote_to_a_table_is_left_out_and_nested_names_are_joined(tmp_path: Path) -> None:
    head = "step,loss\n1,0.5\n"
    (tmp_path / "a.csv").write_text(head + "2,0.4\n")
    assert [one.step for one in read_csv(tmp_path / "a.csv", len(head))] == [2]
    (tmp_path / "a.json").write_text('{"results": {"arc": {"acc": 0.6, "alias": "arc"}}}')
    assert [one.metrics for one in read_json(tmp_path / "a.json")] == [{"results/arc/acc": 0.6}]


# AgentJet's files hold a dict on each line, of numpy 1 or 2.


def test_agentjet_validation() -> None:
    found = list(read_jsonl(SAMPLES / "agentjet_val.md"))
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 20)]
    assert found[1].metrics["task_pass_rate@1"] == 0.63
    assert found[1].metrics["std_reward"] == 0.482
    assert "target_dataset_name" not in found[1].metrics


def test_the_training_file_holds_a_validation_too(tmp_path: Path) -> None:
    line = "{'critic/real_reward': np.float64(0.5), 'actor/pg_loss': nan, 'task_pass_rate@1': 0.3, 'pass_n': 4, "
    first = "{'actor/pg_loss': 0.5, 'training/global_step': 19}\n"
    (tmp_path / "train.md").write_text(first + line + "'training/global_step': 20, 'training/epoch': 0}\n")
    source = Source(sniff(tmp_path / "train.md"), "train.md", 1)
    _, step, validation = read_source(source, tmp_path, 0, registry.by_name("agentjet")).readings
    assert (step.step, step.metrics["critic/real_reward"]) == (20, 0.5)
    assert math.isnan(step.metrics["actor/pg_loss"])
    assert (validation.step, validation.metrics) == (20, {"task_pass_rate@1": 0.3, "pass_n": 4})


def test_of_dicts_everything_else_is_skipped(tmp_path: Path) -> None:
    text = (
        "## Step 10\n- task_pass_rate@1: 21.67%\n\n[1]\n{'a': os.system('true')}\n"
        "{'global_steps': 5, 'task_pass_rate@1': nan}\n{'global_steps': 10, 'task_pass_rate@1': 0.4"
    )
    (found,) = read(tmp_path, text.encode())
    assert found.step == 5
    assert math.isnan(found.metrics["task_pass_rate@1"])


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
