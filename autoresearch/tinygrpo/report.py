"""What a run tells the world: console lines as verl prints them, metrics as JSONL, AgentJet's dict-per-line
files.

Every line is flushed at once, and every file is begun anew: a second run never mixes with an older one's
lines.
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
    """AgentJet's line: the Python dict as it prints itself (`nan` is possible)."""
    return str(dict(metrics))


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Where the lines of one run go. A file that the recipe does not ask for is None."""

    recipe: Recipe
    console: TextIO
    validation_file: TextIO | None
    train_file: TextIO | None
    jsonl_file: TextIO | None

    def config(self) -> None:
        """The first line: the whole recipe, defaults included."""
        self.say("config " + json.dumps(asdict(self.recipe)))

    def validation_progress(self, done: int, total: int) -> None:
        """So that whoever watches can tell a slow first validation from a hang."""
        self.say(f"validating: {done}/{total} tasks")

    def training(self, step: int, metrics: Metrics) -> None:
        """The metrics of one training step."""
        self.say(metric_line(step, metrics))
        _append(self.train_file, dict_line(metrics))
        _append(self.jsonl_file, jsonl_line(step, metrics))

    def validation(self, step: int, metrics: Metrics) -> None:
        """The metrics of one validation."""
        self.say(metric_line(step, metrics))
        _append(
            self.validation_file, dict_line({**metrics, "target_dataset_name": f"{self.recipe.task}_val"})
        )
        _append(self.jsonl_file, jsonl_line(step, metrics))

    def final(self, summary: Mapping[str, object]) -> None:
        """The last line."""
        self.say("FINAL " + json.dumps(summary))

    def say(self, line: str) -> None:
        """One line on the console, flushed."""
        print(line, file=self.console, flush=True)


@contextmanager
def open_report(recipe: Recipe, console: TextIO) -> Iterator[OutputFiles]:
    """A report whose files are open, each begun anew, with the directories they need."""
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
