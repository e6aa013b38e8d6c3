"""`--launcher`, as every command that has it reads it."""

from __future__ import annotations

import typer

from autoresearch.errors import UsageError


def named(context: typer.Context, option: typer.CallbackParam, value: str) -> str:
    """What was typed. UsageError for nothing: a variable that is not set would send a run to the wrong host."""
    source = context.get_parameter_source(option.name or "")
    if not value.strip() and source is not None and source.name == "COMMANDLINE":
        raise UsageError(
            "flag --launcher: no target is named",
            hint="write targets like `local:2, ssh:gpu1:4, slurm:8`, or leave the flag out",
            code="bad_launcher",
        )
    return value
