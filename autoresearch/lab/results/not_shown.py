"""Whether a run died of a path of the checkout that its worktree does not show, or shows read-only."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autoresearch.core.diagnosis.failure import MAX_LINE, Diagnosis, Failure, FailureKind
from autoresearch.core.run.extra_paths import Way, is_within
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.core.text.regex import later
from autoresearch.lab.results.diagnosis import diagnose
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.recorded_run import FinishedRun

_REFUSED = (os.strerror(errno.EROFS), os.strerror(errno.EACCES))
_WORDS = later(r"""'([^']+)'|"([^"]+)"|`([^`]+)`|([^\s'"`,;:()\[\]]+)""")


def diagnosed(finished: FinishedRun, trainer: Trainer) -> Diagnosis:
    """The diagnosis of a run that is over, with the line to type where its cause is such a path."""
    found = diagnose(finished, trainer)
    return replace(found, cause=_if_not_shown(found.cause, finished.spec)) if found.cause else found


def _if_not_shown(failure: Failure, spec: RunSpec) -> Failure:
    """The failure with the line to type, where its own line names such a path; else as it is."""
    campaign = campaign_records.spec_of(CampaignDir(Path(spec.ledger).parent)) if spec.worktree else None
    if campaign is None:
        return failure
    elsewhere = spec.launcher != "tmux"
    for path in _paths(failure.line, spec):
        one = next((one for one in campaign.shown if is_within(path, one.path)), None)
        if one is None:
            continue
        if not one.way.is_shown or (elsewhere and not one.included):
            if not os.path.lexists(f"{spec.worktree}/{path}") and os.path.lexists(f"{campaign.repository}/{path}"):
                said = f"{path} is in the checkout, and no run sees it: `include: [{path}]` shows it"
                return replace(failure, kind=FailureKind.NOT_SHOWN, line=said[:MAX_LINE], note=failure.line)
        elif spec.sandbox and one.way is not Way.OWN and any(word in failure.line for word in _REFUSED):
            own = f"`include: [{{path: {one.name}, write: copy}}]`"
            said = f"runs see {one.name} read-only, and this one wrote there: {own} gives each a copy of its own"
            return replace(failure, kind=FailureKind.NOT_SHOWN, line=said[:MAX_LINE], note=failure.line)
    return failure


def _paths(line: str, spec: RunSpec) -> Iterator[str]:
    """The paths in a line that lie in the worktree of its run, relative to it."""
    for match in _WORDS.finditer(line):
        path = os.path.normpath(os.path.join(spec.cwd, next(filter(None, match.groups()))))  # noqa: PTH118
        if path.startswith(f"{spec.worktree}/"):
            yield os.path.relpath(path, spec.worktree)
