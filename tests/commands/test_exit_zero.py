"""Runs whose exit code says something else than their training: 0 of one that failed, a stall of one that was over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

CASES = Path(__file__).parents[1] / "samples/first_contact"
def ran(bench: Any, script: str, command: str, metric: str = "reward", check: int | None = None, *args: str) -> Any:
    (bench.repo / "train.py").write_text(script)
    notes = f"- metric: {metric}\n- direction: {'minimize' if metric == 'loss' else 'maximize'}"
    path = bench.unknown("", notes=notes)
    path.write_text(path.read_text().replace("python odd.py", command))
    return bench.ask("run", path, *args, check=check)


def test_a_traceback_that_is_the_last_word_is_a_crash(bench: Any) -> None:
    shutil.copy(CASES / "exit0-after-traceback/run.sh", bench.repo)
    done = ran(bench, (CASES / "exit0-after-traceback/train.py").read_text(), "bash run.sh", check=10)
    assert (done["ending"], done["verdict"], done["returncode"]) == ("finished", "crash", 0)
    assert "illegal memory access" in done["failure_line"]


def test_steps_that_stop_short_of_their_total(bench: Any) -> None:
    script = 'for s in range(1, 4): print(f"step {s}/10 reward {s * .1:.2f}", flush=True)\n'
    done = ran(bench, script + "import os; os._exit(9)\n", "python train.py; echo done", check=10)
    assert (done["verdict"], done["failure"]) == ("crash", "ended_early")
    assert done["failure_line"] == "step 3/10 reward 0.30"
    assert ran(bench, script, "python train.py")["verdict"] == "keep", "its own exit code says that it ended well"


@pytest.mark.waits
def test_a_launcher_that_returns_while_its_training_runs(bench: Any) -> None:
    done = ran(bench, (CASES / "daemon-keep/train.py").read_text(), "python train.py", check=10)
    assert (done["verdict"], done["failure"]) == ("crash", "left_training")
    assert "while what it started was still printing steps" in done["failure_line"]


STALLS = ("--stall-timeout", "2s", "--grace", "60s")


@pytest.mark.waits
def test_a_training_that_is_over_and_then_hangs_is_measured_and_flagged(bench: Any) -> None:
    done = ran(bench, (CASES / "hang-after-end/train.py").read_text(), "python train.py", "reward", 0, *STALLS)
    assert (done["ending"], done["verdict"], done["metrics"]["reward"]) == ("stalled", "keep", 0.5)
    assert any("hung until the stall limit" in text for text in done["warnings"])
    (row,) = bench.ask("ledger", "show", done["run"])["rows"]
    assert (row["status"], row["ending"]) == ("keep", "stalled")
    assert "hung until the stall limit" in row["flags"]
