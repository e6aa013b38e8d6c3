"""How help is laid out: commands in sections, whole sentences, no default that only means "not given"."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

SECTIONS = {
    "Runs": (
        "run",
        "status",
        "wait",
        "queue",
        "logs",
        "metrics",
        "explain",
        "stop",
        "attach",
        "note",
    ),
    "Results": ("report", "ledger", "compare", "repro"),
    "Many runs": ("campaign",),
    "Setup": ("demo", "doctor", "init", "config", "blueprint", "clean"),
    "Coding agents, AgentJet": ("skill", "mcp", "scaffold"),
}
CAMPAIGN_SECTIONS = {
    "Start and watch": ("start", "status"),
    "Steer": ("pause", "resume", "stop", "set", "add", "skip", "fix", "approve"),
    "Claims": ("confirm",),
}
CONTEXT = {"help_option_names": ["-h", "--help"]}


class SectionedGroup(TyperGroup):
    """A group whose commands are listed in sections; those that are in none come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        rows = {
            name: (name, command.short_help or command.get_short_help_str(1000))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        }
        sections = SECTIONS if "run" in rows and "doctor" in rows else CAMPAIGN_SECTIONS if "pause" in rows else {}
        for title, names in sections.items():
            if found := [rows.pop(name) for name in names if name in rows]:
                with formatter.section(title):
                    formatter.write_dl(found)
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(list(rows.values()))


class PlainCommand(TyperCommand):
    """A command that does not show the numbers by which it knows that an option was not given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            default = parameter.default
            sentinel = isinstance(default, int | float) and not isinstance(default, bool) and default <= 0
            if isinstance(parameter, TyperOption) and sentinel:
                parameter.show_default = False
