"""Suspicion: what looks like a cheat in a researcher's diff. It refuses nothing; it is recorded and shown."""

from __future__ import annotations

from collections.abc import Collection


def flags(patch: str, *, metrics: Collection[str] = ()) -> tuple[str, ...]:
    """One sentence each, with path and line."""
    return ()
