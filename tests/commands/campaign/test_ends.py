"""How a campaign ends: by deadline, by target, by budget, by the first of several rules; it says so in words."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

pytestmark = pytest.mark.system

WORSE = [{"slug": f"worse-{n}", "overrides": {"lr": n}, "parent": "baseline"} for n in range(1, 9)]
SMI = """#!/bin/sh
echo '0, GPU-aaaa, A card, 81559, 0'
echo '1, GPU-bbbb, A card, 81559, 0'
"""


def test_by_deadline_and_no_run_is_begun_that_could_not_end(camp: Any) -> None:
    """Each run takes 0.3 s; when the first idea has its row, a tenth of a second is left of ten hours."""
    camp.recipe(sleep=0.3)

    def clock() -> float:
        late = camp.places and any(idea.index > 1 and idea.rows for idea in camp.state().ideas)
        deadline = camp.state().spec.rules.deadline if late else None
        return float(deadline - 0.1) if deadline else time.time()

    found = camp.run("--deadline", "10h", clock=clock, queue=camp.ideas(*WORSE), retests=0, confirm=False)
    assert found.reason.startswith("stop condition met: 0.1s are left, too short for another run of "), found.reason
    assert found.attempted in (2, 3)  # the third may have been begun before the second's row
    assert all(idea.rows for idea in found.ideas if idea.attempted)


def test_a_run_is_cut_at_the_deadline_and_that_judges_nothing(camp: Any) -> None:
    """Nobody knows how long it takes: it is begun, and its limit is what the deadline leaves."""
    camp.recipe(mode="endless")
    camp.start("--deadline", "8s", space={"lr": [0.5, 0.2]}, proposer="grid", baseline=1, confirm=False)
    (row,) = camp.over().rows
    assert (row.ending, row.status, row.failure, row.standing) == ("max_time", "discard", "campaign_stopped", "pending")
    assert "the campaign's deadline had come" in row.description


def test_by_budget_and_each_run_has_a_gpu_of_its_own(camp: Any) -> None:
    tools = camp.bench.root / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    camp.bench.env["PATH"] = f"{tools}:{os.environ['PATH']}"
    camp.recipe(sleep=0.3)
    keys = {"queue": camp.ideas(*WORSE), "retests": 0, "confirm": False, "gpus": "all", "parallel": 2}
    found = camp.run("--set", "budget_gpu_hours=0.0001", **keys)  # 0.36 s
    assert found.reason.startswith("stop condition met: 0.00 of 0.0001 GPU hours are spent"), found.reason
    assert found.gpu_hours >= 0.0001 and found.attempted < 9
    assert {camp.told(row, "GPU") for row in found.rows} == {"0", "1"}


def test_the_embedded_trainer(camp: Any) -> None:
    """Real GRPO at a tiny recipe, three ideas of the trainer's own space."""
    recipe = {"task": "sort", "sft_steps": 5, "hidden": 8, "total_steps": 2, "batch_size": 2, "group_size": 4}
    more = {"lr": 0.001, "kl_coef": 0.01, "temperature": 1.0, "test_freq": 1, "val_tasks": 4, "val_pass_n": 2}
    where = {"metrics_jsonl_path": "out/metrics.jsonl", "experiment_name": "tiny"}
    text = "".join(f"{key}: {value}\n" for key, value in {**recipe, **more, **where}.items())
    (camp.bench.repo / "tiny.yaml").write_text(text)
    path = camp.bench.blueprint(
        "tiny", name="tiny.md", command="python -m autoresearch.tinygrpo --conf tiny.yaml", trainer="tinygrpo"
    )
    path.write_text(path.read_text().replace("- path: NA", "- path: tiny.yaml"))
    state = camp.run(blueprint="tiny.md", count=3, baseline=1, retests=0, confirm=False)
    assert state.reason == "stop condition met: 3/3 ideas attempted"
    assert state.spec.proposer.name == "tpe" and state.spec.sources["space"] == "the trainer's own, low-risk"
    assert [row.ending for row in state.rows] == ["finished"] * 3
    assert all(row.metric_value is not None and row.trainer == "tinygrpo" for row in state.rows)
    assert len({row.result_dir for row in state.rows}) == 3
