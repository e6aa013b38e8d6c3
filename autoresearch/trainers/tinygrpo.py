"""tinygrpo: the embedded trainer, which prints verl's step lines and validates like AgentJet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.diagnosis import fatal_lines
from autoresearch.core.metrics import step_line
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import text_of, whole_number
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat, Trainer
from autoresearch.core.text.regex import later

HOLD_S = 120.0

_COMMAND = later(r"\bautoresearch[./]tinygrpo\b")

_PROGRESS = SignalPattern(
    SignalKind.PROGRESS,
    r"^config \{"  # the first line: the whole recipe
    r"|validating: \d{1,9}/\d{1,9} tasks",
    HOLD_S,
    ("config {", "validating: "),
)

_FILES = (
    ("metrics_jsonl_path", SourceFormat.JSONL),
    ("val_print_to_markdown_file_path", SourceFormat.DICT_LINES),
    ("train_print_to_markdown_file_path", SourceFormat.DICT_LINES),
)  # the trainer overwrites all three at the start; the first holds everything


_NAMES = {
    "metrics_jsonl_path": "metrics.jsonl",
    "val_print_to_markdown_file_path": "validation.md",
    "train_print_to_markdown_file_path": "training.md",
}


@dataclass(frozen=True, slots=True)
class TinyGrpo(Trainer):
    """The trainer of the quickstart and of autoresearch's own tests."""

    name: str = "tinygrpo"

    def recognises(self, command: str) -> bool:
        """Matches `python -m autoresearch.tinygrpo ...`, or a path to it."""
        return _COMMAND.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """Steps, validations, NaN, fatal lines; `config` and the first validation suspend the first-step limit."""
        return (
            step_line.STEP,
            step_line.VALIDATION,
            step_line.NAN,
            fatal_lines.TRACEBACK,
            fatal_lines.OUT_OF_MEMORY,
            _PROGRESS,
        )

    def objective(self, recipe: Recipe) -> Objective | None:
        """The share of held-out tasks that are solved with one answer."""
        return Objective("task_pass_rate@1", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The metrics files that the recipe names."""
        wanted = [(text_of(recipe, key), form) for key, form in _FILES]
        return tuple(Source(form, path, authority) for authority, (path, form) in enumerate(wanted) if path)

    def read_line(self, line: str) -> Reading | None:
        """Read a training or validation line; tinygrpo never combines the two."""
        return step_line.read(line)

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        """Warn about a built-in fault, which is meant for tests."""
        fault = text_of(recipe, "fault")
        if fault in ("", "none"):
            return ()
        return (
            Finding(
                Severity.WARNING,
                "fault_on_demand",
                f"the recipe asks for the built-in fault '{fault}': this run is meant to fail",
                "remove the key 'fault' for a real experiment",
            ),
        )

    def seed(self, recipe: Recipe) -> int | None:
        """The seed of the RL phase; the trainer's default of 0 if the recipe names none."""
        return whole_number(recipe, "seed") if "seed" in recipe else 0

    @property
    def seed_key(self) -> str:
        """The RL phase's seed; data and base model depend on `data_seed` instead."""
        return "seed"

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The metrics files that the recipe names, and the experiment's name, which the last line prints."""
        wanted = [Output(key, name) for key, name in _NAMES.items() if text_of(recipe, key)]
        return (*wanted, Output("experiment_name"))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """The settings with the most effect on validation (docs/tinygrpo.md), in ranges that seldom diverge."""
        return {
            "lr": {"low": 3e-4, "high": 3e-2, "log": True},
            "kl_coef": {"low": 1e-4, "high": 1e-1, "log": True},
            "group_size": [4, 8, 16],
            "temperature": {"low": 0.6, "high": 1.4},
        }
