"""What `autoresearch clean` may remove, and what it keeps although nobody uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

MOST_NAMED = 3


class LeftoverKind(StrEnum):
    """What a leftover is."""

    WORKTREE = "worktree"
    SESSION = "session"
    CACHE = "cache"
    RECORD = "record"  # of the state directory: locks that nobody holds, files that were never renamed, old logs


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that nobody needs any more, as it was found."""

    kind: LeftoverKind
    name: str  # its path, or the name of the session
    bytes: int
    why: str
    remove: Callable[[], str]  # looks again first; "" if it is gone, else why it stays. OSError, AutoresearchError


@dataclass(frozen=True, slots=True)
class KeptLeftover:
    """One thing that would be lost, or is in use after all."""

    kind: LeftoverKind
    name: str
    why: str


def few(names: tuple[str, ...]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
