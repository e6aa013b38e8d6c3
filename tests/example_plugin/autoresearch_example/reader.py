"""Reads lines like `3 0.5`: a step, and the score at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.readers.read import MetricReader


class Scores(MetricReader):
    def read(self, path: Path, offset: int) -> Iterator[Reading]:
        if not path.exists():
            return
        for line in path.read_bytes()[offset:].splitlines(keepends=True):
            step, _, score = line.decode().partition(" ")
            if score.endswith("\n"):  # else it is still being written
                yield Reading(SignalKind.STEP, int(step), {"score": float(score)})
