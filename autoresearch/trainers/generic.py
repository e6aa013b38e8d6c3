"""generic: the fallback trainer for unknown frameworks, recognised by their log lines alone.

Steps and metrics are found in a whole log by their spelling (`runner.step_finder`), or on the lines that the blueprint
declares. No line counts as progress: ordinary output does not suspend an explicit first-step limit, but it restarts the
default one.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.metrics.line_reader import VALIDATION, FoundLines, KnownLines, LineReader
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.trainers.declared import declared
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
"""Good enough to say that a trouble was overcome; the Runner finds the steps by itself."""


@dataclass(frozen=True, slots=True)
class Generic(Trainer):
    """Any framework without a module of its own.

    lines: declared by the blueprint, see `trainers.declared`. metrics: the names that its objective needs.
    """

    name: str = "generic"
    named: bool = False
    lines: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def _declares(self, kind: SignalKind) -> bool:
        return any(line.startswith(f"{kind} ") for line in self.lines)

    @property
    def _read(self) -> tuple[SignalPattern, ...]:
        """What is declared; beside declared steps, verl's validations are read if no others are declared."""
        usual = self._declares(SignalKind.STEP) and not self._declares(SignalKind.VALIDATION)
        return (*declared(self.lines), *((VALIDATION,) if usual else ()))

    def reader(self) -> LineReader:
        """A reader of the declared lines; where none is declared as a step, steps are found by their spelling."""
        known = KnownLines(self._read) if self.lines else None
        return known if known and self._declares(SignalKind.STEP) else FoundLines(self.metrics, known)

    def recognises(self, command: str) -> bool:
        """Always False: it is the fallback when no other trainer recognises the command."""
        return False

    def signals(self) -> tuple[SignalPattern, ...]:
        return (*self._read, *(() if self._declares(SignalKind.STEP) else (LOOSE,)), *FATAL)

    def seed(self, recipe: Recipe) -> int | None:
        """An integer under `seed` at the top level of the recipe."""
        value = recipe.get("seed")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def seed_key(self) -> str:
        """The most common name of the key; a recipe without it has no seed that can be set."""
        return "seed"
