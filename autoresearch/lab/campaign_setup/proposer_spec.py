"""Where the ideas of a campaign come from: a queue, a search space, or a coding agent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.agents.protection import why_protected
from autoresearch.core.agents.turns import AGENT, HYBRID, OPTIMISER
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.space import around, need_grid, need_search, on_one_line, read_space
from autoresearch.core.campaign.spec import ProposerSpec
from autoresearch.errors import InputMissing, UsageError
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.proposers.registry import NAMES, check_packages


def launch_of(setup: CampaignSetup) -> LaunchSettings:
    """What the ideas can vary: all that the launch has, and what a key of the space needs of the program's `--help`."""
    space = setup.file["space"]  # a queue is checked entry by entry
    keys = tuple(map(str, space)) if isinstance(space, Mapping) else ()
    return setup.trainer_settings.launch_for(keys, setup.checkout.root, setup.parts.environ)


def resolve_proposer(setup: CampaignSetup, launch: LaunchSettings) -> ProposerSpec:
    """The proposer with its space or its queue.

    UsageError if it has neither, EnvironmentUnusable if a package that it needs is missing.
    """
    file, queue = setup.file, setup.file["queue"]
    if not file.is_set("proposer"):
        setup.sources["proposer"] = "a queue is named" if queue else "built-in"
    if not file.is_set("space") and not queue:
        setup.sources["space"] = "the trainer's own, low-risk"
    name = file["proposer"] or ("queue" if queue else "tpe")
    space: dict[str, Any] = {}
    if name == QUEUE:
        _require(queue)
    elif name != AGENT:
        own = launch.trainer.space(setup.trainer_settings.whole)
        given: Any = own if file["space"] is None else file["space"]
        if given or own or name in (*NAMES, HYBRID):  # a plug-in may do without a space
            if not given:
                raise _nothing_to_try(file, launch)
            (need_grid if name == "grid" else need_search)(read_space(given))
            space = {launch.key_of(str(key)): value for key, value in given.items()}
        check_packages(OPTIMISER if name == HYBRID else name)
    return ProposerSpec(name, space=space, queue="" if name == AGENT else queue, seed=file["seed"])


def _require(queue: str) -> None:
    if not queue:
        raise UsageError(
            "the proposer is a queue, and none is named",
            hint="`queue: ideas/` in the campaign file, or --queue PATH: a folder of blueprints or a YAML list",
            code="no_queue",
        )
    if not Path(queue).exists():
        raise UsageError(f"the queue {queue} is not there", code="no_queue")


def _nothing_to_try(campaign_file: CampaignFile, launch: LaunchSettings) -> InputMissing:
    """The error of a search without a space, with one around what the launch has."""
    message = f"there is nothing to try: no `space` is given, and the trainer {launch.trainer.name} has none of its own"
    line = space_line(launch)
    if line:
        message += f"; this launch has {', '.join(f'{key} ({value})' for key, value in _offered(launch).items())}"
        hint = f"--set 'space={line}', or in the campaign file: space: {line}; --queue FILE tries a list of your own"
        fix = shlex.join(["autoresearch", "campaign", "start", str(campaign_file.source)])
    else:
        hint = (
            "`space: {lr: {low: 1e-6, high: 1e-4, log: true}}` in the campaign file if something takes an lr; "
            "else changes of files, by a list (--queue ideas.yaml) or a coding agent (--proposer agent --agent NAME)"
        )
        fix = "autoresearch config schema idea"
    return InputMissing(
        message,
        hint=hint,
        missing="space",
        add=f"space: {line or '{lr: {low: 1e-6, high: 1e-4, log: true}}'}",
        add_to=str(campaign_file.path or campaign_file.blueprint.with_name("campaign.yaml")),
        fix=fix,
        setting=f"space={line}" if line else "",
        code="no_space",
    )


def space_line(launch: LaunchSettings) -> str:
    """A space around two numbers of this launch, as a campaign file has it; "" if it has none."""
    offered = list(_offered(launch).items())[:2]
    return on_one_line({key: around(key, value) for key, value in offered}) if offered else ""


def _offered(launch: LaunchSettings) -> dict[str, Any]:
    """The numbers that this launch could vary; not what measures a run, such as its seed or its number of steps."""
    numbers = {
        key: value
        for key, value in flatten(launch.settings).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9 and not why_protected(key)
    }
    return dict(list(numbers.items())[:8])
