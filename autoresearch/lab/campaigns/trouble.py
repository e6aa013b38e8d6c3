"""Faults of the machine, such as a full disk, that stop a campaign and are not the fault of an idea."""

from __future__ import annotations

from autoresearch.errors import AutoresearchError
from autoresearch.records.appending import FULL

_FULL_DISK = "disk_full"
_FILES = frozenset((_FULL_DISK, "unwritable", "unreadable", "state_unusable", "git_failed", "slot_stuck"))
_TMUX = frozenset(("no_tmux", "old_tmux", "tmux_failed", "tmux_unreachable", "session_lost"))
_CODES = _FILES | _TMUX | {"no_bash", "records_removed"}
_WORDS = ("No space left on device", "Disk quota exceeded")  # as git has them


def is_trouble(error: Exception) -> bool:
    """Whether the machine failed; then the run is tried again, and the failure does not count against the idea."""
    return getattr(error, "code", "") in _CODES or is_full(error)


def is_full(error: Exception) -> bool:
    """Whether the cause is a full disk, whoever reported it: nothing can be written, so the only remedy is to wait."""
    if isinstance(error, OSError):
        return error.errno in FULL
    if not isinstance(error, AutoresearchError):
        return False
    return error.code == _FULL_DISK or any(word in error.message for word in _WORDS)
