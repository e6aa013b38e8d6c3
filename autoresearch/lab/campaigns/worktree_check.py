"""The worktree of a run, looked at before its trainer starts and when it is over: whose it is, and what it holds.

    worktree.json   in the run directory: tracked files that differed from the commit when the trainer started, and how
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir, read_json, write_json

NAME = "worktree.json"
MOST = 5  # files that a flag names


def before(rundir: RunDir, spec: RunSpec) -> None:
    """Note what the trainer is about to find. ConflictError where this is not the commit of its row."""
    one = _slot(spec)
    if one is None:
        raise ConflictError(f"the worktree {spec.worktree} is none of its campaign's", code="slot_lost")
    one.check_commit(spec.commit)
    write_json(rundir.path / NAME, {"changed": one.changed_files()}, durable=False)


def after(rundir: RunDir, spec: RunSpec) -> tuple[str, str]:
    """Why what it measured is not its commit's ("" where it is), and a sentence on tracked files that it changed."""
    noted = read_json(rundir.path / NAME)
    if noted is None or not spec.worktree:
        return "", ""  # it never started, or began before there was such a note
    try:
        one = _slot(spec)
        if one is None or not one.path.is_dir():  # it can be told no more: what it measured lies elsewhere
            return "", "its worktree was removed while it trained"
        one.check_commit(spec.commit)
        found = one.changed_files()
    except AutoresearchError as error:
        return error.message, ""
    known = noted.get("changed")
    names = sorted(name for name in found if not isinstance(known, dict) or known.get(name) != found[name])
    if not names:
        return "", ""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return "", f"it changed tracked files: {', '.join(names[:MOST])}{more}"


def command(rundir: RunDir) -> str:
    """What the Runner starts to have `before` done, once the notes' own preparations are."""
    return shlex.join([sys.executable, "-P", "-m", "autoresearch", "before-training", str(rundir.path)])


def _slot(spec: RunSpec) -> Slot | None:
    campaign = campaign_records.declared_spec(CampaignDir(Path(spec.ledger).parent))
    checkout = repository.find(Path(campaign.repository))
    slots = slots_of(campaign, checkout) if checkout else []
    return next((one for one in slots if str(one.path) == spec.worktree), None)
