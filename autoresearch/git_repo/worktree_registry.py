"""git's registry of linked worktrees, read from its files (gitrepository-layout(5), "worktrees")."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout

REASON = "autoresearch"  # prefix of the reason of every lock made by autoresearch
PATIENCE_S = 2.0  # an older lock is abandoned; git holds one for milliseconds


def admins(checkout: Checkout) -> Path:
    """The directory of git's admin directories of linked worktrees (gitrepository-layout(5), "worktrees")."""
    return checkout.common_dir / "worktrees"


def admin_of(path: Path) -> Path | None:
    """The admin directory that a worktree's .git file names; None if it names none."""
    try:
        words = (path / ".git").read_bytes()
    except OSError:
        return None
    target = os.fsdecode(words.removeprefix(b"gitdir: ").removesuffix(b"\n"))
    return Path(os.path.realpath(path / target)) if words.startswith(b"gitdir: ") else None


def path_of(admin: Path) -> Path | None:
    """The worktree that an admin directory names (by a relative path from git 2.48 on, if configured), or None."""
    try:
        target = os.fsdecode((admin / "gitdir").read_bytes().removesuffix(b"\n"))
    except OSError:
        return None
    return Path(os.path.realpath((admin / target).parent))


def our_reason(admin: Path) -> str:
    """The reason of a worktree's lock if autoresearch made it, else ""."""
    try:
        words = (admin / "locked").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    return words if words.startswith(REASON + ":") else ""


def break_lock(lock: Path) -> None:
    """Wait until a lock in a slot is released, or `PATIENCE_S` old and thus abandoned: then remove it."""
    with contextlib.suppress(FileNotFoundError):
        while time.time() - lock.stat().st_mtime < PATIENCE_S:
            time.sleep(0.02)
        lock.unlink()
