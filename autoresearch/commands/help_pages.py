"""How typer is given a command, and how help is laid out: sections, whole sentences, no default that means "not given".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from autoresearch.commands import Option, Positional
from autoresearch.commands.options import declared


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


class PlainCommand(TyperCommand):
    """A command that does not show the numbers by which it knows that an option was not given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            default = parameter.default
            sentinel = isinstance(default, int | float) and not isinstance(default, bool) and default <= 0
            if isinstance(parameter, TyperOption) and sentinel:
                parameter.show_default = False


def for_typer(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose options and arguments are typer's own."""
    signature = inspect.signature(command)
    own = [one.replace(annotation=_annotation(one)) for one in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in own}
    return command


def _annotation(parameter: inspect.Parameter) -> Any:
    kind, word = declared(parameter)
    if isinstance(word, Positional):
        return Annotated[kind, typer.Argument(**word.shown)]
    callback = _checking(word) if word.checked else None
    return Annotated[kind, typer.Option(*word.names, callback=callback, **word.shown)]


def _checking(option: Option) -> Callable[..., str]:
    def callback(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
        source = context.get_parameter_source(parameter.name or "")
        typed = source is not None and source.name == "COMMANDLINE"
        return option.checked(value) if typed and option.checked else value

    return callback
