"""Checks of a run's worktree, before its trainer starts and after it ends: does it still hold the run's commit?

    worktree.json   in the run directory: tracked files that differed from the commit when the trainer started
"""

from __future__ import annotations

import functools
import shlex
import sys
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.numbers import listed
from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json, write_json

NAME = "worktree.json"
MOST = 5  # files named in a flag
ATTEMPTS = 3


def before(recorded: RecordedRun) -> None:
    """Record which files differ from the commit before training. ConflictError if the worktree is not at that commit.
    """
    spec = recorded.spec
    one = _slot(spec)
    if one is None:
        raise ConflictError(f"the worktree {spec.worktree} is none of its campaign's", code="slot_lost")
    one.check_commit(spec.commit)
    write_json(recorded.rundir.path / NAME, {"changed": one.changes(untracked=False)}, durable=False)


def after(recorded: RecordedRun) -> tuple[str, str]:
    """Why the result does not belong to the commit ("" if it does), and a sentence on tracked files that the run
    changed.
    """
    spec = recorded.spec
    noted = read_json(recorded.rundir.path / NAME)
    if noted is None or not spec.worktree:
        return "", ""  # it never started, or was started by a version that did not record this
    for attempt in range(1, ATTEMPTS + 1):
        try:
            one = _slot(spec)
            if one is None or not one.path.is_dir():  # cannot be checked any more: the measurements are kept elsewhere
                return "", "its worktree was removed while it trained"
            one.check_commit(spec.commit)
            found = one.changes(untracked=False)
            break
        except ConflictError as error:
            return error.message, ""
        except AutoresearchError as error:  # git was killed, or had no memory: that says nothing of the run
            if attempt == ATTEMPTS:
                return "", f"could not be checked: its worktree, after {ATTEMPTS} attempts: {error.message}"
    if not (names := sorted(set(found) - set(noted.get("changed", ())))):
        return "", ""
    return "", f"it changed tracked files: {listed(names, MOST)}"


def command(rundir: RunDir) -> str:
    """The command by which the Runner calls `before`, after the preparation commands of the blueprint's notes."""
    return shlex.join([sys.executable, "-P", "-m", "autoresearch", "before-training", str(rundir.path)])


def _slot(spec: RunSpec) -> Slot | None:
    campaign = campaign_records.read_spec(CampaignDir(Path(spec.ledger).parent))
    try:
        slots = slots_of(campaign, _checkout(campaign.repository))
    except EnvironmentUnusable:
        return None
    return next((one for one in slots if str(one.path) == spec.worktree), None)


@functools.lru_cache(maxsize=8)
def _checkout(root: str) -> Checkout:
    """Where a repository keeps what is git's: it stays there, and what is checked out there is not asked for here."""
    found = repository.locate(Path(root))
    if isinstance(found, Checkout):
        return found
    raise EnvironmentUnusable(str(found), code="no_repository")
