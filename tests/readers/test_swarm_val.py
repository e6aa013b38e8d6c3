"""The validation file of a swarm client."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.jsonl import read_swarm_val
from autoresearch.readers.read import read_source
from autoresearch.trainers.registry import by_name

SECTION = """
## Step {step}
- dataset: {name}
- pass_n: 4
- total_tasks: 30
- num_all_success_tasks: 3
- num_pass_n_tasks: 11
- task_pass_rate@1: {rate}%
- task_pass_rate@4: 36.67%
- mean_reward: 0.2167
- std_reward: 0.4120
- n_rollouts: 120
"""


def written(path: Path, *sections: tuple[int, str, float]) -> Path:
    path.write_text("".join(SECTION.format(step=step, name=name, rate=rate) for step, name, rate in sections))
    return path


def test_a_step_is_repeated_for_each_data_set(tmp_path: Path) -> None:
    path = written(tmp_path / "v.md", (0, "A", 10.0), (0, "B", 20.0), (10, "A", 30.0), (10, "B", 21.67))
    source = Source(SourceFormat.SWARM_VAL, str(path))
    first, last = read_source(source, Path(), 0, by_name("agentjet_swarm")).readings
    assert (first.kind, first.step, last.step) == (SignalKind.VALIDATION, 0, 10)
    assert last.metrics["swarm/B/task_pass_rate@1"] == pytest.approx(0.2167)
    assert last.metrics["swarm/task_pass_rate@1"] == pytest.approx((0.30 + 0.2167) / 2)
    assert last.metrics["swarm/n_rollouts"] == 120.0
    assert "task_pass_rate@1" not in last.metrics  # classic mode's name


def test_what_an_earlier_run_wrote_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "v.md", (0, "A", 10.0))
    offset = path.stat().st_size
    with path.open("a") as file:
        file.write(SECTION.format(step=5, name="A", rate=50.0))
    assert [reading.step for reading in read_swarm_val(path, offset)] == [5]


def test_torn_odd_and_missing_files(tmp_path: Path) -> None:
    assert list(read_swarm_val(tmp_path / "none.md")) == []
    path = tmp_path / "v.md"
    text = "# Results\n- x: 1\n## Step 1\n- **mean_reward**: 0.5\n- note: good\n## Stepwise\n- mean_reward: 0.7"
    path.write_text(text)
    assert list(read_swarm_val(path)) == [Reading(SignalKind.VALIDATION, 1, {"swarm/mean_reward": 0.5})]
    path.write_text("## Step 3\n- dataset: A\n- mean_reward: nan\n")
    (found,) = read_swarm_val(path)
    assert found.metrics["swarm/mean_reward"] != found.metrics["swarm/mean_reward"]
