"""Trainer: what we know about one training framework, as one narrow interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern

Recipe = Mapping[str, object]  # the trainer's own YAML, as parsed


class SourceFormat(StrEnum):
    """How a file of metrics is written."""

    JSONL = "jsonl"  # verl file logger: {"step": N, "data": {...}}, or flat objects with a step key
    DICT_LINES = "dict_lines"  # AgentJet: one Python dict repr per line
    CONSOLE = "console"  # the run's log
    TENSORBOARD = "tensorboard"  # a directory with event files, or a pattern of directories
    SWARM_VAL = "swarm_val"  # AgentJet's swarm clients: `## Step N` and bullets
    TRAINER_STATE = "trainer_state"  # Hugging Face: trainer_state.json, or the directory of its checkpoints
    WANDB = "wandb"  # a run of W&B, or the directory in which it keeps its runs
    SWANLAB = "swanlab"  # the same of SwanLab


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a trainer writes metrics to. `authority`: lower is believed first."""

    format: SourceFormat
    path: str  # absolute, or relative to the directory the trainer runs in
    authority: int = 0
    first: int = 0  # the step of the first validation, where the file names none
    every: int = 1  # steps between two of them
    last: int = 0  # the last step, which is validated too; 0: unknown

    def validated_at(self, n: int) -> int:
        """The step of the n-th validation, counted from 0, in a file that names no step."""
        step = self.first + n * self.every
        return min(step, self.last) if self.last else step


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


class LogReader(Protocol):
    """Reads one log from its beginning, with a memory for what is spread over several lines."""

    @property
    def needles(self) -> tuple[str, ...]:
        """Texts of which every line that matters holds at least one; it is shown no other line."""

    def line(self, text: str) -> Reading | None:
        """The reading that this line completes; lines come as `read_line` has them."""

    def end(self) -> Reading | None:
        """What was still open when the log ended."""


@runtime_checkable
class Doubts(Protocol):
    """A LogReader of lines that somebody declared, and that may hold something else than was declared."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Names of what was found and could not be read, each with the first such text."""


@runtime_checkable
class ReadsLogs(Protocol):
    """A trainer whose lines say everything only together: blocks of bullets, a bar that tells the step."""

    def reader(self) -> LogReader:
        """A new reader for one log."""


@runtime_checkable
class DeclaresLines(Protocol):
    """A trainer that nobody knows, and whose blueprint may say how its lines look."""

    def declares(self, kind: SignalKind) -> bool:
        """Whether the blueprint says how lines of this kind look; then nothing else is one."""


@runtime_checkable
class NamesTags(Protocol):
    """A trainer whose TensorBoard tags are not called as its console and its other files call the same metrics."""

    def key_of(self, tag: str) -> str:
        """The metric's name elsewhere."""


@runtime_checkable
class StopsItself(Protocol):
    """A trainer that may have a limit of its own, at which it saves and ends well."""

    def time_limit(self, recipe: Recipe) -> float | None:
        """Seconds after which it stops itself, checked once a step; None for no limit."""


@runtime_checkable
class ReadsCommands(Protocol):
    """A trainer that takes settings on its command line, over those of the recipe or without one."""

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe as this launch command changes it; give it to the other questions of a Trainer."""

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """Words for the end of the trainer's own command that set these keys of a recipe."""

    def lint_command(self, command: str) -> tuple[Finding, ...]:
        """What is wrong with the command itself."""


@runtime_checkable
class SeedsByRecipe(Protocol):
    """A trainer whose seed has another key in another kind of recipe."""

    def seed_key_in(self, recipe: Recipe) -> str:
        """The dotted key of the seed in this recipe; it comes before `seed_key`."""


@runtime_checkable
class Resumes(Protocol):
    """A trainer that goes on from what an earlier run left, without being asked."""

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """Paths, or patterns of paths, that make it do so if they are there at the start; () for none.

        Absolute, or relative to the directory that the trainer runs in.
        """


@runtime_checkable
class NeedsGpus(Protocol):
    """A trainer whose recipe says how many GPUs it takes."""

    def gpus(self, recipe: Recipe) -> int | None:
        """GPUs in all, on all nodes; None where the recipe does not say."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What makes a trainer write its metrics into a file of ours, where it would not by itself."""

    source: Source
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, object] = field(default_factory=dict)  # dotted recipe keys, where there is a recipe
    arguments: tuple[str, ...] = ()  # words for the end of the trainer's own command, where there is none


@runtime_checkable
class Records(Protocol):
    """A trainer with a writer of metrics that can be switched on from outside."""

    def recording(self, recipe: Recipe, directory: str) -> Recording | None:
        """How to have metrics written below this absolute directory; None if the recipe sees to it itself."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where, with what and for how long a run will run: what a recipe alone does not tell."""

    cwd: str  # absolute; relative paths of a recipe start here
    result_dir: str  # absolute
    max_s: float  # the run's limit in all
    environment: Mapping[str, str]  # the trainer's own, unmasked: never to be quoted in a finding
    exists: Callable[[str], bool]  # whether there is such an absolute path on the machine of the run


@runtime_checkable
class ReadsCircumstances(Protocol):
    """A trainer with recipes that are right in one place and wrong in another."""

    def lint_here(self, recipe: Recipe, here: Circumstances) -> tuple[Finding, ...]:
        """What is wrong with this recipe under these circumstances."""


@runtime_checkable
class StartsCompanions(Protocol):
    """A trainer that starts daemons and writes down their process groups."""

    def companions(self) -> tuple[str, ...]:
        """Patterns of files that hold the number of a process group each, and are named `*.HASH.HOST.*`.

        HASH is the value of `ScriptHash` in the environment of all that belongs to it. Relative to the directory
        that the trainer runs in.
        """


@runtime_checkable
class ExitsWithZero(Protocol):
    """A trainer that may exit with 0 although it crashed."""

    def confessions(self) -> tuple[str, ...]:
        """Patterns of the line that it prints then, at the start of one; searched for in the end of its log."""


@runtime_checkable
class KnowsHarmless(Protocol):
    """A trainer that prints errors which end nothing."""

    def harmless(self) -> tuple[str, ...]:
        """Patterns of such lines, searched for in stripped lines; see `core.diagnosis.harmless_errors`."""
