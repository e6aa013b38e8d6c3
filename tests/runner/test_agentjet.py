"""AgentJet's launcher under a real Runner: its clock during a validation, and what it leaves behind."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from autoresearch.trainers.agentjet import AgentJet

pytestmark = pytest.mark.system

SIGNALS = [asdict(signal) for signal in AgentJet().signals()]
STEP = "step:1 - critic/real_reward:np.float64(0.44) - actor/kl_loss:np.float64(4.2e-05) - training/global_step:1"


def test_the_first_validation_holds_the_clock(yard: Any) -> None:
    """It is silent for longer than the first step may take, and then it moves."""
    validation = "echo '2026-03-02 10:12:00.000 | INFO | Starting validate rollout'; sleep 6; "
    validation += r"printf 'EVAL @ step 0:  49%% 1882/3840 [30:48<1:06:14]\r'; sleep 1; "
    command = f"{validation} echo 'step:0 - task_pass_rate@1:0.41 - mean_reward:0.41'; echo '{STEP}'"
    live, record = yard.ended(command, limits={"first_step_s": 5.0}, signals=SIGNALS)
    assert (record["ending"], live.names().count("validation"), record["first_step"]) == ("finished", 1, 1)
    assert record["first_step_s"] > 5.0
    assert "limit" not in live.names()


def test_rollouts_without_tokens_do_not(yard: Any) -> None:
    command = "while :; do echo 'Rollout progress (0.00 tokens/s): [0-5]:64 threads'; sleep 0.05; done"
    _, record = yard.ended(command, limits={"first_step_s": 0.5}, signals=SIGNALS)
    assert record["ending"] == "first_step_timeout"


def test_its_ray_ends_with_it(yard: Any, nasty: Path, living: Any, until: Any) -> None:
    """In sessions of its own, without our mark, orphaned: it stays below the Runner."""
    token = f"companion-{time.monotonic_ns()}"
    yard.runs.append(token)
    start = f"{sys.executable} -S {nasty}/companion.py {token} {yard.root}"
    live = yard.start(f"{start}; touch started; until [ -e go ]; do sleep 0.05; done")
    until((yard.root / "started").exists)
    until(lambda: len(living(token)) == 4)  # the terminal's, the head, its server; and the shell
    (yard.root / "go").touch()
    record = live.record()
    assert (record["ending"], record["left"]) == ("finished", [])
    assert living(token) == []
    assert record["term_sent"] >= 2
