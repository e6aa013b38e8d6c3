"""Creates commit objects: no hooks, no signature, a fallback identity, and an optional fixed date."""

from __future__ import annotations

from autoresearch.errors import UsageError
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.records.secrets import clean_text

# Identity for machines without a configured one.
NAME, EMAIL = "autoresearch", "autoresearch@localhost"
_NAMELESS = ("tell me who you are", "auto-detect", "empty ident", "auto-detection is disabled")


def commit_tree(git: Git, tree: str, parent: str, message: str, *, when: int | None = None) -> str:
    """Create a commit on `parent` ("" for none) and return its id; nothing refers to it yet. Raises GitFailed.

    Secrets in the message are masked.

    `when`: author's and committer's date, in seconds since the epoch; it makes the id reproducible.
    """
    words = clean_text(message).replace("\0", " ").encode("utf-8", "backslashreplace")
    command = ("commit-tree", tree, *(("-p", parent) if parent else ()), "-F", "-")
    dates = {} if when is None else dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{when} +0000")
    try:
        return git.line(*command, feed=words, extra=dates)
    except GitFailed as failure:
        if not any(sign in failure.stderr.lower() for sign in _NAMELESS):
            raise
    return git.line(*command, feed=words, extra=dates | _identity(git))


def path_in_tree(path: str) -> bytes:
    """A path as git stores it. Raises UsageError for a path that no commit can contain."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) or "\0" in path:
        raise UsageError(f"{path!r} cannot be the name of a file in a commit")
    return path.encode("utf-8", "surrogateescape")


def _identity(git: Git) -> dict[str, str]:
    """Variables for the identity: the configured name and address, with fallbacks for what is missing."""
    identity: dict[str, str] = {}
    for key, variable, ours in (("user.name", "NAME", NAME), ("user.email", "EMAIL", EMAIL)):
        configured = git.line("config", "--default", "", key) or ours
        identity |= {f"GIT_AUTHOR_{variable}": configured, f"GIT_COMMITTER_{variable}": configured}
    return identity
