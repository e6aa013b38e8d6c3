"""Settings on a launch command, hydra's `a.b=c` and `--flag value`, converted to recipe values and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from autoresearch.core.run.trainer import Recipe
from autoresearch.core.text.regex import later

_HYDRA = later(r"\+{0,2}(?P<key>[A-Za-z_][\w-]*(?:\.[\w-]+)+)=(?P<value>.*)", re.DOTALL)
_FLAG = later(r"--(?P<key>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}


def with_hydra(recipe: Recipe, command: str) -> Recipe:
    """The recipe with the command's `a.b=c` over it, as dotted keys; leading `+` and `++` are removed."""
    found = {m["key"]: value_of(m["value"]) for word in _words(command) if (m := _HYDRA.fullmatch(word))}
    return {**recipe, **{key: value for key, value in found.items() if not _unknown(value)}}


def with_flags(recipe: Recipe, command: str) -> Recipe:
    """The recipe with the command's `--flags` over it, dashes in names as underscores; a flag alone is True."""
    found: dict[str, object] = {}
    words = [*_words(command), ""]
    for word, following in pairwise(words):
        flag = _FLAG.fullmatch(word)
        if flag is None:
            continue
        own = flag["value"]
        value = value_of(own) if own is not None else True if _no_value(following) else value_of(following)
        if not _unknown(value):
            found[flag["key"].replace("-", "_")] = value
    return {**recipe, **found}


def hydra_words(overrides: Mapping[str, object], *, prefix: str = "++") -> tuple[str, ...]:
    """`++a.b=c` for each key, which hydra sets or adds."""
    return tuple(f"{prefix}{key}={shown(value)}" for key, value in overrides.items())


def flag_words(overrides: Mapping[str, object], *, dash: str = "-") -> tuple[str, ...]:
    """`--a-b c` for each key; True becomes the flag alone, and a flag that is False or None is omitted.

    dash: replaces the underscores of a key, "-" or "_", depending on the framework's parser.
    """
    words: list[str] = []
    for key, value in overrides.items():
        if value is not False and value is not None:
            words += [f"--{key.replace('_', dash)}", *([] if value is True else [shown(value)])]
    return tuple(words)


def shown(value: object) -> str:
    """A value as hydra reads it."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def value_of(text: str) -> object:
    """Parse a scalar, a flat list or an empty mapping like YAML; anything else stays text."""
    text = text.strip()
    if text == "{}":
        return {}
    if text.startswith("[") and text.endswith("]"):
        return [value_of(item.strip().strip("'\"")) for item in text[1:-1].split(",") if item.strip()]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _words(command: str) -> Iterator[str]:
    from autoresearch.core.shell import simple_commands

    for simple in simple_commands(command):
        yield from simple.words


def _no_value(word: str) -> bool:
    """Whether this word is not the value of the flag before it: another flag, the end, or a `${...}` variable."""
    return not word or word == "--" or bool(_FLAG.fullmatch(word)) or word.startswith("${")


def _unknown(value: object) -> bool:
    return isinstance(value, str) and "$" in value
