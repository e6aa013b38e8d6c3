"""Command lines that need no parser's help.

A line of known words is read here, by what stands beside the parameters of its command. Help, completion, a mistake and
all that is unusual are typer's, whose import alone takes longer than `status` may: `read` gives such a line up, and the
front door hands it to typer (`help_pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, NamedTuple, get_args

from autoresearch.commands import Option, Positional
from autoresearch.errors import UsageError


class Parameter(NamedTuple):
    """A parameter of a command."""

    name: str
    annotation: Any
    default: Any = MISSING


def parameters_of(command: Callable[..., Any]) -> list[Parameter]:
    """Its parameters, as `inspect.signature(command, eval_str=True)` knows them, which takes 8 ms to import."""
    code, defaults = command.__code__, command.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = dict(zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True))
    given |= command.__kwdefaults__ or {}
    kinds = {name: eval(command.__annotations__[name], command.__globals__) for name in names}
    return [Parameter(name, kinds[name], given.get(name, MISSING)) for name in names]


def declared(parameter: Parameter) -> tuple[Any, Option]:
    """The type of a command's parameter, and what stands for it on the command line."""
    kind, word = get_args(parameter.annotation)
    return kind, word


def read(parameters: Iterable[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The values of a plain command line, as typer would read them; None for any other line.

    Raises UsageError for a word in the place of a number.
    """
    options: dict[str, Parameter] = {}
    arguments: list[Parameter] = []
    values: dict[str, Any] = {}
    for parameter in parameters:
        word = declared(parameter)[1]
        if isinstance(word, Positional):
            arguments.append(parameter)
        else:
            names = word.names or (f"--{parameter.name.replace('_', '-')}",)
            options |= dict.fromkeys(names, parameter)
            values[parameter.name] = parameter.default
    loose: list[str] = []
    rest = iter(words)
    for text in rest:
        name, equals, value = text.partition("=")
        if text == "--":
            loose += rest
        elif not text.startswith("-"):
            loose.append(text)
        elif name not in options or not _take(values, options[name], value if equals else None, rest):
            return None
    for parameter in arguments:
        many = declared(parameter)[0] not in (str, Path)
        texts = loose if many else loose[:1]
        loose = loose[len(texts) :]
        if not all(_put(values, parameter, text) for text in texts):
            return None
        values.setdefault(parameter.name, parameter.default)
    return None if loose or any(value is MISSING for value in values.values()) else values


def _take(values: dict[str, Any], parameter: Parameter, value: str | None, rest: Iterable[str]) -> bool:
    """Whether an option's value is there; where it does not stand behind `=`, it is the next word."""
    kind, option = declared(parameter)
    if kind is bool:
        values[parameter.name] = True
        return value is None
    text = next(iter(rest), "-") if value is None else value
    if value is None and text.startswith("-"):
        return False
    if option.checked:
        text = option.checked(text)
    return _put(values, parameter, text)


def _put(values: dict[str, Any], parameter: Parameter, text: str) -> bool:
    kind, word = declared(parameter)
    if kind in (str, Path):
        values[parameter.name] = kind(text)
    elif kind == list[str] | None:
        values[parameter.name] = [*(values.get(parameter.name) or ()), text]
    elif not text.removeprefix("-").isdecimal():
        name = next(iter(word.names), f"--{parameter.name}")
        raise UsageError(f"{name} is a whole number, and {text!r} is none")
    elif "min" not in word.shown and text.isascii() and text.isdigit():
        values[parameter.name] = int(text)
    else:
        return False
    return True
