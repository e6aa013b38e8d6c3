"""Trainer: what we know about one training framework, as one narrow interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autoresearch.core.finding import Finding
from autoresearch.core.objective import Objective
from autoresearch.core.signal import Reading, SignalPattern

Recipe = Mapping[str, object]  # the trainer's own YAML, as parsed


class SourceFormat(StrEnum):
    """How a file of metrics is written."""

    JSONL = "jsonl"  # verl file logger: {"step": N, "data": {...}}, or flat objects with a step key
    DICT_LINES = "dict_lines"  # AgentJet: one Python dict repr per line
    CONSOLE = "console"  # the run's log


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a trainer writes metrics to. `authority`: lower is believed first."""

    format: SourceFormat
    path: str  # absolute, or relative to the directory the trainer runs in
    authority: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """A recipe key that says where a run writes, so that no two runs may share its value.

    `name`: what the run is called in a result directory of its own, e.g. "validation.md"; "" where the key is
    no path but the experiment's name.
    """

    key: str
    name: str = ""


class Trainer(Protocol):
    """One framework. Instances are stateless; everything returned is plain data."""

    @property
    def name(self) -> str:
        """The word that `--trainer` and the notes use."""

    @property
    def named(self) -> bool:
        """Whether its PROGRESS signals may suspend the first-step clock (the generic trainer's never do)."""

    def recognises(self, command: str) -> bool:
        """Whether this launch command starts this framework."""

    def signals(self) -> tuple[SignalPattern, ...]:
        """The byte patterns the Runner watches for."""

    def objective(self, recipe: Recipe) -> Objective | None:
        """The metric and direction to use when the blueprint names none."""

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The files of metrics that this recipe makes the trainer write, best first."""

    def read_line(self, line: str) -> Reading | None:
        """A full parse of one line of output (ANSI and prefixes already stripped), or None."""

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        """What is wrong with a recipe, without touching a file."""

    def seed(self, recipe: Recipe) -> int | None:
        """The seed that this recipe fixes, if it fixes one."""

    @property
    def seed_key(self) -> str:
        """The dotted recipe key of the seed; "" where this trainer has none that we know."""

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The keys of this recipe that have to differ from run to run: files, directories, names."""

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """A low-risk search space around this recipe, as a campaign file would declare it; {} for none."""
