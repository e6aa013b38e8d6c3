"""An isolated worktree for untrusted edits.

The files are those of a slot, but while somebody works there its `.git` names a repository of its own that only borrows
our objects: commits, branches, stashes and settings made there are nobody else's. What was done is told by
`git_repo.extract_patch`.
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
from autoresearch.git_repo.git import Git
from autoresearch.git_repo.hypothesis_commit import STRICT
from autoresearch.git_repo.remove_tree import wipe, wipe_nested
from autoresearch.git_repo.worktree_registry import admin_of
from autoresearch.git_repo.worktrees import EXACT, Slot
from autoresearch.records.failpoint import failpoint

RULES = (".gitignore", ".gitattributes")
_CONFIG = {  # by the length of a commit's name (gitrepository-layout(5), git-config(1) "extensions.objectFormat")
    40: "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    64: "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = sha256\n",
}


@dataclass(frozen=True, slots=True)
class GitRuleFile:
    """A file that tells git what to look at and how, as it lies on the disk."""

    mode: str  # as git has it
    content: bytes  # of a link: where it leads


@dataclass(frozen=True, slots=True)
class IsolatedWorktree:
    """A slot, and beside it `<path>.git`, `<path>.index` and `<path>.objects`: all ours, made anew for each use."""

    slot: Slot

    @property
    def path(self) -> Path:
        """Where to work."""
        return self.slot.path

    @property
    def repository(self) -> Path:
        """The repository that the worktree names meanwhile; git must be able to write to it, for `git status` even."""
        return self.beside("git")

    @property
    def index(self) -> Path:
        """An index of ours, of the files as they were at the beginning."""
        return self.beside("index")

    def beside(self, kind: str) -> Path:
        """A place of ours that belongs to this worktree, and is outside of it."""
        return self.path.with_name(f"{self.path.name}.{kind}")

    @contextlib.contextmanager
    def opened(self, commit: str) -> Iterator[Opened]:
        """The files of a commit, and nothing else, to be worked on; raises as `Slot.switch` does."""
        base = self.slot.checkout.git.line("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        self.slot.switch(base)
        wipe_nested(self.path)
        link, admin = (self.path / ".git").read_bytes(), admin_of(self.path)
        assert admin is not None, "a slot that was switched has one"
        shutil.copy2(admin / "index", self.index)  # with its time stamp, lest git trusts a file that it never saw
        failpoint("enclosure.switched")
        self._borrow(base)
        (self.path / ".git").write_bytes(b"gitdir: " + os.fsencode(self.repository) + b"\n")
        failpoint("enclosure.opened")
        try:
            yield Opened(self, base, identity(self.path), self._rules())
        finally:
            self._close(link)

    def _borrow(self, commit: str) -> None:
        """A repository without a branch, a remote or a hook, whose HEAD is the commit and whose objects are ours."""
        place, checkout = self.repository, self.slot.checkout
        wipe(place)
        for name in ("objects/info", "refs/heads", "info"):
            (place / name).mkdir(parents=True)
        (place / "config").write_text(_CONFIG[len(commit)])
        (place / "objects/info/alternates").write_bytes(_quoted(checkout.common_dir / "objects") + b"\n")
        for name in ("shallow", "info/exclude"):
            with contextlib.suppress(OSError):
                shutil.copy2(checkout.common_dir / name, place / name)
        shutil.copy2(self.index, place / "index")
        (place / "HEAD").write_text(commit + "\n")

    def _rules(self) -> dict[str, GitRuleFile]:
        """The rules of the commit: every tracked .gitignore and .gitattributes."""
        listed = Git(self.path).run("ls-files", "-z", "--", *(f":(glob)**/{name}" for name in RULES))
        paths = (os.fsdecode(path) for path in listed.split(b"\0") if path)
        return {path: rule for path in paths if (rule := rule_at(self.path / path))}

    def _close(self, link: bytes) -> None:
        """The worktree is our slot's again, if it is still there; else the next use makes it anew."""
        for place in (self.index, self.beside("objects"), self.repository):
            wipe(place)
        if self.path.is_dir() and not self.path.is_symlink():
            wipe(self.path / ".git")
            with contextlib.suppress(OSError):
                (self.path / ".git").write_bytes(link)


@dataclass(frozen=True, slots=True)
class Opened:
    """An enclosure in use, and what of its beginning is remembered."""

    enclosure: IsolatedWorktree
    base: str  # the commit
    identity: tuple[int, int]
    rules: Mapping[str, GitRuleFile]

    @property
    def path(self) -> Path:
        """Where to work."""
        return self.enclosure.path

    @property
    def checkout(self) -> Checkout:
        """Whose objects it borrows."""
        return self.enclosure.slot.checkout

    @property
    def objects(self) -> dict[str, str]:
        """Variables for git: new objects go where they are thrown away with the rest, the others are ours."""
        place = self.enclosure.beside("objects")
        place.mkdir(exist_ok=True)
        borrowed = os.fsdecode(_quoted(self.checkout.common_dir / "objects"))
        return {"GIT_OBJECT_DIRECTORY": str(place), "GIT_ALTERNATE_OBJECT_DIRECTORIES": borrowed}

    def apply(self, patch: bytes) -> None:
        """Change the files by a patch against the commit, before anybody works here. Raises GitFailed."""
        Git(self.path).run(*EXACT, *STRICT, "apply", "--index", "--binary", "-p1", "-", feed=patch)


def identity(path: Path) -> tuple[int, int]:
    """Which directory this is, a link not followed; (0, 0) where it is none."""
    try:
        status = path.lstat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else (0, 0)


def rule_at(path: Path) -> GitRuleFile | None:
    """The file as it lies there; None where there is none, or something else."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return GitRuleFile("120000", os.fsencode(path.readlink()))
        if stat.S_ISREG(mode):
            return GitRuleFile("100755" if mode & stat.S_IXUSR else "100644", path.read_bytes())
    except OSError:
        pass
    return None


def _quoted(path: Path) -> bytes:
    """A path as git reads it in lists of object directories: in quotes where a sign in it means something."""
    raw = os.fsencode(path)
    if not raw.startswith(b'"') and b":" not in raw and b"\n" not in raw:
        return raw
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
