"""Names that nobody has yet: of a run's directory, its campaign, its branch; and its token."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.records.campaign_records import CampaignDir

if TYPE_CHECKING:
    from autoresearch.core.run.spec import RunSpec
    from autoresearch.git_repo.checkout import Checkout
    from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
    from autoresearch.lab.settings import Settings

TOKEN_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no characters that look alike


def names_of(
    resolved: ResolvedBlueprint, checkout: Checkout | None, settings: Settings, created: float
) -> dict[str, Any]:
    """The fields of a RunSpec that name a new lone run, made at a wall time in seconds, and its records."""
    from autoresearch.git_repo import branches

    slug = resolved.blueprint.slug
    root = checkout.root / "reports" if checkout else resolved.result_dir
    campaigns = root / "auto_research"
    usual = naming.campaign_name(time.strftime("%Y%m%d", time.localtime(created)), slug)
    campaign = naming.first_free(usual, lambda name: _is_taken(campaigns / name))
    names = names_in(campaigns / campaign, slug, branch="")
    if checkout is None:
        return names
    usual = f"{settings.text('prefix').strip('/') or 'autoresearch'}/{campaign}/{slug}"
    branch = naming.first_free(usual, lambda name: branches.branch_commit(checkout, name))
    return {**names, "branch": branch, "parent_commit": checkout.head, "parent_branch": checkout.branch}


def names_of_repair(fixed: RunSpec, checkout: Checkout | None) -> dict[str, Any]:
    """A repaired rerun stays in the campaign, and on the branch, of the run that it repairs."""
    code = {"branch": fixed.branch, "parent_commit": fixed.commit, "parent_branch": fixed.branch}
    idea = {"index": fixed.index, "replicate": fixed.replicate, "fix_of": fixed.run}
    return names_in(Path(fixed.ledger).parent, fixed.slug, **idea, **(code if checkout else {}))


def names_in(directory: Path, name: str, **others: Any) -> dict[str, Any]:
    """The fields of a RunSpec that say where in a campaign's directory it is, with others; `name`: of its own."""
    experiment = free_name(directory, name)
    records = {"campaign": directory.name, "experiment": experiment, "ledger": str(directory / "results.tsv")}
    return {**records, "run_dir": str(directory / experiment), "index": 1, "replicate": 1, **others}


def new_token() -> str:
    """Six random characters that make a run id unique."""
    return "".join(TOKEN_ALPHABET[b % len(TOKEN_ALPHABET)] for b in os.urandom(6))


def free_name(directory: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3` ... where that is taken in a directory."""
    return naming.first_free(name, lambda one: (directory / one).exists())


def _is_taken(directory: Path) -> bool:
    """Whether a campaign, or another account that shares the repository, has records there."""
    needed = (directory, directory / ".claims", directory / "results.tsv")
    if CampaignDir(directory).spec.exists():
        return True
    return any(path.exists() and not os.access(path, os.R_OK | os.W_OK) for path in needed)
