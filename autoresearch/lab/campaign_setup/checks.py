"""What cannot be begun, found before anything is touched; one sentence for each."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.errors import BlueprintError, UsageError
from autoresearch.git_repo.branches import branch_fault
from autoresearch.lab.resolve.overrides import LaunchSettings, holds
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_entry
from autoresearch.trainers import ask


class QueueInvalid(BlueprintInvalid):
    """A queue with entries that cannot be tried; all of them are in `findings`."""

    code = "bad_queue"


def refuse(spec: CampaignSpec, launch: LaunchSettings) -> tuple[Finding, ...]:
    """Raise UsageError or BlueprintError for the first thing that no campaign can do; else what is doubtful."""
    if fault := branch_fault(spec.branch("baseline")):
        raise UsageError(f"the prefix {spec.prefix!r} makes no branch: {fault}", code="bad_prefix")
    if spec.rules.budget_gpu_hours is not None and not spec.gpus_per_run:
        raise UsageError(
            "the budget is in GPU hours, and no run of this campaign has a GPU: it would never be spent",
            hint="--gpus all, or another stop rule: --count, --deadline, `--set target=`",
            code="no_gpu_to_count",
        )
    return _doubtful_space(launch, tuple(spec.proposer.space))


def refuse_queue(spec: CampaignSpec, launch: LaunchSettings, past: CampaignState | None) -> None:
    """Raise QueueInvalid with all that is wrong with the queue. `past`: the campaign that is to go on."""
    if not spec.proposer.queue:
        return
    queue = Queue(Path(spec.proposer.queue), parse_any, line_numbers)
    past_ideas = [idea.hypothesis for idea in past.ideas] if past else []
    tokens = [one.token for one in past_ideas if one.proposer == QUEUE]
    queue.check([one.slug for one in past_ideas], partial(_misfit, launch, spec.recipe), gone=tokens)
    if found := queue.faults():
        raise QueueInvalid(found)


def entry_findings(entries: Sequence[object], file: str) -> list[Finding]:
    """What is wrong with entries whose paths are absolute; `file`: where they stand, "" for a command line."""
    lines = line_numbers(Path(file).read_bytes()) if file else {}
    found = []
    for n, entry in enumerate(entries):
        try:
            from_entry(entry, Path("/"))
        except Broken as broken:
            for fault in broken.faults:
                paths = [path[:end] for path in ((n, *fault.keys), fault.keys) for end in range(len(path), 0, -1)]
                line = next((lines[path] for path in paths if path in lines), 0)
                found.append(Finding(Severity.ERROR, "bad_entry", fault.message, where=file, line=line))
    return found


def _misfit(launch: LaunchSettings, recipe: str, idea: Hypothesis) -> str:
    """What the recipe or the command says against an idea's overrides, as far as neither is the idea's own."""
    own = idea.blueprint or idea.patches or recipe in idea.files or idea.parent not in (BEST, BASELINE)
    if own or not idea.overrides:
        return ""
    try:
        inside, behind = launch.split(idea.overrides)
        apply_overrides(launch.recipe or {}, inside)
        if behind:
            launch.with_settings(behind)
    except BlueprintError as error:
        unknown = [key for key in idea.overrides if launch.recipe and not holds(launch.recipe, key.removeprefix("+"))]
        near = [one for key in unknown for one in difflib.get_close_matches(key, flatten(launch.recipe or {}), 1)]
        hint = f"did you mean {near[0]}?" if near else error.hint
        return f"{error.message}{f' ({hint})' if hint else ''}"
    return ""


def _doubtful_space(launch: LaunchSettings, keys: tuple[str, ...]) -> tuple[Finding, ...]:
    """Every key must be one of the recipe, of the command, or one that the trainer has a default for."""
    _, behind = launch.split(dict.fromkeys(keys))
    if not behind:
        return ()
    launch.with_settings(dict.fromkeys(behind, 1))  # raises where the command has no place for them
    unknown = [key for key in behind if key not in ask.settings(launch.trainer, {}, launch.command)]
    if launch.recipe is None or not unknown:
        return ()
    message = f"the recipe has no {', '.join(unknown)}: set behind the command, where nobody looks whether it is known"
    return (Finding(Severity.WARNING, "unchecked_key", message, "compare the name with the trainer's own"),)
