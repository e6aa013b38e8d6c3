"""Commits as people look at them, read with GitPython: files, diffs, first ancestors.

What writes, or must answer at once, uses `git.Git`: importing GitPython takes a tenth of a second. Only its commands
are used: its objects (`Commit`, `Tree`) cannot read a repository of SHA-256.
"""

from __future__ import annotations

import os
from pathlib import Path

from autoresearch.errors import NotFoundError
from autoresearch.git_repo.git import SETTINGS, TIMEOUT_S, GitFailed, clean_environment, path_in_tree


def look(directory: Path, command: str, *words: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """What a git command prints, given as GitPython names it: `diff_tree`. It sees the environment of our own git.

    Raises GitFailed.
    """
    try:
        import git
    except ImportError as error:  # it looks for the program already then
        raise GitFailed(("git",), 127, "git is not installed", hint="install git") from error
    try:
        with git.Repo(directory, search_parent_directories=True) as repo:
            repo.git.update_environment(**clean_environment(os.environ), GIT_DIR=str(repo.git_dir))
            repo.git.set_persistent_git_options(c=list(SETTINGS))
            how = {"stdout_as_string": False, "strip_newline_in_stdout": False, "kill_after_timeout": timeout_s}
            return bytes(getattr(repo.git, command)(*words, **how))
    except (git.GitError, OSError) as error:
        said = error.stderr if isinstance(error, git.CommandError) else str(error)
        raise GitFailed(("git", "-C", str(directory), command, *words), 128, said) from error


def read_file(directory: Path, commit: str, path: str) -> bytes:
    """A file's content in a commit or tree. Raises NotFoundError if there is none, UsageError for an impossible path.
    """
    name = os.fsdecode(path_in_tree(path))
    try:
        return look(directory, "cat_file", "blob", f"{commit}:{name}")
    except GitFailed as failure:
        if failure.returncode == 127:
            raise
        raise NotFoundError(f"commit {commit[:12]} holds no file {path}", code="no_such_file") from failure


def shown_diff(directory: Path, before: str, after: str, *, without: str, timeout_s: float = 60.0) -> tuple[str, str]:
    """What differs between two commits, for people: how many lines of which files, and the lines. Raises GitFailed."""
    how = ("--no-color", "--no-ext-diff", "--no-textconv", "-M", "--stat=100", "--patch", "--end-of-options")
    found = look(directory, "diff", *how, before, after, "--", ".", f":(exclude,top){without}", timeout_s=timeout_s)
    stat, _, text = found.decode("utf-8", "replace").partition("\n\n")
    return stat, text


def first_commits(directory: Path) -> tuple[str, ...]:
    """The commits without a parent, which all clones of a repository share. Raises GitFailed."""
    return tuple(look(directory, "rev_list", "--max-parents=0", "HEAD").decode().split())
