"""Launches a reproduced row as a run of its own."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from autoresearch.core.text.session_and_branch_names import branch_name, campaign_name
from autoresearch.errors import UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo.snapshot import exclude, pattern_for
from autoresearch.lab.launch.launch import Launched, launch
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_remote
from autoresearch.lab.resolve.resolve_run import resolve_run
from autoresearch.lab.resolve.resolved_run import CampaignRun, RunOptions, one_target
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.lab.results.repro import Redone, import_path
from autoresearch.lab.settings import Settings
from autoresearch.records import order_file
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import MASK


def run_again(redone: Redone, settings: Settings, parts: Parts) -> Launched:
    """Launch it in the ordinary way, as a single run with a ledger of its own beside the row's campaign.

    Its target is that of the `launcher` setting, wherever the row's run was. Nothing is created if it cannot go there.
    """
    run_id, old, checkout = redone.match.row.run_id, redone.match.spec, redone.match.ran.checkout
    assert old is not None and checkout is not None
    if MASK in redone.blueprint.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(
            f"{run_id} was given a secret in its blueprint, which no record keeps: it says {MASK} there",
            hint=f"write it into {redone.blueprint} and start that",
            fix=f"autoresearch run {shlex.quote(str(redone.blueprint))}",
            code="secret_needed",
        )
    target = one_target(settings)
    check_remote(target, parts)
    order = order_file.read(RunDir(Path(old.run_dir)))
    gpus = order.gpus if order else len(old.gpus)
    name = campaign_name(time.strftime("%Y%m%d", time.localtime(parts.clock())), f"repro-{old.slug}")
    home = Path(old.ledger).parent.parent
    directory = home / free_name(home, name)
    if pattern := pattern_for(checkout, home):
        exclude(checkout, pattern)
    branch = branches.claim_branch(checkout, branch_name(directory.name, old.slug), redone.follow_up)
    campaign_run = CampaignRun(
        campaign=directory.name,
        directory=directory,
        experiment=old.slug,
        index=1,
        replicate=1,
        branch=branch,
        commit=redone.follow_up,
        parent_commit=redone.match.row.commit,
        parent_branch=old.branch,
        why="",
        timeout_s=old.limits.max_s,
        environment=import_path(redone.worktree, redone.cwd, parts.environ),
        remote_gpus=gpus or None,
    )
    leased = str(gpus) if gpus and target.is_local else "none"
    options = RunOptions(settings, parts, trainer=old.trainer, gpus=leased, campaign_run=campaign_run)
    return launch(resolve_run(redone.blueprint, options), target)
