"""What is wrong with a queue of ideas, found before anything is written; one sentence for each entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.campaign.hypothesis import BASELINE, BEST, Hypothesis
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import BlueprintError
from autoresearch.lab.recipes.overrides import LaunchSettings, holds
from autoresearch.lab.yaml_files import line_numbers, parse_any
from autoresearch.proposers.queue import Queue
from autoresearch.proposers.queue_entry import QUEUE, Broken, from_entry
from autoresearch.records.hostile import read_readable

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState


class QueueInvalid(BlueprintInvalid):
    """A queue with entries that cannot be tried; `findings` has all of them."""

    code = "bad_queue"

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings)
        self.fix = "autoresearch config schema idea"


def check_queue(
    campaign_spec: CampaignSpec, launch: LaunchSettings, earlier_state: CampaignState | None
) -> tuple[Finding, ...]:
    """Warn of a queue that holds fewer ideas than are to be tried. QueueInvalid with all that is wrong with it.

    earlier_state: of the campaign that is to continue.
    """
    if not campaign_spec.proposer.queue:
        return ()
    queue = Queue(Path(campaign_spec.proposer.queue), parse_any, line_numbers)
    past_ideas = [idea.hypothesis for idea in earlier_state.ideas] if earlier_state else []
    tokens = [one.token for one in past_ideas if one.proposer == QUEUE]
    queue.check([one.slug for one in past_ideas], partial(_misfit, launch, campaign_spec.recipe), gone=tokens)
    if faults := queue.faults():
        raise QueueInvalid(faults)
    count, only = campaign_spec.rules.count, campaign_spec.proposer.name == QUEUE
    held = len(queue.slugs())
    if count is None or not only or earlier_state is not None or held + 1 >= count:
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
