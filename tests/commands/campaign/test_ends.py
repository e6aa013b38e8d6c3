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


def test_a_run_is_cut_at_the_deadline_and_that_judges_nothing(camp: Any) -> None:
    """Nobody knows how long it takes: it is begun, and its limit is what the deadline leaves."""
    camp.recipe(mode="endless")
    began = time.time()

    def clock() -> float:
        """It stands still until the run has begun, however long that takes."""
        return time.time() if camp.state().live or camp.state().rows else began

    keys = {"space": {"lr": [0.5, 0.2]}, "proposer": "grid", "baseline": 1, "confirm": False}
    (row,) = camp.run("--deadline", "8s", clock=clock, **keys).rows
    assert (row.ending, row.status, row.failure, row.standing) == ("max_time", "discard", "campaign_stopped", "pending")
    assert "the campaign's deadline had come" in row.description


def test_by_budget_and_each_run_has_a_gpu_of_its_own(camp: Any) -> None:
    tools = camp.bench.root / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    camp.bench.env["PATH"] = f"{tools}:{os.environ['PATH']}"
    camp.recipe(mode="hold", sleep=0.3)

    def clock() -> float:
        """Two run at once before the budget is spent."""
        if len(camp.state().live) == 2:
            camp.go.touch()
        return time.time()

    keys = {"queue": camp.ideas(*WORSE), "retests": 0, "confirm": False, "gpus": "all", "parallel": 2}
    found = camp.run("--set", "budget_gpu_hours=0.0001", clock=clock, **keys)  # 0.36 s
    assert found.reason.startswith("stop condition met: 0.00 of 0.0001 GPU hours are spent"), found.reason
    assert found.gpu_hours >= 0.0001 and found.attempted < 9
    assert {camp.told(row, "GPU") for row in found.rows} == {"0", "1"}


def test_what_is_asked_for_while_the_report_is_written_is_done(camp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoresearch.lab.campaign_report import progress
    from autoresearch.lab.campaigns import context

    write, counts = progress.write_end, [3]

    def write_end(campaign_dir: Any, *words: Any) -> None:
        if counts:
            context.ask(campaign_dir, "set", count=counts.pop())
        write(campaign_dir, *words)

    monkeypatch.setattr(progress, "write_end", write_end)
    found = camp.run(queue=camp.ideas(*WORSE), count=2, retests=0, confirm=False, baseline=2)
    assert (found.attempted, found.phase) == (3, "ended"), camp.said()
    assert (camp.place.path / "finish.flag").exists()
