"""Where the ideas of a campaign come from: a queue, a search space, or a coding agent; what is wrong with a queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from autoresearch.core.agents.protection import why_protected
from autoresearch.core.agents.turns import AGENT, HYBRID, OPTIMISER
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.space import need_grid, need_search, read_space
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec
from autoresearch.errors import BlueprintError, InputMissing, UsageError
from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.recipes.overrides import LaunchSettings, holds
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_entry
from autoresearch.proposers.registry import NAMES, check_packages
from autoresearch.records.hostile import read_readable

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


# -------------------------------------------------------------------------------------- what is wrong with a queue


class QueueInvalid(BlueprintInvalid):
    """A queue with entries that cannot be tried; `findings` has all of them."""

    code = "bad_queue"

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings)
        self.fix = "autoresearch config schema idea"


def _queue(campaign_spec: CampaignSpec) -> Queue:
    return Queue(Path(campaign_spec.proposer.queue), parse_any, line_numbers)


def varied_keys(campaign_spec: CampaignSpec) -> list[str]:
    """What the space and the ideas of a queue set; without ideas that bring code or a blueprint along."""
    ideas = _queue(campaign_spec).ideas() if campaign_spec.proposer.queue else []
    plain = [idea.overrides for idea in ideas if not (idea.blueprint or idea.patches or idea.files)]
    return [*dict.fromkeys(chain(campaign_spec.proposer.space, *plain))]


def check_queue(campaign_spec: CampaignSpec, launch: LaunchSettings) -> tuple[Finding, ...]:
    """Warn of a queue that holds fewer ideas than are to be tried. QueueInvalid with all that is wrong with it."""
    if not campaign_spec.proposer.queue:
        return ()
    queue = _queue(campaign_spec)
    queue.check((), partial(_misfit, launch, campaign_spec.recipe))
    if faults := queue.faults():
        raise QueueInvalid(faults)
    count, only = campaign_spec.rules.count, campaign_spec.proposer.name == QUEUE
    held = len(queue.slugs())
    if count is None or not only or held + 1 >= count:
        return ()
    message = f"the queue holds {held} of the {count - 1} ideas that are to be tried beside the baseline"
    hint = f"after them the campaign waits for more: `campaign add`, or --count {held + 1} ends it then"
    return (Finding(Severity.WARNING, "short_queue", message, hint),)


def entry_findings(entries: Sequence[object], file: str) -> list[Finding]:
    """The errors of entries whose paths are absolute; `file`: which contains them, "" for a command line."""
    lines = line_numbers(read_readable(Path(file))) if file else {}
    findings = []
    for n, entry in enumerate(entries):
        try:
            from_entry(entry, Path("/"))
        except Broken as broken:
            for fault in broken.faults:
                paths = [path[:end] for path in ((n, *fault.keys), fault.keys) for end in range(len(path), 0, -1)]
                line = next((lines[path] for path in paths if path in lines), 0)
                findings.append(Finding(Severity.ERROR, "bad_entry", fault.message, where=file, line=line))
    return findings


def _misfit(launch: LaunchSettings, recipe: str, hypothesis: Hypothesis) -> str:
    """Why the recipe or the command cannot take an idea's overrides; "" if it can, or if the idea brings its own."""
    own = hypothesis.blueprint or hypothesis.patches or recipe in hypothesis.files
    if own or not hypothesis.overrides or hypothesis.parent not in (BEST, BASELINE):
        return ""
    try:
        launch.check(hypothesis.overrides)
    except BlueprintError as error:
        import difflib

        known = launch.recipe or {}
        unknown = [key for key in hypothesis.overrides if known and not holds(known, key.removeprefix("+"))]
        near = [one for key in unknown for one in difflib.get_close_matches(key, flatten(known), 1)]
        hint = f"did you mean {near[0]}?" if near else error.hint
        return f"{error.message}{f' ({hint})' if hint else ''}"
    return ""
