"""Where the ideas of a campaign come from: a queue, a search space, or a coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoresearch.core.agents.protection import why_protected
from autoresearch.core.agents.turns import AGENT, HYBRID, OPTIMISER
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.space import need_grid, need_search, read_space
from autoresearch.core.campaign.spec import ProposerSpec
from autoresearch.errors import InputMissing, UsageError
from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.proposers.queue_entry import QUEUE
from autoresearch.proposers.registry import NAMES, check_packages

MOST_TOLD = 8  # settings in a message


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
    """The error of a search without a space, with what the launch has."""
    message = f"there is nothing to try: no `space` is given, and the trainer {launch.trainer.name} has none of its own"
    known = offered(launch)
    if known:
        shown = (key if value is None else f"{key} ({value})" for key, value in [*known.items()][:MOST_TOLD])
        message += f"; this launch has {', '.join(shown)}"
    key = next(iter(known), "lr")
    what = "keys to what they may be" if known else "what the program takes to what it may be"
    line = f"space: {{{key}: [VALUE, VALUE]}}"
    return InputMissing(
        message,
        hint=f"`{line}` in the campaign file maps {what}; or change files, by a list (--queue ideas.yaml) or a coding "
        "agent (--proposer agent --agent NAME)",
        missing="space",
        add=line,
        add_to=str(campaign_file.path or campaign_file.blueprint.with_name("campaign.yaml")),
        fix="autoresearch config schema" if known else "autoresearch config schema idea",
        code="no_space",
    )


def offered(launch: LaunchSettings) -> dict[str, int | float | None]:
    """The numbers that this launch could vary, and its flags of an unknown default (None), which come last.

    Without what measures a run, such as its seed or its number of steps.
    """
    known = flatten({**launch.settings, **{key.lstrip("-"): value for key, value in launch.flags.items()}})
    free = {key: value for key, value in known.items() if not why_protected(key)}
    numbers = {key: one for key, one in free.items() if isinstance(one, int | float) and not isinstance(one, bool)}
    return {**numbers, **{key: None for key, value in free.items() if value is None}}
