"""How help is laid out: commands in sections, whole sentences, no default that only means "not given"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

CONTEXT = {"help_option_names": ["-h", "--help"]}


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
