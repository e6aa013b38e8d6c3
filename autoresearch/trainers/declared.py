"""Declared lines: how a blueprint describes the step and validation lines of an unknown trainer.

    - step_line: json iteration              a JSON object, or a Python dict, in which `iteration` is the step
    - step_line: pairs it                    `it: 12  loss=0.3`, in which `it` is the step
    - step_line: ^iter (?P<step>\\d+), loss (?P<loss>\\S+)    any regular expression

`json` and `pairs` without a key use `step`. The named groups of a regular expression other than `step` are metrics;
other `key: value` pairs on the line are read as well. If no step is named, the lines are counted.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.python_values import GROUPED, NUMBER, number, numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.text.regex import later
from autoresearch.errors import BlueprintError

PADDING = r"[ \t]{0,80}"  # around a colon or an equals sign, for aligned columns
WHOLE = r"(?:[1-9]\d{0,2}(?:,\d{3}){1,3}|\d{1,10})(?!\d|,\d)"  # a step; `12,34` does not match, not even its 12
PAIR = later(
    rf"(?P<key>[A-Za-z_][\w./@-]{{0,80}}){PADDING}[:=]{PADDING}(?P<value>{GROUPED}|{NUMBER})(?![\w.:%]|,\d)"
)
_SHORT = re.compile(r"(?P<how>json|pairs)(?:\s+(?P<key>[^\s{}()\\\"]{1,80}))?\Z")
_WORDS = ("text", "kind")  # named groups with text that the Runner shows to the user
_LONGEST = 20_000  # characters; `pairs` ignores longer lines


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
        """Read a stripped line; None if it does not match, or if its step is not a non-negative integer.

        `unread`: collects the named groups whose text is not a number, with that text.
        """
        if self.how == "regex":
            return self._matched(line, {} if unread is None else unread)
        metrics = loaded(line) if self.how == "json" else pairs(line)
        step = metrics.pop(self.text, None)
        if step is None or not _is_step(step) or not metrics:
            return None
        return Reading(self.kind, int(step), metrics)

    def _matched(self, line: str, unread: dict[str, str]) -> Reading | None:
        found = re.search(self.text, line)
        if found is None:
            return None
        named: dict[str, float] = {}
        for name, text in found.groupdict().items():
            value = None if text is None else number(text)
            if value is not None and (name != "step" or _is_step(value)):
                named[name] = value
            elif text is not None and name not in _WORDS:
                unread.setdefault(name, text)
                if name == "step":  # counting it instead would give the metrics a wrong step
                    return None
        step = named.pop("step", NO_STEP)
        beside = pairs(line)
        if step != NO_STEP:
            beside.pop("step", None)  # the same number once more, and no metric
        return Reading(self.kind, int(step), beside | named)


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


def loaded(line: str) -> dict[str, float]:
    """The numbers in the JSON object or Python dict at the end of a line; {} if there is none."""
    start = line.find("{")
    if start < 0 or not line.endswith("}"):
        return {}
    try:
        value = json.loads(line[start:])
    except (ValueError, RecursionError):
        value = python_dict(line[start:])
    return numbers(value, strings=True) if isinstance(value, dict) else {}


def pairs(line: str) -> dict[str, float]:
    """Every `key: value` and `key=value` whose value is a number; {} for a line of more than 20,000 characters."""
    if len(line) > _LONGEST:
        return {}
    read = ((found["key"], number(found["value"])) for found in PAIR.finditer(line))
    return {key: value for key, value in read if value is not None}
