"""The landscape that the search benchmark searches: frozen once, from real runs of tinygrpo.

    python -m tests.bench.search_landscape     13 minutes on one core; writes tests/bench/search_landscape.tsv

Every point of a grid over four recipe keys is trained with three seeds and validated every ten steps. Between
the points of the grid the mean curve is interpolated linearly (the learning rate and the KL in their
logarithm). A run of the benchmark reads the mean there and adds what one of the seeds of the nearest grid
point differs from its mean by: the true score is known, and the noise is that of real training.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".tsv")
SEEDS = range(3)
ANSWERS = 64 * 8
"""Validation prompts times answers: pass@1 is a whole number of these."""

RECIPE = ("total_steps=80", "batch_size=16", "hidden=64", "test_freq=10", "val_tasks=64", "val_before_train=false")
STEPS = tuple(range(10, 81, 10))
AXES: dict[str, tuple[float, ...]] = {
    "lr": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "temperature": (0.4, 0.7, 1.0, 1.4, 2.0),
    "kl_coef": (1e-3, 1e-2, 1e-1, 1.0),
    "entropy_coef": (0.0, 0.03, 0.1, 0.3),
}
LOGARITHMIC = ("lr", "kl_coef")
START = {"lr": 3e-4, "temperature": 1.0, "kl_coef": 0.1, "entropy_coef": 0.0}
"""The recipe before the search: a cautious one, as a researcher inherits it."""

Corner = tuple[float, ...]


class Landscape:
    """Mean learning curves of a grid, and their noise, anywhere in the space that the grid spans."""

    def __init__(
        self,
        axes: Mapping[str, Sequence[float]],
        logarithmic: Collection[str],
        start: Mapping[str, float],
        steps: Sequence[int],
        curves: Mapping[tuple[Corner, int], Sequence[float]],
    ) -> None:
        """`curves`: (grid point, seed) -> the score after each of `steps`."""
        self.start, self.steps = start, steps
        self._axes, self._logarithmic = axes, logarithmic
        self._seeds: dict[Corner, list[Sequence[float]]] = {}
        for (corner, _), curve in sorted(curves.items()):
            self._seeds.setdefault(corner, []).append(curve)
        self._means = {c: [statistics.fmean(v) for v in zip(*s, strict=True)] for c, s in self._seeds.items()}

    @property
    def space(self) -> dict[str, dict[str, object]]:
        """The keys as a campaign file declares them."""
        return {
            key: {"low": min(values), "high": max(values), **({"log": True} if key in self._logarithmic else {})}
            for key, values in self._axes.items()
        }

    def curve(self, point: Mapping[str, object]) -> list[float]:
        """The true learning curve: the score after each of `steps`."""
        total = [0.0] * len(self.steps)
        for weight, corner in self._around(point):
            for n, value in enumerate(self._means[corner]):
                total[n] += weight * value
        return total

    def score(self, point: Mapping[str, object]) -> float:
        """The true score: the last value of the true curve."""
        return self.curve(point)[-1]

    def run(self, point: Mapping[str, object], chance: random.Random) -> list[float]:
        """What one training run would show: the true curve and the noise of one seed."""
        _, nearest = max(self._around(point))
        mean, seeds = self._means[nearest], self._seeds[nearest]
        drawn, widened = chance.choice(seeds), math.sqrt(len(seeds) / (len(seeds) - 1))
        noise = [widened * (value - middle) for value, middle in zip(drawn, mean, strict=True)]
        return [max(0.0, true + off) for true, off in zip(self.curve(point), noise, strict=True)]

    @cached_property
    def best(self) -> float:
        """The highest true score; linear interpolation has it on a corner."""
        return max(mean[-1] for mean in self._means.values())

    @cached_property
    def noise(self) -> float:
        """The standard deviation between seeds of the last value, over the whole grid."""
        lasts = [[seed[-1] for seed in seeds] for seeds in self._seeds.values()]
        return math.sqrt(statistics.fmean(statistics.variance(last) for last in lasts))

    def _around(self, point: Mapping[str, object]) -> list[tuple[float, Corner]]:
        """The corners of the cell that holds the point, each with its weight."""
        sides = [self._side(key, float(str(point[key]))) for key in self._axes]
        corners = []
        for chosen in itertools.product(*sides):
            weight = math.prod(w for w, _ in chosen)
            if weight > 0:
                corners.append((weight, tuple(value for _, value in chosen)))
        return corners

    def _side(self, key: str, value: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """The two grid values around a value, each with its weight."""
        values = self._axes[key]
        above = next((n for n, v in enumerate(values) if v >= value and n), len(values) - 1)
        low, high = values[above - 1], values[above]
        scale = math.log if key in self._logarithmic else float
        share = (scale(min(max(value, low), high)) - scale(low)) / (scale(high) - scale(low))
        return (1 - share, low), (share, high)


def load(path: Path = TABLE) -> Landscape:
    """The frozen landscape; a run that broke keeps its last values at 0."""
    curves = {}
    with path.open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            corner = tuple(float(row[key]) for key in AXES)
            right = [int(n) for n in row["right"].split()]
            curve = [n / ANSWERS for n in right] + [0.0] * (len(STEPS) - len(right))
            curves[corner, int(row["seed"])] = curve
    return Landscape(AXES, LOGARITHMIC, START, STEPS, curves)


def measure() -> None:
    """Train every point with every seed; a table that is there in part is gone on with."""
    done = {tuple(line.split("\t")[:5]) for line in TABLE.read_text().splitlines()} if TABLE.exists() else set()
    with TABLE.open("a") as file:
        if not done:
            file.write("\t".join([*AXES, "seed", "right"]) + "\n")
        for corner, seed in itertools.product(itertools.product(*AXES.values()), SEEDS):
            names = (*(f"{value:g}" for value in corner), str(seed))
            if names in done:
                continue
            right = " ".join(str(n) for n in _right_answers(dict(zip(AXES, corner, strict=True)), seed))
            file.write("\t".join([*names, right]) + "\n")
            file.flush()
        print("done", file=sys.stderr)


def _right_answers(point: Mapping[str, float], seed: int) -> Iterator[int]:
    """Right answers of each validation of one real run; there are no more where it broke."""
    from autoresearch.tinygrpo.recipe import read_recipe
    from autoresearch.tinygrpo.training import open_report, train

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        keys = (*RECIPE, *(f"{key}={value}" for key, value in point.items()), f"seed={seed}")
        recipe = read_recipe(None, [*keys, f"metrics_jsonl_path={path}"])
        with contextlib.suppress(FloatingPointError), open_report(recipe, io.StringIO()) as report:
            train(recipe, report)
        for record in map(json.loads, path.read_text().splitlines()):
            if "task_pass_rate@1" in record["data"]:
                yield round(record["data"]["task_pass_rate@1"] * ANSWERS)


def _one_base_model() -> None:
    """All runs of the table have the same base model: it is trained once and copied."""
    from autoresearch.tinygrpo import grpo

    make, made = grpo.make_base_model, []

    def copied(*given: Any) -> Any:
        if not made:
            made.append(make(*given))
        return made[0].copy()

    grpo.make_base_model = copied


if __name__ == "__main__":
    os.nice(10)
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before numpy
    _one_base_model()
    measure()
