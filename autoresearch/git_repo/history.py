"""Commits as they are looked at: files, diffs, first ancestors, what differs between two, a fingerprint of the code.

Diffs for people are read with GitPython; what must answer at once, or lives for days, uses `git.Git`: GitPython takes a
tenth of a second, and 5 MB. Only its commands are used: its objects (`Commit`, `Tree`) cannot read a repository of
SHA-256. Paths that a caller ignores are files, or directories with all their contents.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.agents.protection import Protection
from autoresearch.errors import NotFoundError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import entries_of
from autoresearch.git_repo.git import SETTINGS, TIMEOUT_S, Git, GitFailed, below, clean_environment, path_in_tree

MAX_DIFF_BYTES = 200_000
SHOWN_IN_S = 60.0
LINK, SUBMODULE, NOTHING = "120000", "160000", "000000"
_DIFF = ("-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


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
        return Git(directory).run("cat-file", "blob", f"{commit}:{name}")
    except GitFailed as failure:
        if failure.returncode == 127:
            raise
        raise NotFoundError(f"commit {commit[:12]} holds no file {path}", code="no_such_file") from failure


def shown_diff(directory: Path, before: str, after: str, *, without: Collection[str]) -> tuple[str, str]:
    """What differs between two commits, for people: how many lines of which files, and the lines. Raises GitFailed.

    The last line of the first is such as `2 files changed, 3 insertions(+)`; "" if nothing differs.
    """
    how = ("--no-color", "--no-ext-diff", "--no-textconv", "-M", "--stat=100", "--patch", "--end-of-options")
    found = look(directory, "diff", *how, before, after, *_without(without), timeout_s=SHOWN_IN_S)
    stat, _, text = found.decode("utf-8", "replace").partition("\n\n")
    return stat, text


def first_commits(directory: Path) -> tuple[str, ...]:
    """The commits without a parent, which all clones of a repository share. Raises GitFailed."""
    return tuple(look(directory, "rev_list", "--max-parents=0", "HEAD").decode().split())


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs: its mode and blob id before and after; mode NOTHING if it does not exist."""

    path: str
    mode_before: str
    mode: str
    blob_before: str
    blob: str

    @property
    def gone(self) -> bool:
        """Whether the path was removed."""
        return self.mode == NOTHING


def changed_paths(checkout: Checkout, a: str, b: str) -> tuple[str, ...]:
    """The paths that differ between two commits. Raises GitFailed."""
    return tuple(sorted(one.path for one in differences(checkout.git, a, b)))


def differences(git: Git, before: str, after: str, *, objects: dict[str, str] | None = None) -> tuple[Difference, ...]:
    """Every path that differs between two commits or trees; `objects`: variables that tell git where objects are."""
    command = ("diff-tree", *_DIFF, "-z", "--raw", "--no-abbrev", "--ignore-submodules=none", before, after)
    return read_raw(git.run(*command, extra=objects))


def read_raw(listed: bytes) -> tuple[Difference, ...]:
    """What git lists with `--raw -z`."""
    fields = listed.split(b"\0")
    found = []
    for head, path in zip(fields[0:-1:2], fields[1::2], strict=False):
        mode_before, mode, blob_before, blob, _ = head.decode().removeprefix(":").split(" ")
        found.append(Difference(os.fsdecode(path), mode_before, mode, blob_before, blob))
    return tuple(found)


def intact(
    checkout: Checkout, base: str, commit: str, protection: Protection, *, ours: Collection[str] = ()
) -> tuple[str, ...]:
    """The protected files that differ between `base` and `commit`, e.g. `tests/test_a.py (a test)`; () if none do.

    `ours`: paths that the harness itself writes into the commit (`.autoresearch`, the recipe). Raises GitFailed.
    """
    own = [os.fsencode(path.rstrip("/")) for path in ours]
    changed = (one.path for one in differences(checkout.git, base, commit))
    return protection.touched(path for path in changed if not below(os.fsencode(path), own))


def diff(checkout: Checkout, a: str, b: str, *, ignoring: Collection[str] = (), max_bytes: int = MAX_DIFF_BYTES) -> str:
    """A unified diff for `git apply`; above `max_bytes` it is cut after a whole line, and a last line says so.

    Raises GitFailed.
    """
    words = (*_DIFF, "-p", "--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", a, b)
    data = look(checkout.root, "diff_tree", *words, *_without(ignoring))
    if len(data) <= max_bytes:
        return data.decode("utf-8", "backslashreplace")
    shown = data[:max_bytes].rpartition(b"\n")[0]
    return shown.decode("utf-8", "backslashreplace") + f"\n... cut after {len(shown)} bytes\n"


def _without(paths: Collection[str]) -> list[str]:
    return ["--", ".", *(f":(top,exclude,literal){path.rstrip('/')}" for path in paths)]


def code_fingerprint(checkout: Checkout, commit: str, ignoring: Collection[str] = ()) -> str:
    """A SHA-256 that is equal for two commits if and only if their files (names, modes, content) are, apart from
    the paths in `ignoring`. Raises GitFailed."""
    skipped = [path_in_tree(path.rstrip("/")) for path in ignoring]
    digest = hashlib.sha256()
    for path, head in entries_of(checkout, commit).items():
        if not below(path, skipped):
            digest.update(head + b"\t" + path + b"\0")
    return digest.hexdigest()
