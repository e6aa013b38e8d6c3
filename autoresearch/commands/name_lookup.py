"""Names on the command line: of the campaign that a command changes, of a direction, and of a target."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from autoresearch.commands import Option, output
from autoresearch.errors import ConflictError, UsageError

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.campaign_records import CampaignDir


def campaign_to_change(
    name: str, parts: Parts, *, of_idea: bool = False, stands: bool = False
) -> CampaignDir:
    """The campaign that a command acts on: the named one, else the one that lives, else the newest.

    `stands`: one that has not ended and is without a controller goes before one that lives. `of_idea`: commands that
    take ideas have an option for the name. ConflictError where none is named and several live.
    """
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.records.campaign_records import CampaignDir

    if name or CampaignDir(Path.cwd()).spec.is_file():
        return campaign_registry.find(name, parts)
    words = [word for word in output.typed.words if word != "--json"]
    verb, rest = words[:2], words[2:]
    own = campaign_registry.unfinished(parts)
    controlled = [one for one in own if one.campaign_dir.controlled is not stands]
    living = controlled or own
    if len(living) > 1:
        names = [one.name for one in living]
        more = [*rest, "--campaign", names[0]] if of_idea else [names[0], *rest]
        raise ConflictError(
            f"{len(living)} campaigns {'are live' if controlled and not stands else 'have not ended'}: "
            f"{', '.join(names)}; name one",
            fix=shlex.join(["autoresearch", *verb, *more]),
            code="several_campaigns",
        )
    return living[0].campaign_dir if living else campaign_registry.find("", parts)


def direction_named(value: str) -> str:
    """What was typed after `--direction`, as `maximize` or `minimize`. UsageError for anything else."""
    from autoresearch.core.blueprint.model import DIRECTIONS

    word = DIRECTIONS.get(value.strip().lower(), value)
    if word not in ("maximize", "minimize"):
        raise UsageError(f"--direction is maximize or minimize, not {value}")
    return word


DirectionWord = Annotated[str, Option(help="maximize or minimize.", checked=direction_named)]


def target_named(value: str) -> str:
    """What was typed after `--launcher`. UsageError for nothing: an unset variable names no host."""
    if not value.strip():
        raise UsageError(
            "flag --launcher: no target is named",
            hint="write targets like `local:2, ssh:gpu1:4, slurm:8`, or leave the flag out",
            code="bad_launcher",
        )
    return value
