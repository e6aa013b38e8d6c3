"""An isolated worktree for untrusted edits.

The files are those of a slot, but while it is open, its `.git` points to a separate temporary repository that only
borrows the original's objects: commits, branches, stashes and settings made in it affect nothing else.
`git_repo.extract_patch` reads the changes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.fresh_files import CONFIG, quoted
from autoresearch.git_repo.git import Git
from autoresearch.git_repo.hypothesis_commit import STRICT
from autoresearch.git_repo.remove_tree import wipe, wipe_nested
from autoresearch.git_repo.worktree_registry import admin_of
from autoresearch.git_repo.worktrees import EXACT, Slot
from autoresearch.records.failpoint import failpoint

RULES = (".gitignore", ".gitattributes")


@dataclass(frozen=True, slots=True)
class GitRuleFile:
    """A .gitignore or .gitattributes file as it is on disk."""

    mode: str  # git's file mode
    content: bytes  # for a link, its target


@dataclass(frozen=True, slots=True)
class IsolatedWorktree:
    """A slot, with `<path>.git`, `<path>.index` and `<path>.objects` beside it, created anew for each use."""

    slot: Slot

    @property
    def path(self) -> Path:
        """The directory to work in."""
        return self.slot.path

    @property
    def repository(self) -> Path:
        """The temporary repository that `.git` points to; git must be able to write to it, even for `git status`."""
        return self.beside("git")

    @property
    def index(self) -> Path:
        """A private index of the files as they were at the beginning."""
        return self.beside("index")

    def beside(self, kind: str) -> Path:
        """The path `<path>.<kind>`, which belongs to this worktree but lies outside of it."""
        return self.path.with_name(f"{self.path.name}.{kind}")

    @contextlib.contextmanager
    def opened(self, commit: str) -> Iterator[Opened]:
        """Open the worktree with exactly the files of a commit, for edits; raises as `Slot.switch` does."""
        base = self.slot.checkout.git.line("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        self.slot.switch(base)
        wipe_nested(self.path)
        link, admin = (self.path / ".git").read_bytes(), admin_of(self.path)
        assert admin is not None, "a slot that was switched has one"
        shutil.copy2(admin / "index", self.index)  # with its mtime, so that git does not trust files that it never read
        failpoint("enclosure.switched")
        self._borrow(base)
        (self.path / ".git").write_bytes(b"gitdir: " + os.fsencode(self.repository) + b"\n")
        failpoint("enclosure.opened")
        try:
            yield Opened(self, base, identity(self.path), self._rules())
        finally:
            self._close(link)

    def _borrow(self, commit: str) -> None:
        """Create the temporary repository: no branch, remote or hook; HEAD is the commit; objects are borrowed."""
        place, checkout = self.repository, self.slot.checkout
        wipe(place)
        for name in ("objects/info", "refs/heads", "info"):
            (place / name).mkdir(parents=True)
        (place / "config").write_text(CONFIG[len(commit)])
        (place / "objects/info/alternates").write_bytes(quoted(checkout.common_dir / "objects") + b"\n")
        for name in ("shallow", "info/exclude"):
            with contextlib.suppress(OSError):
                shutil.copy2(checkout.common_dir / name, place / name)
        shutil.copy2(self.index, place / "index")
        (place / "HEAD").write_text(commit + "\n")

    def _rules(self) -> dict[str, GitRuleFile]:
        """The commit's rule files: every tracked .gitignore and .gitattributes, by path."""
        listed = Git(self.path).run("ls-files", "-z", "--", *(f":(glob)**/{name}" for name in RULES))
        paths = (os.fsdecode(path) for path in listed.split(b"\0") if path)
        return {path: rule for path in paths if (rule := rule_at(self.path / path))}

    def _close(self, link: bytes) -> None:
        """Restore the slot's `.git` and remove the temporary repository; the next use recreates a missing worktree."""
        for place in (self.index, self.beside("objects"), self.repository):
            wipe(place)
        if self.path.is_dir() and not self.path.is_symlink():
            wipe(self.path / ".git")
            with contextlib.suppress(OSError):
                (self.path / ".git").write_bytes(link)


@dataclass(frozen=True, slots=True)
class Opened:
    """An isolated worktree in use, and its state at the beginning."""

    enclosure: IsolatedWorktree
    base: str  # the commit
    identity: tuple[int, int]
    rules: Mapping[str, GitRuleFile]

    @property
    def path(self) -> Path:
        """The directory to work in."""
        return self.enclosure.path

    @property
    def checkout(self) -> Checkout:
        """The checkout whose objects are borrowed."""
        return self.enclosure.slot.checkout

    @property
    def objects(self) -> dict[str, str]:
        """Environment variables for git: new objects go to a temporary directory, existing ones are borrowed."""
        place = self.enclosure.beside("objects")
        place.mkdir(exist_ok=True)
        borrowed = os.fsdecode(quoted(self.checkout.common_dir / "objects"))
        return {"GIT_OBJECT_DIRECTORY": str(place), "GIT_ALTERNATE_OBJECT_DIRECTORIES": borrowed}

    def apply(self, patch: bytes) -> None:
        """Apply a patch against the commit to the files, before the work begins. Raises GitFailed."""
        Git(self.path).run(*EXACT, *STRICT, "apply", "--index", "--binary", "-p1", "-", feed=patch)


def identity(path: Path) -> tuple[int, int]:
    """Device and inode of a directory, links not followed; (0, 0) if it is not a directory."""
    try:
        status = path.lstat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else (0, 0)


def rule_at(path: Path) -> GitRuleFile | None:
    """The rule file at a path; None if there is no file or link."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return GitRuleFile("120000", os.fsencode(path.readlink()))
        if stat.S_ISREG(mode):
            return GitRuleFile("100755" if mode & stat.S_IXUSR else "100644", path.read_bytes())
    except OSError:
        pass
    return None
