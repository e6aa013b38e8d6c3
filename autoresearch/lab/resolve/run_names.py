"""Names that nobody has yet: of a run's directory, its campaign, its branch; and its token."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.records.campaign_records import CampaignDir

if TYPE_CHECKING:
    from autoresearch.core.run.spec import RunSpec
    from autoresearch.git_repo.checkout import Checkout
    from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
    from autoresearch.lab.settings import Settings

TOKEN_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no characters that look alike


@dataclass(frozen=True, slots=True)
class RunNames:
    """What a run is called, and where its records are."""

    slug: str
    campaign: str
    campaign_dir: Path
    branch: str  # "" without a repository
    parent_commit: str = ""
    parent_branch: str = ""


def names_of(resolved: ResolvedBlueprint, checkout: Checkout | None, settings: Settings, created: float) -> RunNames:
    """The names of a new lone run, made at a wall time in seconds."""
    from autoresearch.git_repo import branches

    slug = resolved.blueprint.slug
    root = checkout.root / "reports" if checkout else resolved.result_dir
    campaigns = root / "auto_research"
    campaign = own_name(campaigns, naming.campaign_name(time.strftime("%Y%m%d", time.localtime(created)), slug))
    branch = branch_in(settings, campaign, slug)
    if checkout is None:
        return RunNames(slug, campaign, campaigns / campaign, "")
    branch = naming.first_free(branch, lambda name: branches.branch_commit(checkout, name))
    return RunNames(slug, campaign, campaigns / campaign, branch, checkout.head, checkout.branch)


def names_of_repair(
    fixed: RunSpec, resolved: ResolvedBlueprint, checkout: Checkout | None, settings: Settings
) -> RunNames:
    """A repaired rerun stays in the campaign, and on the branch, of the run that it repairs."""
    names = RunNames(fixed.slug, fixed.campaign, Path(fixed.ledger).parent, fixed.branch, fixed.commit, fixed.branch)
    if checkout:
        return names
    return replace(names, branch="", parent_commit="", parent_branch="")


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
