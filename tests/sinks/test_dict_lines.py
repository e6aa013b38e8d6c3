"""AgentJet's dict-per-line files: numpy 1 and 2, NaN, lines without a step, headings and torn tails."""

from __future__ import annotations

import math
from pathlib import Path

from autoresearch.core.signal import Reading
from autoresearch.sinks.dict_lines import read_dict_lines

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"


def read(tmp_path: Path, text: str) -> list[Reading]:
    path = tmp_path / "val.md"
    path.write_text(text)
    return list(read_dict_lines(path))


def test_agentjet_validation() -> None:
    found = list(read_dict_lines(SAMPLES / "agentjet_val.md"))
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 20)]
    assert found[1].metrics["task_pass_rate@1"] == 0.63
    assert found[1].metrics["std_reward"] == 0.482
    assert "target_dataset_name" not in found[1].metrics


def test_tinygrpo_files() -> None:
    found = list(read_dict_lines(SAMPLES / "tinygrpo_val.md"))
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 2), ("validation", 4)]
    trained = list(read_dict_lines(SAMPLES / "tinygrpo_nan_train.md"))
    assert [(r.kind.value, r.step) for r in trained] == [("step", 1), ("step", 2), ("step", 3)]
    assert math.isnan(trained[2].metrics["actor/grad_norm"])


def test_lines_without_a_step_are_counted(tmp_path: Path) -> None:
    text = "{'task_pass_rate@1': 0.1}\n{'task_pass_rate@1': 0.2, 'std_reward': inf}\n{'TGC@4': np.float64(0.3)}\n"
    assert [(r.kind.value, r.step) for r in read(tmp_path, text)] == [
        ("validation", 0),
        ("validation", 1),
        ("validation", 2),
    ]
    assert [r.step for r in read(tmp_path, "{'actor/pg_loss': 1}\n{'actor/pg_loss': 2}\n")] == [1, 2]


def test_everything_else_is_skipped(tmp_path: Path) -> None:
    text = (
        "## Step 10\n- task_pass_rate@1: 21.67%\n\n[1]\n{'a': os.system('true')}\n"
        "{'global_steps': 5, 'task_pass_rate@1': nan}\n{'global_steps': 10, 'task_pass_rate@1': 0.4"
    )
    (found,) = read(tmp_path, text)
    assert found.step == 5
    assert math.isnan(found.metrics["task_pass_rate@1"])


def test_a_missing_file(tmp_path: Path) -> None:
    assert list(read_dict_lines(tmp_path / "none.md")) == []
