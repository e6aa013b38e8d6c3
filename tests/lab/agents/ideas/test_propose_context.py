"""What is read of a campaign, and what is left out where it cannot be read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.lab.agent_work.artifacts import gpus_here
from autoresearch.lab.agent_work.propose_context import ProposeContext
from autoresearch.lab.agent_work.propose_prompt import brief

pytestmark = pytest.mark.system

Build = Callable[..., ProposeContext]


def test_what_is_read(lived: Any, matter_of: Build) -> None:
    matter = matter_of(lived)
    assert matter.recipe["lr"] == 0.3 and matter.baseline["lr"] == 0.1
    assert (matter.trainer, matter.command) == ("generic", "python train.py --config recipe.yaml")
    assert [run for run, _ in matter.seen] == ["best-000004", "baseline-000003"]
    assert matter.metrics == {"task_pass_rate@1"}
    assert matter.stand.sentence.startswith("10/12")


def test_what_a_failed_run_said_is_its_proving_line(lived: Any, matter_of: Build) -> None:
    run_dir = lived.place.path / "oom-1"
    run_dir.mkdir()
    lived.idea("oom-2", "Thrice the batch", parent="lr-up")
    row = lived.run("oom-2", None, "crash", failure="memory")
    place = lived.place.path / "oom-2-1"
    (place / "exit.json").write_text(json.dumps(EXIT))
    done = {"row": asdict(row), "failure_line": "CUDA out of memory. Tried", "results": "x"}
    (place / "collected.json").write_text(json.dumps(done))
    assert row.run_dir == str(place)
    text = brief(matter_of(lived), 1)
    assert "\noom-2 | lr-up | Thrice the batch | crashed | - | memory: CUDA out of memory. Tried\n" in text


EXIT = {
    "schema": 1,
    "run": "oom-2-000001",
    "ending": "crashed",
    "returncode": 1,
    "reason": "exit code 1",
    "started": 1.0,
    "ended": 2.0,
    "duration_s": 1.0,
}


def test_diffs_are_of_the_code_that_new_ideas_build_on(campaign: Callable[..., Any], matter_of: Build) -> None:
    made = campaign()
    for n, parent in enumerate(("baseline", "code-0", "code-1", "code-0")):
        made.idea(f"code-{n}", "Change code", parent=parent, files={f"f{n}.py": "x"})
        made.run(f"code-{n}", 0.6 + n / 100, "discard" if n == 3 else "keep", curve=False)
    made.idea("config", "Change lr", overrides={"lr": 0.9}, parent="code-2")
    made.run("config", 0.9, "keep", curve=False)
    matter = matter_of(made)
    assert list(matter.diffs) == ["code-0", "code-1", "code-2"]
    assert any(text.startswith("+print('code-2") for _, text in matter.diffs["code-2"].lines)


def test_what_the_machine_and_the_data_are(
    campaign: Callable[..., Any], matter_of: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "nvidia-smi"
    rows = "\n".join(f"{n}, GPU-{n}, NVIDIA H200, 143771, 5" for n in range(2))
    smi.write_text(f"#!/bin/sh\necho '{rows}'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    gpus_here.cache_clear()
    made = campaign(gpus_per_run=1, shown=(ExtraPath("data", Way.LINK, True, 1_200_000_000),))
    (made.root / "eval.csv").write_text("x" * 200_000)
    made.git("add", "-A")
    made.git("commit", "-qm", "data")
    made.spec = replace(made.spec, base_commit=made.git("rev-parse", "HEAD"))
    text = brief(matter_of(made), 1)
    assert "The GPUs of this machine: 2 of NVIDIA H200 with 140 GiB." in text
    assert "Its data, beside the code: data/ (1.2 GB), eval.csv (0.2 MB)." in text
    gpus_here.cache_clear()


def test_what_is_gone_is_left_out(lived: Any, matter_of: Build) -> None:
    for path in lived.place.path.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    matter = matter_of(lived)
    assert not matter.seen and not matter.metrics
    assert "No metrics of a run could be read" in brief(matter, 1)


def test_a_campaign_without_a_run(campaign: Callable[..., Any], matter_of: Build) -> None:
    made = campaign()
    made.place.ledger.unlink()
    text = brief(matter_of(made), 2)
    assert "The noise is not known yet." in text and "Give 2 hypotheses" in text
