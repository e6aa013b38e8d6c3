"""Run a row again, in a worktree at its commit.

The row's commit says where its run wrote. A second run must not write there, so a follow-up commit, which changes
nothing else, redirects it: the recipe's output keys and the blueprint's result directory.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from autoresearch.core.text.session_and_branch_names import branch_name, campaign_name
from autoresearch.errors import UsageError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commits import Change, commit_hypothesis
from autoresearch.git_repo.snapshot import exclude, pattern_for
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.launch.launch import Launched, launch
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes.recipe_of_run import BLUEPRINT
from autoresearch.lab.resolve.host_check import check_remote
from autoresearch.lab.resolve.resolve_run import CampaignRun, RunOptions, one_target, resolve_run
from autoresearch.lab.resolve.run_names import free_name, new_token
from autoresearch.lab.results.original_run import OriginalRun
from autoresearch.lab.settings import Settings
from autoresearch.records import order_file
from autoresearch.records.index import state_home
from autoresearch.records.rundir import RunDir
from autoresearch.runner.masking import MASK


def run_again(old: OriginalRun, settings: Settings, parts: Parts) -> Launched:
    """Launch it in the ordinary way, as a single run with a ledger of its own beside the row's campaign.

    Its target is that of the `launcher` setting, wherever the row's run was. Nothing is created if it cannot go there.
    """
    spec, checkout, row = old.spec, old.checkout, old.ran.row
    if old.has_secret:
        raise UsageError(
            f"{row.run_id} was given a secret in its blueprint, which no record keeps: it says {MASK} there",
            hint=f"write it into a blueprint of your own, and start that; its code is at commit {row.commit[:12]}",
            code="secret_needed",
        )
    target = one_target(settings)
    check_remote(target, parts)
    path = state_home(parts.environ) / "repro" / f"{spec.slug}-{new_token()}"
    place = slot(checkout, path, reason="a row that is made again")
    place.switch(row.commit, old.inputs)
    command = old.command_in(place.path, lambda name: os.path.lexists(place.path / name))
    message = f"{spec.slug}: run {row.run_id} once more\n\nNothing but where it writes differs from its commit.\n"
    change = Change(files=old.redirected(command, place.path))
    commit = commit_hypothesis(checkout, row.commit, change, message=message).commit
    home = Path(spec.ledger).parent.parent
    name = campaign_name(time.strftime("%Y%m%d", time.localtime(parts.clock())), f"repro-{spec.slug}")
    directory = home / free_name(home, name)
    if pattern := pattern_for(checkout, home):
        exclude(checkout, pattern)
    branch = branches.claim_branch(checkout, branch_name(directory.name, spec.slug), commit)
    place.switch(commit, old.inputs)
    order = order_file.read(RunDir(Path(spec.run_dir)))
    gpus = order.gpus if order else len(spec.gpus)
    campaign_run = CampaignRun(
        campaign=directory.name,
        directory=directory,
        experiment=spec.slug,
        index=1,
        replicate=1,
        branch=branch,
        commit=commit,
        parent_commit=row.commit,
        parent_branch=spec.branch,
        why="",
        timeout_s=spec.limits.max_s,
        environment=old.import_path(place.path, parts.environ),
        remote_gpus=gpus or None,
    )
    leased = str(gpus) if gpus and target.is_local else "none"
    options = RunOptions(settings, parts, trainer=spec.trainer, gpus=leased, campaign_run=campaign_run)
    return launch(resolve_run(place.path / BLUEPRINT, options), target)
