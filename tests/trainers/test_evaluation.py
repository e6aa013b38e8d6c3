"""What is read from the log of an evaluation: whatever way it says `metric: value`, and nothing from prose."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading
from autoresearch.lab.results.measure import EvaluationLog
from autoresearch.readers.console import merged, read_whole_log
from autoresearch.trainers import registry


def read(tmp_path: Path, text: str, trainer: str = "generic", lines: tuple[str, ...] = ()) -> tuple[Reading, ...]:
    log = tmp_path / "evaluation.log"
    log.write_text(text)
    return merged(read_whole_log(log, EvaluationLog(registry.by_name(trainer, lines), 20), ended=True))


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("pass@1: 0.41", 20),
        ("  pass@1 = 0.41\n", 20),
        ("pass@1:        0.41\n", 20),
        ("  pass@1                   =       0.41\n", 20),
        ("pass@1\t:\t0.41\n", 20),
        ("samples   : 100\npass@1    : 0.41\n", 20),
        ('{"pass@1": 0.41, "samples": 100}\n', 20),
        ("result {'pass@1': np.float64(0.41)}\n", 20),
        ('{"step": 12, "pass@1": 0.41}\n', 12),
        ("pass@1: 0.3\npass@1: 0.35\nbye\npass@1: 0.41\n", 20),
        ("|Tasks|n-shot|Metric| |Value |\n|-----|-----:|------|-|-----:|\n|math |     0|pass@1|^|0.4100|\n", 20),
        ("\x1b[32mpass@1: 0.41\x1b[0m\r\n", 20),
    ],
)
def test_a_metric(tmp_path: Path, text: str, step: int) -> None:
    (found,) = read(tmp_path, text)
    assert (found.step, found.metrics.get("math/pass@1", found.metrics.get("pass@1"))) == (step, 0.41)


@pytest.mark.parametrize(
    "text", ["", "$ echo pass@1: 0.41\n", "pass@1 was better: 41%\n", "pass@1: n/a\n", '{"pass@1": 0.4', "\0\0\xff\n"]
)
def test_a_near_miss(tmp_path: Path, text: str) -> None:
    assert all("pass@1" not in found.metrics for found in read(tmp_path, text))


def test_lines_of_its_trainer_and_of_its_blueprint(tmp_path: Path) -> None:
    line = "step:7 - global_steps:7 - pass_n:2 - task_pass_rate@1:0.4 - mean_reward:0.4"
    (found,) = read(tmp_path, line, "verl")
    assert (found.step, found.metrics["task_pass_rate@1"]) == (7, 0.4)
    (found,) = read(tmp_path, "ACC 0.4 after 7", lines=(r"validation ^ACC (?P<acc>\S+) after (?P<step>\d+)",))
    assert (found.step, found.metrics["acc"]) == (7, 0.4)
