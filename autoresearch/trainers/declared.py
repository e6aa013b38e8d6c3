"""Declared lines: how a blueprint describes the step and validation lines of an unknown trainer.

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

from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.python_values import number
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError
from autoresearch.runner.metric_lines import body, metrics_of, step_rank

PADDING = r"[ \t]{0,80}"  # around a colon or an equals sign, for aligned columns
WHOLE = r"(?:[1-9]\d{0,2}(?:,\d{3}){1,3}|\d{1,10})(?!\d|,\d)"  # a step; `12,34` does not match, not even its 12
_SHORT = later(r"(?P<how>json|pairs)(?:\s+(?P<key>[^\s{}()\\\"]{1,80}))?\Z")
_WORDS = ("text", "kind")  # named groups with text that the Runner shows to the user


@dataclass(frozen=True, slots=True)
class DeclaredLine:
    """One declared line. `how`: json, pairs or regex; `text`: the key of the step, or the regular expression."""

    kind: SignalKind
    how: str
    text: str

    @property
    def signal(self) -> SignalPattern:
        """The pattern for the Runner."""
        if self.how == "regex":
            return SignalPattern(self.kind, self.text)
        key = re.escape(self.text)
        end = rf"(?P<step>{WHOLE})(?![\w.])"
        if self.how == "json":
            needles = (f'"{self.text}"', f"'{self.text}'")
            return SignalPattern(self.kind, rf"[\"']{key}[\"']{PADDING}:{PADDING}{end}", needles=needles)
        begins = rf"{key}(?:(?<=^{key})|(?<=[\s,;|\[(\]]{key}))"
        return SignalPattern(self.kind, rf"{begins}{PADDING}[:=]{PADDING}{end}", needles=(self.text,))

    def read(self, line: str, unread: dict[str, str] | None = None) -> Reading | None:
        """Read a cleaned line; None if it does not match, or if its step is not a non-negative integer.

        `unread`: collects the named groups whose text is not a number, with that text.
        """
        found = re.search(self.text if self.how == "regex" else self.signal.pattern, line)
        if found is None:
            return None
        named: dict[str, float] = {}
        for name, text in found.groupdict().items():
            value = None if text is None else number(text)
            if value is not None and (name != "step" or _is_step(value)):
                named[name] = value
            elif text is not None and name not in _WORDS:
                ({} if unread is None else unread).setdefault(name, text)
                if name == "step":  # counting it instead would give the metrics a wrong step
                    return None
        step = int(named.pop("step", NO_STEP))
        if self.how == "json":
            line = line[line.find("{") :] if line.endswith("}") else ""
        beside = metrics_of(body(line))
        own = [name for name, value in beside.items() if value == step and (name == self.text or step_rank(name) == 0)]
        metrics = {name: value for name, value in beside.items() if name not in (*own, *found.groupdict())} | named
        return Reading(self.kind, step, metrics) if metrics or self.how == "regex" else None


def _is_step(value: float) -> bool:
    return value >= 0 and float(value).is_integer()


@functools.cache
def declared(lines: tuple[str, ...]) -> tuple[DeclaredLine, ...]:
    """Parse `step ...` and `validation ...`; BlueprintError for an invalid regex or one that matches an empty line."""
    found = []
    for line in lines:
        kind, _, text = line.partition(" ")
        short = _SHORT.match(text)
        if short is None:
            _check(text)
        how, value = (short["how"], short["key"] or "step") if short else ("regex", text)
        found.append(DeclaredLine(SignalKind(kind), how, value))
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
