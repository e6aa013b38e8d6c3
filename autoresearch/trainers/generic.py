"""generic: the fallback trainer for unknown frameworks, recognised by their log lines alone.

Steps and metrics are found in a whole log by their spelling (`runner.step_finder`), or on the lines that the blueprint
declares. No line counts as progress: ordinary output does not suspend an explicit first-step limit, but it restarts the
default one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.known_lines import read_step_line
from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.metrics.step_line import VALIDATION
from autoresearch.core.run.trainer import LogReader, Recipe, Trainer
from autoresearch.runner import metric_lines
from autoresearch.trainers.declared import DeclaredLine, declared
from autoresearch.trainers.framework import FATAL

LOOSE = SignalPattern(
    SignalKind.STEP,
    r"^(?:[^\r\n]{0,50}[^\r\nA-Za-z_])?(?:[Gg]lobal[ _])?(?:[Tt]ime)?"
    r"(?:[Ss]teps?|[Ii]ter(?:ation)?s?|[Ee]poch|[Ee]pisodes?|[Uu]pdates?)[\"']?[ \t:=#\[]{1,12}"
    r"(?P<step>\d{1,9})\b(?!\.)[^\r\n]{0,200}?\b[A-Za-z_/]{2,40}"
    r"[\"']?(?:[ :=|]{1,3}|: np\.float\d\d\()[-+]?\d{0,12}\.\d"
    r"|\{'(?:eval_)?loss': '?\d",
    needles=("tep", "ter", "poch", "pisode", "pdate", "loss': "),
)
"""Good enough to say that a trouble was overcome; the Runner takes it only where a validation alone is declared."""


@dataclass(frozen=True, slots=True)
class Generic(Trainer):
    """Any framework without a module of its own.

    lines: declared by the blueprint, see `trainers.declared`. metrics: the names that its objective needs.
    """

    name: str = "generic"
    named: bool = False
    lines: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def finds(self) -> bool:
        """Whether steps are found by their spelling: no line is declared."""
        return not self.lines

    @property
    def _declared(self) -> tuple[DeclaredLine, ...]:
        return declared(self.lines)

    @property
    def signals_declared(self) -> tuple[SignalPattern, ...]:
        """The declared patterns, and usual ones for a kind of line that is not declared."""
        usual = (LOOSE, VALIDATION)
        return (*(one.signal for one in self._declared), *(one for one in usual if not self.declares(one.kind)))

    def declares(self, kind: SignalKind) -> bool:
        """Whether the blueprint declares lines of this kind; if so, no other line counts as one."""
        return any(line.startswith(f"{kind} ") for line in self.lines)

    def reader(self) -> LogReader | None:
        return DeclaredLog(self) if self.lines else None

    def recognises(self, command: str) -> bool:
        """Always False: it is the fallback when no other trainer recognises the command."""
        return False

    def signals(self) -> tuple[SignalPattern, ...]:
        return (*self.signals_declared, *FATAL)

    def read_line(self, line: str, unread: dict[str, str] | None = None) -> Reading | None:
        """Read a declared line, a line in verl's format, or any line that names a step and a usual metric.

        Of one line alone, it cannot be known whether the step grows; `readers.console` reads a whole log.
        """
        if found := next((reading for one in self._declared if (reading := one.read(line, unread)) is not None), None):
            return found
        usual = read_step_line(line) or _read(line)
        return None if usual is None or self.declares(usual.kind) else usual

    def seed(self, recipe: Recipe) -> int | None:
        """An integer under `seed` at the top level of the recipe."""
        value = recipe.get("seed")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def seed_key(self) -> str:
        """The most common name of the key; a recipe without it has no seed that can be set."""
        return "seed"


@dataclass(frozen=True, slots=True)
class DeclaredLog(LogReader):
    """Passes each line of a log, without prefixes and colours, to the trainer's `read_line`."""

    trainer: Generic
    unread: dict[str, str] = field(default_factory=dict)  # named groups that matched no number -> the first such text

    @property
    def needles(self) -> tuple[str, ...]:
        """The needles of the declared lines; () if one of them may match any line."""
        found = self.trainer.signals_declared
        return tuple(needle for one in found for needle in one.needles) if all(one.needles for one in found) else ()

    def line(self, text: str) -> Reading | None:
        return self.trainer.read_line(text, self.unread)


def _read(line: str) -> Reading | None:
    """Read a line that names a step, or one of Hugging Face's dicts, which do not; None without a usual metric."""
    found = metric_lines.parse(metric_lines.body(line))
    if found is None or not (found.bare or found.dump) or not metric_lines.plausible(found.metrics, {}):
        return None
    steps = {name: value for name, (value, _) in found.steps.items()}
    if metric_lines.BAR in steps:  # of one batch perhaps
        return None
    if not steps and not (found.dump and "epoch" in found.metrics):
        return None
    ranks = {name: metric_lines.step_rank(name) for name in steps}
    step = steps[min(steps, key=lambda name: (ranks[name] is None, ranks[name]))] if steps else NO_STEP
    (first, *_) = metric_keys.readings(step, found.metrics)
    return Reading(first.kind, step, found.metrics)
