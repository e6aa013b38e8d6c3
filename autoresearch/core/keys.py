"""Key: one key of a file that people write, declared once: its type, default, bounds and one sentence.

The parser (`Key.read`), the JSON schema for editors (`Key.schema`), `config schema`, the tables in the docs and `--set`
all come from these declarations. What has several keys of its own, such as a range of a search space or an entry of a
queue, is declared as a JSON schema beside the code that reads it.

Neither msgspec nor pydantic does this for us: their messages name neither the file nor the nearest key.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError

_YES, _NO = frozenset({"true", "yes", "on", "y", "1"}), frozenset({"false", "no", "off", "n", "0"})
_CLOCK = later(r"(\d{1,2})(?::(\d\d))?\s?([ap]m)?", re.IGNORECASE)  # with minutes or am, pm

Schema = dict[str, Any]


class ValueType(StrEnum):
    """What a key takes, in the words of `config schema`."""

    COUNT = "whole number"
    AMOUNT = "number above 0"
    SHARE = "number from 0 to 1"
    DURATION = "duration"
    DEADLINE = "duration, or time with or without a date"
    SWITCH = "true or false"
    CHOICE = "one of"
    TEXT = "text"
    TEXTS = "text or list of texts"
    PATHS = "path, pattern, or list of them"
    COMMAND = "command, or list of words"
    SPACE = "mapping, or its file"
    QUEUE = "path or list of ideas"
    SCREEN = "duration, or overrides: mapping"
    ANY = "text, number, list or mapping"


@dataclass(frozen=True, slots=True)
class Key:
    """One key; `least` bounds a whole number, the rest is for choices."""

    name: str
    type: ValueType
    default: Any
    meaning: str
    least: int = 0
    choices: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)  # other words -> the choice that each means; "": none
    plugins: Container[str] = ()  # names of plug-ins, which may be chosen, too
    spec_field: str = ""  # the field of the spec that takes the value as it is, if one does
    by_name: bool = False  # it may be a mapping, with a value for each of several agents

    @property
    def takes(self) -> str:
        """Its type in words."""
        if self.type is ValueType.CHOICE:
            return f"{self.type} {', '.join(self.choices)}"
        return f"{self.type} from {self.least}" if self.type is ValueType.COUNT else self.type.value

    def read(self, value: Any, now: float) -> Any:
        """The value in the type of its key. ValueError or TypeError, with one clause, where it has none."""
        if value is None:
            return None
        if self.by_name and isinstance(value, Mapping):
            return {str(name): self.read(one, now) for name, one in value.items()}
        match self.type:
            case ValueType.COUNT:
                return self._count(value)
            case ValueType.AMOUNT | ValueType.SHARE:
                return self._amount(value)
            case ValueType.DURATION:
                return seconds(value)
            case ValueType.SCREEN:
                return _screen(value)
            case ValueType.DEADLINE:
                return as_deadline(value, now)
            case ValueType.SWITCH:
                if (switch := truth(value)) is None:
                    raise ValueError(f"{value!r} is neither true nor false")
                return switch
            case ValueType.CHOICE:
                return self._choice(value)
            case ValueType.TEXTS | ValueType.COMMAND:
                if not isinstance(value, str | list | tuple):
                    raise ValueError(f"{value!r} is no list")
                if isinstance(value, str):
                    return shlex.split(value) if self.type is ValueType.COMMAND else [value]
                return [str(item) for item in value]
            case ValueType.PATHS:
                if not isinstance(value, str | Mapping | list | tuple):
                    raise ValueError(f"{value!r} is no list")
                from autoresearch.core.run.extra_paths import parse_include

                listed = value if isinstance(value, list | tuple) else [value]
                return [str(parse_include(item)) for item in listed]
            case ValueType.TEXT:
                return str(value).strip()
            case ValueType.QUEUE if not isinstance(value, str | list):
                raise ValueError(f"{value!r} is neither a path nor a list of ideas")
        return value

    def _count(self, value: Any) -> int:
        number = _float(value)
        if isinstance(value, bool) or not number.is_integer() or number < self.least:
            raise ValueError(f"{value!r} is not a whole number of at least {self.least}")
        return int(number)

    def _amount(self, value: Any) -> float:
        number = _float(value)
        if isinstance(value, bool) or not (0.0 <= number <= 1.0 if self.type is ValueType.SHARE else number > 0):
            raise ValueError(f"{value!r} is not a {self.type}")
        return number

    def _choice(self, value: Any) -> str:
        word = str(value).strip()
        if self._has_off and truth(value) is False:  # `off`, which YAML takes for false
            word = "off"
        known = self.others.get(word.lower(), word.lower())
        if word.lower() in self.others or known in self.choices or (not word and not self.default):
            return known
        if word in self.plugins:
            return word
        few = {1: "not ", 2: "neither "}.get(len(self.choices), "not one of ")
        words = few + (" nor " if len(self.choices) == 2 else ", ").join(self.choices)
        raise ValueError(f"{value!r} is {words}")

    @property
    def _has_off(self) -> bool:
        return "off" in (*self.choices, *self.others)

    def schema(self, installed: Iterable[str] = ()) -> Schema:
        """Its JSON schema; `installed`: names of the plug-ins of its group."""
        default = {} if self.default in (None, "", [], ()) else {"default": self.default}
        made = TYPE_SCHEMAS.get(self.type, {})
        if self.type is ValueType.COUNT:
            made = {"type": ["integer", "string", "null"], "minimum": self.least, "pattern": r"^\d+$"}
        elif self.type is ValueType.CHOICE:
            off = [False] if self._has_off else []
            made = {"enum": [*self.choices, *self.others, *installed, *off, None]}
        if self.by_name:
            made = {"anyOf": [made, {"type": "object", "additionalProperties": made}]}
        return {"description": self.meaning, **default, **made}


def seconds(value: Any) -> float:
    """A duration, or a number of seconds. ValueError for one that nothing could wait for."""
    found = float(value) if isinstance(value, int | float) else parse_duration(str(value))
    if wrong := problem(found):
        raise ValueError(f"{value!r} {wrong}")
    return found


def _screen(value: Any) -> float | Mapping[Any, Any]:
    """Seconds, or the settings of a cheap first run. ValueError for anything else."""
    if not isinstance(value, Mapping):
        return seconds(value)
    match dict(value):
        case {"time": time, **others} if not others:
            return seconds(time)
        case {"overrides": {**settings}, **others} if settings and not others:
            return settings
    raise ValueError(f"{value!r} is neither a duration nor settings, as {{overrides: {{steps: 20}}}}")


def truth(value: object) -> bool | None:
    """Parse a boolean, or a word for one as in YAML 1.1 (yes, on, y, 1 ...); None for anything else."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def as_deadline(value: Any, now: float) -> float:
    """Wall clock seconds: from a duration that begins now, a date and time, or a time of the day: the next such one."""
    import datetime  # takes 2 ms to import

    clock = _CLOCK.fullmatch(str(value).strip())
    if isinstance(value, datetime.datetime):
        at = value.timestamp()
    elif clock and (clock[2] or clock[3]):
        hour = int(clock[1]) % 12 + 12 * (clock[3].lower() == "pm") if clock[3] else int(clock[1])
        today = datetime.datetime.fromtimestamp(now)
        then = today.replace(hour=hour, minute=int(clock[2] or 0), second=0, microsecond=0)
        at = (then if then > today else then + datetime.timedelta(days=1)).timestamp()
    else:
        try:
            at = datetime.datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            return now + seconds(value)
    if at <= now:
        raise ValueError(f"{value} has passed")
    return at


_SAME = (  # words for one thing, of which no file has more than one
    *("slug title name id", "sentence hypothesis idea description summary rationale", "queue hypotheses"),
    *("overrides set changes params parameters config settings", "space search_space param_space sweep"),
    *("count max_ideas num_ideas trials n_trials num_trials max_trials", "deadline time_budget"),
    *("timeout run_timeout time_per_run", "parallel concurrency n_jobs max_parallel", "metric objective"),
    "constraints constraint",
    *("proposer sampler strategy algorithm", "launcher backend executor"),
    "screen prune pruner early_stop early_stopping",
)


_NEAR = (  # another unit, or a word with a second meaning: proposed, and never assumed
    *("deadline max_hours", "parallel num_workers workers", "count max_runs runs", "target goal threshold"),
    *("prefix name title", "patches patch diff", "budget_gpu_hours budget"),
)


def same_thing(word: str, known: Iterable[str], words_of: Iterable[str] = _SAME) -> str:
    """The known key that means the same as a word; "" for none, and where several do."""
    word = word.strip().lower().replace("-", "_").replace(" ", "_")
    found = [key for words in map(str.split, words_of) if word in words for key in known if key in words]
    return found[0] if len(found) == 1 else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known key that is nearest to a word: by what it means, then by the letters of all words for it; or ""."""
    import difflib

    meant, known = (*_SAME, *_NEAR), tuple(known)
    words = {one: key for words in meant for key in known if key in words.split() for one in words.split()}
    near = difflib.get_close_matches(word, words.keys() | set(known), 1)
    return same_thing(word, known, meant) or next((words.get(one, one) for one in near), "")


def in_known_words(content: Mapping[Any, Any], known: Collection[str]) -> dict[Any, Any]:
    """The same with our word for another that cannot mean anything else."""
    ours = {word: word if word in known else same_thing(str(word), known) or word for word in content}
    times = Counter(ours.values())
    return {ours[word] if times[ours[word]] == 1 else word: value for word, value in content.items()}


def unknown_key(source: str, name: str, keys: Iterable[str]) -> UsageError:
    """The error for a key that nobody knows; its hint is the nearest key, else all of them."""
    near = nearest(name, keys)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(keys))}"
    return UsageError(f"{source}: unknown key {name!r}", hint=hint, code="bad_campaign_file")


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None


# ------------------------------------------------------------------ what editors know of each type

_UNITS = "w|weeks?|wks?|d|days?|h|hours?|hrs?|m|minutes?|mins?|s|seconds?|secs?"
DURATION = (
    rf"^\s*(\d[\d.]*\s*-?({_UNITS})\s*(and\s+)?)+$"  # 1h30m, 24 hours
    r"|^\d+:\d\d:\d\d$|^[\d.]+$"
    r"|^[A-Za-z -]+(week|day|hour|minute|second)s?( and a half)?$"  # half an hour
    r"|[^\u0000-\u007f]"  # 24小时
)
_LIMITS = r"^\d{4}-\d\d-\d\d|^\d{1,2}(:\d\d)?\s?([aApP][mM])?$|each|total|in all|per|experiments|ideas"  # of a deadline
_WORDS = {"patternErrorMessage": "write a duration, such as 90s, 20m, 1h30m or 24h"}  # shown by VS Code
_SWITCH: Schema = {"enum": [True, False, "yes", "no", "on", "off", "true", "false", None]}
_TEXTS: Schema = {"type": ["string", "array", "null"], "items": {"type": ["string", "number"]}}
_NUMBER: Schema = {"type": ["number", "string", "null"], "pattern": r"^[\d.]+([eE][+-]?\d+)?$"}
_TIME: Schema = {"type": ["string", "number", "null"], "pattern": DURATION, "exclusiveMinimum": 0, **_WORDS}
TYPE_SCHEMAS: Mapping[ValueType, Schema] = {
    ValueType.AMOUNT: {**_NUMBER, "exclusiveMinimum": 0},
    ValueType.SHARE: {**_NUMBER, "minimum": 0, "maximum": 1},
    ValueType.DURATION: _TIME,
    ValueType.DEADLINE: {**_TIME, "pattern": rf"{DURATION}|{_LIMITS}"},
    ValueType.SWITCH: _SWITCH,
    ValueType.TEXT: {"type": ["string", "number", "null"]},
    ValueType.TEXTS: _TEXTS,
    ValueType.PATHS: {"type": ["string", "object", "array", "null"], "items": {"type": ["string", "object"]}},
    ValueType.COMMAND: _TEXTS,
    ValueType.SPACE: {"type": ["object", "string", "null"], "minProperties": 1},
    ValueType.QUEUE: {"type": ["string", "array", "null"]},
    ValueType.SCREEN: {"anyOf": [_TIME, {"type": "object", "minProperties": 1, "maxProperties": 1}]},
}
