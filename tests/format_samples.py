"""The samples of `tests/samples/formats`, and whether readings say what stands in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from autoresearch.core.metrics.signal import Reading

HERE = Path(__file__).parent / "samples" / "formats"
NEAR_MISSES = tuple(sorted((HERE / "near-misses").glob("*.log")))


@dataclass(frozen=True, slots=True)
class Steps:
    """Distinct steps; `step` is the name that the log gives them, "" where it names none.

    `at`: for a second way to count them, which of these steps are the ones that the values are given for.
    """

    first: int
    last: int
    count: int
    step: str = ""
    ordinal: bool = False
    at: Mapping[int, int] = field(default_factory=dict)

    def of(self, steps: Iterable[int], *, ordinal: bool) -> bool:
        """Whether these are the steps."""
        seen = sorted(set(steps))
        return bool(seen) and (seen[0], seen[-1], len(seen), ordinal) == (
            self.first,
            self.last,
            self.count,
            self.ordinal,
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """A log and what stands in it. `steps`: ways to count them, each as good; `values` by step and key."""

    path: Path
    metric: str
    steps: tuple[Steps, ...]
    values: tuple[tuple[int, str, float], ...]

    def counted(self, readings: Iterable[Reading]) -> Steps | None:
        """The way in which these readings count the steps; None if their steps are wrong."""
        readings = list(readings)
        ordinal = any(reading.ordinal for reading in readings)
        return next((one for one in self.steps if one.of((r.step for r in readings), ordinal=ordinal)), None)

    def wrong_values(self, readings: Iterable[Reading]) -> list[str]:
        """One text for each of the values that is missing or not the log's."""
        readings = list(readings)
        counted = self.counted(readings) or self.steps[0]
        wrong = []
        for step, key, value in self.values:
            seen = value_of(readings, counted.at.get(step, step), key)
            if seen is None or not math.isclose(seen, value, rel_tol=1e-9):
                wrong.append(f"{key} at step {step}: {seen}; expected {value}")
        return wrong

    def faults(self, readings: Iterable[Reading]) -> list[str]:
        """What is wrong with the readings of this log, one text for each fault; [] for nothing."""
        readings = list(readings)
        steps, ordinal = {reading.step for reading in readings}, any(reading.ordinal for reading in readings)
        seen = f"{min(steps)} to {max(steps)}, {len(steps)} of them" if steps else "none"
        faults = [] if self.counted(readings) else [f"steps: {seen}{', counted' * ordinal}; expected {self.steps[0]}"]
        return faults + self.wrong_values(readings)


def value_of(readings: Iterable[Reading], step: int, key: str) -> float | None:
    """The value of a metric at a step; the name may be spelled with other signs, or lack the parts before the last."""
    wanted, found = _same(key), None
    for reading in readings:
        if reading.step != step:
            continue
        for name, value in reading.metrics.items():
            have = _same(name)
            if have == wanted:
                return value
            if f"_{have}".endswith(f"_{wanted}") or f"_{wanted}".endswith(f"_{have}"):
                found = value
    return found


def _same(name: str) -> str:
    return re.sub(r"[^\w@%]+|_+", "_", name.lower()).strip("_")


def _sample(entry: dict[str, Any]) -> Sample:
    steps = tuple(Steps(**entry[key]) for key in ("steps", "or") if key in entry)
    values = tuple((step, key, float(value)) for step, key, value in entry["values"])
    return Sample(HERE / entry["file"], entry["metric"], steps, values)


SAMPLES = tuple(_sample(entry) for entry in yaml.safe_load((HERE / "index.yaml").read_text(encoding="utf-8")))
