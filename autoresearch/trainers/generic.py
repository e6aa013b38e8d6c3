"""generic: the fallback trainer for unknown frameworks, recognised by their log lines alone.

Steps and metrics are found in a whole log by their spelling (`runner.step_finder`), or on the lines that the blueprint
declares. No line counts as progress: ordinary output does not suspend an explicit first-step limit, but it restarts the
default one.

    - step_line: json iteration              a JSON object, or a Python dict, in which `iteration` is the step
    - step_line: pairs it                    `it: 12  loss=0.3`, in which `it` is the step
    - step_line: ^iter (?P<step>\\d+), loss (?P<loss>\\S+)    any regular expression

`json` and `pairs` without a key use `step`. The named groups of a regular expression other than `step` are metrics;
other `key: value` pairs on the line are read as well. If no step is named, the lines are counted.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from autoresearch.core.metrics.signal import KnownLines, LineReader, SignalKind, SignalPattern
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError

_PADDING = r"[ \t]{0,80}"  # around a colon or an equals sign, for aligned columns
_WHOLE = r"(?P<step>[1-9]\d{0,2}(?:,\d{3}){1,3}|\d{1,10})(?!\d|,\d)(?![\w.])"  # `12,34` does not match, not even its 12
_SHORT = later(r"(?P<how>json|pairs)(?:\s+(?P<key>[^\s{}()\\\"]{1,80}))?\Z")


@functools.cache
def declared(lines: tuple[str, ...]) -> tuple[SignalPattern, ...]:
    """The patterns of `step ...` and `validation ...`.

    BlueprintError for an invalid regex or one that matches an empty line.
    """
    found = []
    for line in lines:
        kind, _, text = line.partition(" ")
        short = _SHORT.match(text)
        if short is None:
            _check(text)
            found.append(SignalPattern(SignalKind(kind), text, whole=True))
            continue
        name = short["key"] or "step"
        key, needles = re.escape(name), (name,)
        if short["how"] == "json":
            pattern = rf"(?<=[\"']){key}[\"']{_PADDING}:{_PADDING}{_WHOLE}(?=.*\}}$)"
        else:
            pattern = rf"{key}(?:(?<=^{key})|(?<=[\s,;|\[(\]]{key})){_PADDING}[:=]{_PADDING}{_WHOLE}"
        found.append(SignalPattern(SignalKind(kind), pattern, needles=needles, metrics=".", whole=True))
    return tuple(found)


def _check(pattern: str) -> None:
    try:
        compiled = re.compile(pattern.encode("utf-8"), re.MULTILINE)
    except re.error as error:
        raise BlueprintError(
            f"the declared line `{pattern}` is not a regular expression: {error}",
            hint="`json KEY`, `pairs KEY`, or a Python regular expression with its number named (?P<step>...)",
            code="bad_line",
        ) from None
    if compiled.match(b""):
        raise BlueprintError(
            f"the declared line `{pattern}` matches an empty line: any output would be a step",
            hint="name at least one word that only a training step prints",
            code="bad_line",
        )


@dataclass(frozen=True, slots=True)
class Generic(Trainer):
    """Any framework without a module of its own.

    lines: declared by the blueprint, see above. metrics: the names that its objective needs.
    """

    name: str = "generic"
    named: bool = False
    lines: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def signals(self) -> tuple[SignalPattern, ...]:
        """What is declared."""
        return declared(self.lines)

    def reader(self) -> LineReader:
        """A reader of the declared lines; where none is declared as a step, steps are found by their spelling."""
        from autoresearch.runner.step_finder import StepFinder

        signals = self.signals()
        knows = any(signal.kind is SignalKind.STEP for signal in signals)
        return KnownLines(signals, finder=None if knows else StepFinder(self.metrics))

    def recognises(self, command: str) -> bool:
        """Always False: it is the fallback when no other trainer recognises the command."""
        return False

    def seed(self, recipe: Recipe) -> int | None:
        """An integer under `seed` at the top level of the recipe."""
        value = recipe.get("seed")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def seed_key(self) -> str:
        """The most common name of the key; a recipe without it has no seed that can be set."""
        return "seed"
