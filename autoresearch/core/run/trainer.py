"""Trainer: the interface to what autoresearch knows about one training framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import KnownLines, LineReader, SignalPattern

Recipe = Mapping[str, object]  # the trainer's own YAML, as parsed


class SourceFormat(StrEnum):
    """The format of a file of metrics."""

    JSONL = "jsonl"  # verl file logger: {"step": N, "data": {...}}, or flat objects with a step key
    JSON = "json"  # a last result: one object, or a list of them; nested names are joined by slashes
    CSV = "csv"  # a table with a header, separated by commas, semicolons or tabs
    DICT_LINES = "dict_lines"  # AgentJet: one Python dict repr per line
    CONSOLE = "console"  # the run's log
    TENSORBOARD = "tensorboard"  # a directory with event files, or a pattern of directories
    TRAINER_STATE = "trainer_state"  # Hugging Face: trainer_state.json, or the directory of its checkpoints
    WANDB = "wandb"  # a W&B run directory, or the directory of all its runs


SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "csv"}
"""What a file of metrics is by its name, where nobody says it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a trainer writes metrics to. `authority`: the source with the lowest value is preferred."""

    format: SourceFormat | str  # a SourceFormat, or the name of a reader that is a plug-in
    path: str  # absolute, or relative to the directory the trainer runs in
    authority: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """A recipe key that sets where a run writes, so that no two runs may share its value.

    `name`: the file name to use in the run's own result directory, e.g. "validation.md"; "" if the key is not a path
    but the experiment's name.
    """

    key: str
    name: str = ""


class Trainer(Protocol):
    """One framework. Instances are stateless; everything returned is plain data.

    A class that extends this one must have `name`, `recognises` and `signals`.
    """

    @property
    def name(self) -> str:
        """The name used in `--trainer` and the notes."""

    @property
    def named(self) -> bool:
        """Whether its PROGRESS signals may suspend the first-step clock (the generic trainer's never do)."""
        return True

    def recognises(self, command: str) -> bool:
        """Whether this launch command starts this framework."""

    def signals(self) -> tuple[SignalPattern, ...]:
        """The byte patterns the Runner watches for."""

    def objective(self, recipe: Recipe) -> Objective | None:
        """The metric and direction to use when the blueprint names none."""
        return None

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The files of metrics that the trainer writes with this recipe, best first."""
        return ()

    def lint(self, recipe: Recipe, cwd: str, result_dir: str) -> tuple[Finding, ...]:
        """Findings in a recipe, for a run in these absolute directories; no file is accessed."""
        return ()

    def seed(self, recipe: Recipe) -> int | None:
        """The seed that this recipe sets; None if it sets none."""
        return None

    @property
    def seed_key(self) -> str:
        """The dotted recipe key of the seed; "" if none is known for this trainer."""
        return ""

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The keys of this recipe that must differ between runs: files, directories, names."""
        return ()

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """A low-risk search space around this recipe, as a campaign file would declare it; {} for none."""
        return {}

    # What only some trainers can do. A recipe is as `settings` returns it.

    def reader(self) -> LineReader:
        """A new reader for one log, by default of the lines whose signals hold metrics."""
        return KnownLines(self.signals())

    def key_of(self, tag: str) -> str:
        """The name, in the console and other files, of the metric with this tag in TensorBoard."""
        return tag

    def seed_key_in(self, recipe: Recipe) -> str:
        """The dotted key of the seed in this recipe, where it depends on the kind of recipe."""
        return self.seed_key

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """Paths, or patterns of paths, that make it resume without being told to, if they exist at the start.

        Absolute, or relative to the directory that the trainer runs in.
        """
        return ()

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """How to go on from what an interrupted run with this recipe saved; None if it saves nowhere in particular."""
        return None

    def gpus(self, recipe: Recipe) -> int | None:
        """Total GPUs on all nodes; None if the recipe does not set it."""
        return None

    @property
    def in_full(self) -> str:
        """The line of a recipe that makes it write its numbers into a file, where the console rounds them."""
        return ""

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the settings of this launch command applied; pass it to the other methods."""
        return recipe

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """Arguments of the trainer's own command that set these recipe keys."""
        return ()

    @property
    def takes_arguments(self) -> bool:
        """Whether its command takes settings at all."""
        return type(self).arguments is not Trainer.arguments

    def confessions(self) -> tuple[str, ...]:
        """Patterns for the start of the line that it prints, at the end of its log, if it crashed and exits with 0."""
        return ()

    def harmless(self) -> tuple[str, ...]:
        """Patterns of printed errors that are not fatal, searched for in stripped lines; see `core.diagnosis.root`."""
        return ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """What makes a run go on from the last checkpoint of an earlier one."""

    settings: Mapping[str, object]
    checkpoints: str  # absolute path or pattern; the last match in natural order is the last checkpoint
    checkpoint_key: str = ""  # the key that takes the path of the last checkpoint, if it must be named
