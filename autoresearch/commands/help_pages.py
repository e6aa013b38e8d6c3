"""How typer is given a command, and how help is laid out: sections, and whole sentences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from autoresearch.commands import Option, Positional
from autoresearch.commands.options import Parameter, declared


def grouped(sections: Mapping[str, str]) -> type[TyperGroup]:
    """A class of groups whose commands are listed in sections: of each command, the section's title."""

    class SectionedGroup(TyperGroup):
        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Write the sections."""
            rows: dict[str, list[tuple[str, str]]] = {}
            for name, title in sections.items():
                command = self.get_command(ctx, name)
                if command is not None and not command.hidden:
                    about = command.short_help or command.get_short_help_str(1000)
                    rows.setdefault(title, []).append((name, about))
            for title, listed in rows.items():
                with formatter.section(title):
                    formatter.write_dl(listed)

    return SectionedGroup


def for_typer(command: Any) -> Any:
    """A command whose options and arguments are typer's own."""
    empty, own = inspect.Parameter.empty, {one.name: _annotation(one) for one in command.parameters}
    parameters = []
    for one in command.parameters:
        default = empty if one.default is MISSING else one.default
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(one.name, keyword, default=default, annotation=own[one.name]))
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = own
    return command


def _annotation(parameter: Parameter) -> Any:
    kind, word = declared(parameter)
    if isinstance(word, Positional):
        return Annotated[kind, typer.Argument(**word.shown)]
    callback = _checking(word) if word.checked else None
    shown = {"show_default": parameter.default not in (0, -1), **word.shown}  # which say that it was not given
    return Annotated[kind, typer.Option(*word.names, callback=callback, **shown)]


def _checking(option: Option) -> Callable[..., str]:
    def callback(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
        source = context.get_parameter_source(parameter.name or "")
        typed = source is not None and source.name == "COMMANDLINE"
        return option.checked(value) if typed and option.checked else value

    return callback
