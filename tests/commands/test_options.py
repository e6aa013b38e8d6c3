"""A plain command line is read without typer, and as typer reads it; any other is left to typer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

import pytest

from autoresearch import cli
from autoresearch.commands import Positional, options
from tests.commands.conftest import program

NAMES = [name for name, command in cli.COMMANDS.items() if command.function]
LEFT = [["--help"], ["-h"], ["--no-such-option"], ["--no-such=1"], ["--json=yes"], ["--js"], ["-x"], ["-"]]


def parameters(name: str) -> list[options.Parameter]:
    known: list[options.Parameter] = cli._load(cli.COMMANDS[name].function).parameters
    return known


def by_typer(name: str, words: list[str]) -> dict[str, Any]:
    known = program(*name.split())
    for word in name.split():
        known = known.commands[word]
    context = known.make_context("autoresearch", list(words))
    return {key: None if value == () else value for key, value in context.params.items()}  # as typer hands it on


def lines(name: str) -> Iterator[list[str]]:
    """Each option alone, before and behind the arguments, in both of its forms; twice; all together; behind `--`."""
    loose = [word for p in parameters(name) if _argument(p) for word in (["b", "c d"] if _many(p) else ["a.md"])]
    yield loose
    yield ["--", *loose]
    yield ["--", *loose[:-1], *("-c" for _ in loose[-1:])]
    every: list[str] = []
    for parameter in (one for one in parameters(name) if not _argument(one)):
        kind, option = options.declared(parameter)
        text = "7" if kind in (int, int | None) else "max" if parameter.name == "direction" else "x=1"
        for word in option.names or [f"--{parameter.name.replace('_', '-')}"]:
            if word.startswith("--"):
                forms = [[word]] if kind is bool else [[word, text], [f"{word}={text}"], [f"{word}={text}", word, text]]
                yield from ([*form, *loose] for form in forms)
                yield from ([*loose, *form] for form in forms)
        every += forms[0]
    yield [*every, *loose]


def _argument(parameter: options.Parameter) -> bool:
    return isinstance(options.declared(parameter)[1], Positional)


def _many(parameter: options.Parameter) -> bool:
    return options.declared(parameter)[0] == list[str] | None


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_without_typer_is_what_typer_reads(name: str) -> None:
    required = [one for one in parameters(name) if one.default is MISSING and not _argument(one)]
    more = [word for one in required for word in (f"--{one.name.replace('_', '-')}", "x")]
    read = 0
    for line in lines(name):
        words = [*more, *line]
        values = options.read(parameters(name), words)
        if values is not None:
            assert values == by_typer(name, words), words
            read += 1
    assert read > 1


@pytest.mark.parametrize("words", [["logs", "--tail", "x"], ["logs", "--tail=2.5"], ["report", "--port", ""]])
def test_what_is_no_number_is_refused_in_our_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    assert f"{words[1].partition('=')[0]} is a whole number, and" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_help_and_mistakes_are_left_to_typer(name: str) -> None:
    for words in [*LEFT, *([option] for p in parameters(name) for option in _valued(p)), ["x"] * 3]:
        if words != ["x"] * 3 or not any(map(_many, parameters(name))):
            assert options.read(parameters(name), words) is None, words


def _valued(parameter: options.Parameter) -> list[str]:
    """The names of an option that takes a value."""
    kind, option = options.declared(parameter)
    return [] if kind is bool or isinstance(option, Positional) else [*option.names]
