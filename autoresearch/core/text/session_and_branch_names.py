"""Names that are safe everywhere: slugs, run ids, sessions, branches, campaigns."""

from __future__ import annotations

import re
from collections.abc import Callable

from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError

SLUG_MAX = 40
SLUG_LEAST = 3  # characters: what remains of most titles in a non-Latin script is too short to mean anything
SESSION = later(r"ajet_[A-Za-z0-9_-]{1,60}\Z")
RUN_ID = later(r"[a-z0-9][a-z0-9-]{0,59}\Z")
_MOST_ALIKE = 10_000


def slugify(text: str, *, fallback: str = "experiment") -> str:
    """Lower-case ASCII letters, digits and single hyphens, at most 40 characters; never empty.

    Accents are dropped and every other character becomes a hyphen, so that a name has no special meaning to a shell,
    tmux, git or a file system.
    """
    import unicodedata

    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")
    return slug[:SLUG_MAX].strip("-") or fallback


def first_free(name: str, is_taken: Callable[[str], object], longest: int = 0) -> str:
    """`name`, or the first of `name-2`, `name-3` ... that is not taken.

    longest: what readers of the name cut it to; the name is cut before its number. Raises ConflictError after
    10,000 names.
    """
    if not is_taken(name):
        return name
    for number in range(2, _MOST_ALIKE):
        suffix = f"-{number}"
        stem = name[: longest - len(suffix)].rstrip("-") if longest else name
        if not is_taken(stem + suffix):
            return stem + suffix
    message = f"{_MOST_ALIKE} names like {name[:80]!r} are taken"
    raise ConflictError(message, hint="choose another name", code="name_taken")


def run_id(slug: str, token: str) -> str:
    """`<slug>-<token>`; the token (6 of [a-z0-9]) makes it unique."""
    return f"{slug}-{token}"


def session_name(slug: str, token: str) -> str:
    """`ajet_<slug>_<token>`: contains `ajet`, states the purpose, has no special meaning in tmux's target syntax."""
    return f"ajet_{slug}_{token}".replace("-", "_")


def campaign_name(date: str, slug: str) -> str:
    """`<yyyymmdd>-<slug>`; also the name of the directory under reports/auto_research/."""
    return f"{date}-{slug}"
