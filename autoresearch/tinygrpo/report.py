"""A run's output: console lines in verl's format, metrics as JSONL, and AgentJet's dict-per-line files.

Every line is flushed immediately, and every file is overwritten at the start, so that two runs never mix their lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from autoresearch.tinygrpo.recipe import Recipe
from autoresearch.tinygrpo.validation import Metrics


def metric_line(step: int, metrics: Metrics) -> str:
    """verl's console line: `step:3 - actor/kl_loss:0.00042 - ...`, floats with six significant digits."""
    return " - ".join([f"step:{step}", *(f"{key}:{_short(value)}" for key, value in metrics.items())])


def jsonl_line(step: int, metrics: Metrics) -> str:
    """verl's file logger: `{"step": 3, "data": {"actor/kl_loss": 0.00042}}`, null for NaN and infinity."""
    data = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
    return json.dumps({"step": step, "data": data})


def dict_line(metrics: Mapping[str, float | str]) -> str:
    """AgentJet's format: the `str` of a Python dict, which may contain `nan`."""
    return str(dict(metrics))


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """The outputs of one run; a file that the recipe does not name is None."""

    recipe: Recipe
    console: TextIO
    validation_file: TextIO | None
    train_file: TextIO | None
    jsonl_file: TextIO | None

    def config(self) -> None:
        """Print the first line: the whole recipe, including defaults."""
        self.say("config " + json.dumps(asdict(self.recipe)))

    def validation_progress(self, done: int, total: int) -> None:
        """Print progress, so that a monitor can tell a slow first validation from a hang."""
        self.say(f"validating: {done}/{total} tasks")

    def training(self, step: int, metrics: Metrics) -> None:
        """Write the metrics of one training step to all outputs."""
        self.say(metric_line(step, metrics))
        _append(self.train_file, dict_line(metrics))
        _append(self.jsonl_file, jsonl_line(step, metrics))

    def validation(self, step: int, metrics: Metrics) -> None:
        """Write the metrics of one validation to all outputs."""
        self.say(metric_line(step, metrics))
        _append(
            self.validation_file, dict_line({**metrics, "target_dataset_name": f"{self.recipe.task}_val"})
        )
        _append(self.jsonl_file, jsonl_line(step, metrics))

    def final(self, summary: Mapping[str, object]) -> None:
        """Print the last line."""
        self.say("FINAL " + json.dumps(summary))

    def say(self, line: str) -> None:
        """Print one line on the console and flush it."""
        print(line, file=self.console, flush=True)


@contextmanager
def open_report(recipe: Recipe, console: TextIO) -> Iterator[OutputFiles]:
    """Open a report's files, emptied, and create their directories; closes the files at the end."""
    with ExitStack() as files:
        yield OutputFiles(
            recipe,
            console,
            _begin(recipe.val_print_to_markdown_file_path, files),
            _begin(recipe.train_print_to_markdown_file_path, files),
            _begin(recipe.metrics_jsonl_path, files),
        )


def _begin(path: str, files: ExitStack) -> TextIO | None:
    if not path:
        return None
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return files.enter_context(place.open("w", encoding="utf-8"))


def _append(file: TextIO | None, line: str) -> None:
    if file is not None:
        file.write(line + "\n")
        file.flush()
