"""Measures tinygrpo's learning curves and the landscape of its recipe, for `docs/tinygrpo.md`.

    python -m tests.bench.tinygrpo_landscape measure     10 minutes on one core; writes docs/tinygrpo/*.tsv
    python -m tests.bench.tinygrpo_landscape draw        needs matplotlib; writes docs/tinygrpo/*.png

Run it from the root of the repository.
"""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402

from autoresearch.tinygrpo.recipe import RULES, Recipe, read_recipe  # noqa: E402
from autoresearch.tinygrpo.training import open_report, train  # noqa: E402

PLACE = Path("docs/tinygrpo")
SEEDS = range(4)
FULL = Path("blueprints/recipes/countdown-full.yaml")
CURVES: dict[str, tuple[Path | None, tuple[str, ...]]] = {
    "sort": (None, ("task=sort",)),
    "countdown": (None, ()),
    "countdown, full size": (FULL, ("val_print_to_markdown_file_path=",)),
    "modadd": (None, ("task=modadd", "train_prompts=400")),
}

# One key at a time around the defaults, on countdown.
AXES: dict[str, tuple[str, ...]] = {
    "lr": ("1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"),
    "kl_coef": ("0", "0.002", "0.02", "0.1", "0.3", "1"),
    "temperature": ("0.3", "0.6", "1.0", "1.3", "1.6", "2.0"),
    "entropy_coef": ("-0.05", "0", "0.02", "0.05", "0.1", "0.3"),
    "group_size": ("2", "4", "8", "16", "32"),
    "ppo_epochs": ("1", "2", "4", "8"),
    "hidden": ("16", "32", "96", "192"),
    "train_prompts": ("50", "200", "600", "1500"),
    "sft_steps": ("0", "200", "800", "2000"),
    "format_reward": ("0", "0.1", "0.3", "0.6", "0.9"),
    "clip_high": ("0.05", "0.28", "1", "10"),
    "loss_agg": ("token-mean", "seq-mean-token-mean"),
    "norm_adv_by_std": ("true", "false"),
}
ANSWERS_PER_STEP = 256
"""Held constant along `group_size`, so that the axis is not one of compute."""

DRAWN = ("lr", "kl_coef", "temperature", "entropy_coef", "sft_steps", "train_prompts", "group_size", "hidden")


class CurvePoint(NamedTuple):
    """One validation of one run, with the training reward of the same step (nan at step 0)."""

    task: str
    seed: int
    step: int
    pass1: float
    pass8: float
    reward: float


class LandscapePoint(NamedTuple):
    """The last validation of one run; `value` is the recipe's, pass rates are 0 if the run broke."""

    key: str
    value: str
    seed: int
    pass1: float
    pass8: float
    reward: float
    broke: bool


def run(*overrides: str, conf: Path | None = None) -> tuple[list[dict[str, Any]], bool]:
    """The JSONL records of one run, and whether it broke (then the records up to there)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        recipe = read_recipe(conf, [*overrides, f"metrics_jsonl_path={path}"])
        broke = False
        try:
            with np.errstate(all="ignore"), open_report(recipe, io.StringIO()) as report:
                train(recipe, report)
        except FloatingPointError:
            broke = True
        return [json.loads(line) for line in path.read_text().splitlines()], broke


def curve(task: str, seed: int) -> Iterable[CurvePoint]:
    """All validations of one run, every 10 steps."""
    conf, overrides = CURVES[task]
    records, _ = run(*overrides, f"seed={seed}", "test_freq=10", conf=conf)
    rewards = {r["step"]: r["data"]["critic/rewards/mean"] for r in records if "critic/rewards/mean" in r["data"]}
    for record in records:
        if "pass_n" in record["data"]:
            data, step = record["data"], record["step"]
            rates = data["task_pass_rate@1"], data["task_pass_rate@8"]
            yield CurvePoint(task, seed, step, *rates, rewards.get(step, float("nan")))


def landscape_point(key: str, value: str, seed: int) -> LandscapePoint:
    """One run of the defaults with one key changed."""
    overrides = [f"{key}={value}", f"seed={seed}", "val_before_train=false", "test_freq=0"]
    if key == "group_size":
        overrides.append(f"batch_size={ANSWERS_PER_STEP // int(value)}")
    records, broke = run(*overrides)
    if broke:
        return LandscapePoint(key, value, seed, 0.0, 0.0, 0.0, True)
    last, steps = records[-1]["data"], records[-11:-1]
    reward = statistics.fmean(r["data"]["critic/rewards/mean"] for r in steps)
    return LandscapePoint(key, value, seed, last["task_pass_rate@1"], last["task_pass_rate@8"], reward, False)


def is_default(key: str, value: str) -> bool:
    """Whether this value of the key is the default."""
    return bool(getattr(read_recipe(None, [f"{key}={value}"]), key) == getattr(Recipe(), key))


def landscape() -> Iterable[LandscapePoint]:
    """Every axis, every seed; the defaults run once per seed and stand in every axis."""
    default = [landscape_point("lr", str(Recipe().lr), seed) for seed in SEEDS]
    for key, values in AXES.items():
        assert key in RULES
        for value in values:
            print(key, value, file=sys.stderr, flush=True)
            if is_default(key, value):
                yield from (point._replace(key=key, value=value) for point in default)
            else:
                yield from (landscape_point(key, value, seed) for seed in SEEDS)


def write(name: str, rows: Iterable[NamedTuple]) -> None:
    """One TSV with a header, row by row."""
    with (PLACE / name).open("w", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        for number, row in enumerate(rows):
            if number == 0:
                out.writerow(row._fields)
            out.writerow([f"{v:.4g}" if isinstance(v, float) else v for v in row])
            file.flush()


def read(name: str) -> list[dict[str, str]]:
    """The rows of a TSV."""
    with (PLACE / name).open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def measure() -> None:
    """Both TSV files."""
    PLACE.mkdir(parents=True, exist_ok=True)
    write("curves.tsv", (point for task in CURVES for seed in SEEDS for point in curve(task, seed)))
    write("landscape.tsv", landscape())


def summary(rows: list[dict[str, str]], key: str, value: str, column: str) -> tuple[float, float]:
    """Mean and standard deviation over the seeds of one point of the landscape."""
    numbers = [float(row[column]) for row in rows if (row["key"], row["value"]) == (key, value)]
    return statistics.fmean(numbers), statistics.stdev(numbers)


def draw_curves(plt: Any) -> None:
    """pass@1 and training reward against the step, one thin line per seed, one panel per task."""
    rows = read("curves.tsv")
    figure, panels = plt.subplots(1, len(CURVES), figsize=(11, 3.1), sharey=True, layout="constrained")
    columns = (("pass1", "tab:blue", "pass@1, validation"), ("pass8", "tab:cyan", "pass@8, validation"))
    for panel, task in zip(panels, CURVES, strict=True):
        for column, colour, label in (*columns, ("reward", "tab:orange", "mean reward, training")):
            for seed in SEEDS:
                points = [row for row in rows if row["task"] == task and row["seed"] == str(seed)]
                x, y = [int(p["step"]) for p in points], [float(p[column]) for p in points]
                panel.plot(x, y, color=colour, linewidth=1, label=label if seed == 0 else None)
        panel.set(title=task, xlabel="step", ylim=(0, 1.02))
        panel.grid(alpha=0.3)
    panels[1].legend(fontsize=7, loc="upper left")
    figure.savefig(PLACE / "curves.png", dpi=90)


def draw_landscape(plt: Any) -> None:
    """pass@1 and pass@8 along the most telling axes: a dot per seed, a line through the means."""
    rows = read("landscape.tsv")
    noise, spread = summary(rows, "lr", "3e-3", "pass1")
    figure, panels = plt.subplots(2, len(DRAWN) // 2, figsize=(10, 5), sharey=True, layout="constrained")
    for panel, key in zip(panels.flat, DRAWN, strict=True):
        places = range(len(AXES[key]))
        panel.axhspan(noise - spread, noise + spread, color="tab:blue", alpha=0.12)
        for column, colour, label in (("pass1", "tab:blue", "pass@1"), ("pass8", "tab:cyan", "pass@8")):
            means = [summary(rows, key, value, column)[0] for value in AXES[key]]
            panel.plot(places, means, color=colour, linewidth=1.2, label=label)
            for place, value in zip(places, AXES[key], strict=True):
                dots = [float(r[column]) for r in rows if (r["key"], r["value"]) == (key, value)]
                panel.plot([place] * len(dots), dots, ".", color=colour, markersize=4)
        panel.set_xticks(list(places), AXES[key], fontsize=7)
        panel.set_title(key, fontsize=10)
        panel.grid(alpha=0.3)
    panels[0, 0].legend(fontsize=8)
    figure.savefig(PLACE / "landscape.png", dpi=90)


def draw() -> None:
    """Both pictures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    draw_curves(plt)
    draw_landscape(plt)


if __name__ == "__main__":
    {"measure": measure, "draw": draw}[sys.argv[1]]()
