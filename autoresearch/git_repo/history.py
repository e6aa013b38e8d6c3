"""Commits as people look at them, read with GitPython: blobs, diffs and ancestors.

Only for commands that may take a tenth of a second longer: that long takes its import.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.errors import NotFoundError
from autoresearch.git_repo.git import SETTINGS, GitFailed, clean_environment, path_in_tree

if TYPE_CHECKING:
    import git

DIFF_S = 60.0  # a report is drawn without a diff that takes longer


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[git.Repo]:
    """The repository of a directory, in the same environment as our own git; whatever fails inside is a GitFailed.

    GitPython keeps a `git cat-file --batch` for each repository that it read blobs of: it ends with the block.
    """
    try:
        import git
    except ImportError as error:  # it looks for the program already then
        raise GitFailed(("git",), 127, "git is not installed", hint="install git") from error
    try:
        with git.Repo(directory, search_parent_directories=True) as repo:
            ours = clean_environment(os.environ) | {"GIT_DIR": str(repo.git_dir)}
            repo.git.update_environment(**ours)
            repo.git.set_persistent_git_options(c=list(SETTINGS))
            yield repo
    except (git.GitError, git.BadName, ValueError, OSError) as error:
        said = error.stderr if isinstance(error, git.CommandError) else str(error)
        raise GitFailed(("git", "-C", str(directory)), 128, said) from error


def read_file(directory: Path, commit: str, path: str) -> bytes:
    """A file's content in a commit. Raises NotFoundError if there is none, UsageError for an impossible path."""
    name = os.fsdecode(path_in_tree(path))
    with opened(directory) as repo, contextlib.suppress(KeyError):
        if (found := repo.commit(commit).tree / name).type == "blob":
            return bytes(found.data_stream.read())
    raise NotFoundError(f"commit {commit[:12]} holds no file {path}", code="no_such_file")


def shown_diff(directory: Path, before: str, after: str, *, without: str) -> tuple[str, str]:
    """What differs between two commits, for people: how many lines of which files, and the lines. Raises GitFailed."""
    how = ("--no-color", "--no-ext-diff", "--no-textconv", "-M", "--stat=100", "--patch")
    words = (*how, "--end-of-options", before, after, "--", ".", f":(exclude,top){without}")
    with opened(directory) as repo:
        found: bytes = repo.git.diff(*words, stdout_as_string=False, kill_after_timeout=DIFF_S)
    stat, _, text = found.decode("utf-8", "replace").partition("\n\n")
    return stat, text


def first_commits(directory: Path) -> tuple[str, ...]:
    """The commits without a parent, which all clones of a repository share. Raises GitFailed."""
    with opened(directory) as repo:
        return tuple(commit.hexsha for commit in repo.iter_commits("HEAD", max_parents=0))
