"""The seam to the Runner: its own scanner sees in every sample what the patterns alone see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Trainer
from autoresearch.runner.line_patterns import LinePattern, Scanner, group
from autoresearch.runner.log_follower import LogFollower
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
ONCE = [SignalKind.STEP, SignalKind.VALIDATION]  # of the other kinds the Runner takes one per chunk


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.log")))
@pytest.mark.parametrize("trainer", registry.every(), ids=lambda t: t.name)
def test_the_runner_sees_the_same(name: str, trainer: Trainer) -> None:
    raw = (SAMPLES / name).read_bytes()
    for signal in (s for s in trainer.signals() if s.kind in ONCE):
        wanted = [
            (group(m, "step"), group(m, "kl")) for m in re.finditer(signal.pattern.encode("latin-1"), raw, re.MULTILINE)
        ]
        scanner = Scanner([LinePattern(signal.kind.value, signal.pattern, 0.0, signal.needles)])
        found, follower = [], LogFollower(str(SAMPLES / name))
        for chunk in follower.poll():
            hits = scanner.scan(chunk, follower.offset - len(chunk))
            found += [(group(match, "step"), group(match, "kl")) for _, match, _ in hits]
        follower.close()
        assert found == wanted
