"""AgentJet's dict-per-line files: numpy 1 and 2, NaN, lines without a step, headings and torn tails."""

from __future__ import annotations

import math
from pathlib import Path

from autoresearch.core.metrics.signal import Reading
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.jsonl import read_jsonl
from autoresearch.readers.read import read_source, sniff
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"


def read(tmp_path: Path, text: str) -> list[Reading]:
    path = tmp_path / "val.md"
    path.write_text(text)
    return list(read_jsonl(path))


def test_agentjet_validation() -> None:
    found = list(read_jsonl(SAMPLES / "agentjet_val.md"))
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 20)]
    assert found[1].metrics["task_pass_rate@1"] == 0.63
    assert found[1].metrics["std_reward"] == 0.482
    assert "target_dataset_name" not in found[1].metrics


def test_tinygrpo_files() -> None:
    found = list(read_jsonl(SAMPLES / "tinygrpo_val.md"))
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 2), ("validation", 4)]
    trained = list(read_jsonl(SAMPLES / "tinygrpo_nan_train.md"))
    assert [(r.kind.value, r.step) for r in trained] == [("step", 1), ("step", 2), ("step", 3)]
    assert math.isnan(trained[2].metrics["actor/grad_norm"])


def test_training_without_a_step_is_counted(tmp_path: Path) -> None:
    assert [r.step for r in read(tmp_path, "{'actor/pg_loss': 1}\n{'actor/pg_loss': 2}\n")] == [1, 2]


LINE = "{'global_steps': %d, 'pass_n': 4, 'total_tasks': 8, 'task_pass_rate@1': %s}\n"


def test_what_an_older_run_appended_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "val.md"
    path.write_text(LINE % (10, 0.9) + LINE % (20, 0.95))
    held = path.stat().st_size
    with path.open("a") as file:
        file.write(LINE % (10, 0.1) + LINE % (20, 0.2))
    source = Source(SourceFormat.DICT_LINES, str(path))
    found = list(read_source(source, tmp_path, held, registry.by_name("agentjet")).readings)
    assert [(r.step, r.metrics["task_pass_rate@1"]) for r in found] == [(10, 0.1), (20, 0.2)]


def test_the_training_file_holds_a_validation_too(tmp_path: Path) -> None:
    line = "{'critic/real_reward': np.float64(0.5), 'actor/pg_loss': nan, 'task_pass_rate@1': 0.3, 'pass_n': 4, "
    first = "{'actor/pg_loss': 0.5, 'training/global_step': 19}\n"
    (tmp_path / "train.md").write_text(first + line + "'training/global_step': 20, 'training/epoch': 0}\n")
    source = Source(sniff(tmp_path / "train.md"), "train.md", 1)
    _, step, validation = read_source(source, tmp_path, 0, registry.by_name("agentjet")).readings
    assert (step.step, step.metrics["critic/real_reward"]) == (20, 0.5)
    assert math.isnan(step.metrics["actor/pg_loss"])
    assert (validation.step, validation.metrics) == (20, {"task_pass_rate@1": 0.3, "pass_n": 4})


def test_everything_else_is_skipped(tmp_path: Path) -> None:
    text = (
        "## Step 10\n- task_pass_rate@1: 21.67%\n\n[1]\n{'a': os.system('true')}\n"
        "{'global_steps': 5, 'task_pass_rate@1': nan}\n{'global_steps': 10, 'task_pass_rate@1': 0.4"
    )
    (found,) = read(tmp_path, text)
    assert found.step == 5
    assert math.isnan(found.metrics["task_pass_rate@1"])


def test_a_missing_file(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.md")) == []
