"""Making the commit object: no hook, no signature, a name on machines that have none, a date if one is given."""

from __future__ import annotations

from autoresearch.errors import UsageError
from autoresearch.git_repo.git import Git, GitFailed
from autoresearch.records.secrets import clean_text

# Identity for machines that have none; one that is configured is never replaced.
NAME, EMAIL = "autoresearch", "autoresearch@localhost"
_NAMELESS = ("tell me who you are", "auto-detect", "empty ident", "auto-detection is disabled")


def commit_tree(git: Git, tree: str, parent: str, message: str, *, when: int | None = None) -> str:
    """The id of a new commit on `parent` ("" for none); nothing refers to it yet. Raises GitFailed.

    Secrets in the message are masked.

    `when`: seconds since the epoch, as author's and committer's date; the same commit made again has then
    the same id.
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
    """A path of the caller's as git stores it; UsageError for one that no commit can hold."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) or "\0" in path:
        raise UsageError(f"{path!r} cannot be the name of a file in a commit")
    return path.encode("utf-8", "surrogateescape")


def _identity(git: Git) -> dict[str, str]:
    """What is configured of name and address, and ours for the rest."""
    identity: dict[str, str] = {}
    for key, variable, ours in (("user.name", "NAME", NAME), ("user.email", "EMAIL", EMAIL)):
        configured = git.line("config", "--default", "", key) or ours
        identity |= {f"GIT_AUTHOR_{variable}": configured, f"GIT_COMMITTER_{variable}": configured}
    return identity
