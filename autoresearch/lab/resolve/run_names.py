"""Names that nobody has yet: of a run's directory, its campaign, its branch; and its token."""

from __future__ import annotations

import os
import time
from hashlib import sha256
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
    campaign = own_name(campaigns, naming.campaign_name(time.strftime("%Y%m%d", time.localtime(created)), slug))
    branch = branch_in(settings, campaign, slug)
    named = {"slug": slug, "campaign": campaign, "ledger": str(campaigns / campaign / "results.tsv"), "branch": ""}
    if checkout is None:
        return named
    branch = naming.first_free(branch, lambda name: branches.branch_commit(checkout, name))
    return {**named, "branch": branch, "parent_commit": checkout.head, "parent_branch": checkout.branch}


def names_of_repair(fixed: RunSpec, checkout: Checkout | None) -> dict[str, Any]:
    """A repaired rerun stays in the campaign, and on the branch, of the run that it repairs."""
    code = {"branch": fixed.branch, "parent_commit": fixed.commit, "parent_branch": fixed.branch}
    records = {"slug": fixed.slug, "campaign": fixed.campaign, "ledger": fixed.ledger}
    return {**records, **(code if checkout else {"branch": ""})}


def branch_in(settings: Settings, campaign: str, slug: str) -> str:
    """The branch of a run, under the project's prefix if it has one."""
    prefix = settings.text("prefix").strip("/")
    return f"{prefix}/{campaign}/{slug}" if prefix else naming.branch_name(campaign, slug)


def new_token() -> str:
    """Six random characters that make a run id unique."""
    return "".join(TOKEN_ALPHABET[b % len(TOKEN_ALPHABET)] for b in os.urandom(6))


def free_name(directory: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3` ... where that is taken in a directory."""
    return naming.first_free(name, lambda one: (directory / one).exists())


def own_name(directory: Path, name: str) -> str:
    """`name`, or `name-2` ... if a campaign, or another account that shares the repository, has records under it."""
    return naming.first_free(name, lambda one: _is_taken(directory / one))


def _is_taken(directory: Path) -> bool:
    needed = (directory, directory / ".claims", directory / "results.tsv")
    if CampaignDir(directory).spec.exists():
        return True
    return any(path.exists() and not os.access(path, os.R_OK | os.W_OK) for path in needed)


def key_of(path: Path) -> str:
    """A hash of the blueprint's real path, so that two CLIs lock the same key."""
    return sha256(str(path.resolve()).encode()).hexdigest()[:16]
