"""What git knows about linked worktrees, read from its own files (gitrepository-layout(5), "worktrees")."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout

REASON = "autoresearch"  # how the reason of every lock of ours begins
PATIENCE_S = 2.0  # so old is a lock that its owner left behind; git holds one for milliseconds


def admins(checkout: Checkout) -> Path:
    """Where git keeps what belongs to each linked worktree (gitrepository-layout(5), "worktrees")."""
    return checkout.common_dir / "worktrees"


def admin_of(path: Path) -> Path | None:
    """The directory that a worktree's .git file names."""
    try:
        words = (path / ".git").read_bytes()
    except OSError:
        return None
    target = os.fsdecode(words.removeprefix(b"gitdir: ").removesuffix(b"\n"))
    return Path(os.path.realpath(path / target)) if words.startswith(b"gitdir: ") else None


def path_of(admin: Path) -> Path | None:
    """The worktree that git's directory of it names; relative from git 2.48 on, if so configured."""
    try:
        target = os.fsdecode((admin / "gitdir").read_bytes().removesuffix(b"\n"))
    except OSError:
        return None
    return Path(os.path.realpath((admin / target).parent))


def our_reason(admin: Path) -> str:
    """The reason of a lock of ours; "" where it is not ours."""
    try:
        words = (admin / "locked").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    return words if words.startswith(REASON + ":") else ""


def break_lock(lock: Path) -> None:
    """Wait for the owner of a lock in our worktree to be done, then take it for abandoned."""
    with contextlib.suppress(FileNotFoundError):
        while time.time() - lock.stat().st_mtime < PATIENCE_S:
            time.sleep(0.02)
        lock.unlink()
