"""Names that nobody has yet: of a run's directory, its campaign, its branch; and its token."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from autoresearch.core.text import naming
from autoresearch.git_repo import branches
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.settings import Settings

TOKEN_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no characters that look alike


def branch_in(settings: Settings, campaign: str, slug: str) -> str:
    """The branch of a run, under the project's prefix if it has one."""
    prefix = settings.text("prefix").strip("/")
    return f"{prefix}/{campaign}/{slug}" if prefix else naming.branch_name(campaign, slug)


def free_branch(checkout: Checkout, settings: Settings, campaign: str, slug: str) -> str:
    """The same, with -2, -3 ... where a branch of that name exists."""
    name = branch_in(settings, campaign, slug)
    candidate, n = name, 1
    while branches.branch_commit(checkout, candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def new_token() -> str:
    """Six random characters that make a run id unique."""
    return "".join(TOKEN_ALPHABET[b % len(TOKEN_ALPHABET)] for b in os.urandom(6))


def free_name(directory: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3` ... where that is taken in a directory."""
    candidate, n = name, 1
    while (directory / candidate).exists():
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def writable_name(directory: Path, name: str) -> str:
    """`name`, or `name-2` ... if another account that shares the repository has records under it."""
    candidate, n = name, 1
    while _is_anothers(directory / candidate):
        n += 1
        candidate = f"{name}-{n}"
    return candidate


def _is_anothers(directory: Path) -> bool:
    needed = (directory, directory / ".claims", directory / "results.tsv")
    return any(path.exists() and not os.access(path, os.R_OK | os.W_OK) for path in needed)


def key_of(path: Path) -> str:
    """A hash of the blueprint's real path, so that two CLIs lock the same key."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
