"""tinygrpo: the embedded trainer, which prints verl's step lines and validates like AgentJet."""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import VERL_STEP, VERL_VALIDATION, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import text_of
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import HOLD_S, Framework

_FILES = {  # the trainer overwrites all three at the start; the first holds everything
    "metrics_jsonl_path": (SourceFormat.JSONL, "metrics.jsonl"),
    "val_print_to_markdown_file_path": (SourceFormat.DICT_LINES, "validation.md"),
    "train_print_to_markdown_file_path": (SourceFormat.DICT_LINES, "training.md"),
}


class TinyGrpo(Framework):
    """The trainer of the quickstart and of autoresearch's own tests."""

    name = "tinygrpo"
    command = later(r"\bautoresearch[./]tinygrpo\b")
    lines = (
        VERL_STEP,
        VERL_VALIDATION,
        SignalPattern(
            SignalKind.PROGRESS,
            r"^config \{|validating: \d{1,9}/\d{1,9} tasks",  # the first: the whole recipe, at the beginning
            HOLD_S,
            ("config {", "validating: "),
        ),
    )
    seed_key = "seed"  # of the RL phase; data and base model depend on `data_seed`
    usual_seed = 0
    outputs_named = tuple(Output(key, name) for key, (_, name) in _FILES.items())

    def objective(self, recipe: Recipe) -> Objective | None:
        """The share of held-out tasks that are solved with one answer."""
        return Objective("task_pass_rate@1", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The metrics files that the recipe names."""
        files = [(text_of(recipe, key), form) for key, (form, _) in _FILES.items()]
        return tuple(Source(form, path, authority) for authority, (path, form) in enumerate(files) if path)

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The metrics files that the recipe names, and the experiment's name, which the last line prints."""
        return (*super().outputs(recipe), Output("experiment_name"))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """The settings with the most effect on validation (docs/tinygrpo.md), in ranges that seldom diverge."""
        return {
            "lr": {"low": 3e-4, "high": 3e-2, "log": True},
            "kl_coef": {"low": 1e-4, "high": 1e-1, "log": True},
            "group_size": [4, 8, 16],
            "temperature": {"low": 0.6, "high": 1.4},
        }
