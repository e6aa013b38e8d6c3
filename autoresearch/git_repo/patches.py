"""The changes of untrusted edits, as a patch: an isolated worktree to edit in, and what is read from it.

The files are those of a slot, but while it is open, its `.git` points to a separate temporary repository that only
borrows the original's objects: commits, branches, stashes and settings made in it affect nothing else. Of the edits
only the files on disk count, with an index saved before and an explicit git directory. Whatever was staged,
committed or configured there has no effect.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import EXACT, STRICT, PatchError
from autoresearch.git_repo.git import Git, GitFailed, text
from autoresearch.git_repo.history import LINK, SUBMODULE, Difference, differences
from autoresearch.git_repo.remove_tree import wipe, wipe_nested
from autoresearch.git_repo.worktrees import Slot, admin_of
from autoresearch.records.files import read_json, write_json
from autoresearch.runner.basics import failpoint

CONFIG = {  # by the length of a commit id (gitrepository-layout(5), git-config(1) "extensions.objectFormat")
    40: "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    64: "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = sha256\n",
}
MAX_FILES = 500
MAX_BYTES = 2 * 2**20  # of all changed files together
LEAVINGS = (
    *("__pycache__/", "*.py[cod]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".ipynb_checkpoints/"),
    *(".DS_Store", "/.autoresearch/", "*.rej", "*.orig", "*.swp", ".aider*"),
)
_PATCH = (
    *("diff-tree", "-r", "-p", "--binary", "--full-index", "--find-renames", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=none"),
)


@dataclass(frozen=True, slots=True)
class Opened:
    """An isolated worktree in use, and its state at the beginning."""

    slot: Slot
    base: str  # the commit
    identity: tuple[int, int]

    @property
    def path(self) -> Path:
        """The directory to work in."""
        return self.slot.path

    @property
    def checkout(self) -> Checkout:
        """The checkout whose objects are borrowed."""
        return self.slot.checkout

    @property
    def repository(self) -> Path:
        """The temporary repository that `.git` points to; git must be able to write to it, even for `git status`."""
        return _beside(self.slot, "git")

    @property
    def objects(self) -> dict[str, str]:
        """Environment variables for git: new objects go to a temporary directory, existing ones are borrowed."""
        directory = _beside(self.slot, "objects")
        directory.mkdir(exist_ok=True)
        borrowed = os.fsdecode(_quoted(self.checkout.common_dir / "objects"))
        return {"GIT_OBJECT_DIRECTORY": str(directory), "GIT_ALTERNATE_OBJECT_DIRECTORIES": borrowed}


@dataclass(frozen=True, slots=True)
class IsolatedWorktree:
    """A slot, with `<path>.git`, `<path>.index` and `<path>.objects` beside it, created anew for each use.

    `<path>.opened` is there while it is open: whoever opens it next, if we are killed, finds it as it was left.
    """

    slot: Slot

    @property
    def _note(self) -> Path:
        return _beside(self.slot, "opened")

    def open(self, commit: str, patch: bytes = b"") -> Opened:
        """The worktree for edits, until `close`: exactly the files of a commit, changed by a patch.

        One that is open at this commit is as it was left, edits and all. Raises as `Slot.switch` does, and GitFailed
        for a patch that does not apply.
        """
        slot, path, common = self.slot, self.slot.path, self.slot.checkout.common_dir
        index, repository = _beside(slot, "index"), _beside(slot, "git")
        base = slot.checkout.commit(commit)
        if (left := read_json(self._note)) is not None and left["base"] == base:
            wipe(_beside(slot, "index.lock"))  # git's, if it was killed, too
            return Opened(slot, base, tuple(left["identity"]))
        wipe(self._note)
        slot.switch(base)
        wipe_nested(path)
        link, admin = (path / ".git").read_bytes(), admin_of(path)
        assert admin is not None, "a slot that was switched has one"
        shutil.copy2(admin / "index", index)  # with its mtime, so that git does not trust files that it never read
        failpoint("enclosure.switched")
        wipe(repository)
        _borrowing_repository(repository, slot.checkout, base)
        for name in ("shallow", "info/exclude"):
            with contextlib.suppress(OSError):
                shutil.copy2(common / name, repository / name)
        shutil.copy2(index, repository / "index")
        (path / ".git").write_bytes(b"gitdir: " + os.fsencode(repository) + b"\n")
        failpoint("enclosure.opened")
        if patch:
            _apply(path, patch)
        opened = Opened(slot, base, identity(path))
        record = {"base": base, "identity": opened.identity, "link": os.fsdecode(link)}
        write_json(self._note, record, durable=False, executed=True)
        return opened

    def close(self) -> None:
        """Give the slot its own `.git` back; a worktree that is missing is made anew by the next switch."""
        path, left = self.slot.path, read_json(self._note)
        for leftover in (self._note, *(_beside(self.slot, kind) for kind in ("index", "objects", "git"))):
            wipe(leftover)
        if left is not None and path.is_dir() and not path.is_symlink():
            wipe(path / ".git")
            with contextlib.suppress(OSError):
                (path / ".git").write_bytes(os.fsencode(left["link"]))


def _quoted(path: Path) -> bytes:
    """A path as git reads it in lists of object directories: quoted if it contains special characters."""
    raw = os.fsencode(path)
    if not raw.startswith(b'"') and b":" not in raw and b"\n" not in raw:
        return raw
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _borrowing_repository(directory: Path, checkout: Checkout, commit: str) -> None:
    """Make a git directory at a commit that borrows the objects of a repository: no branch, remote, hook or setting."""
    for name in ("", "objects", "objects/info", "refs", "info"):
        (directory / name).mkdir(exist_ok=True)
    (directory / "objects/info/alternates").write_bytes(_quoted(checkout.common_dir / "objects") + b"\n")
    (directory / "HEAD").write_text(f"{commit}\n")
    (directory / "config").write_text(CONFIG[len(commit)])


def _beside(slot: Slot, kind: str) -> Path:
    """The path `<path>.<kind>`, which belongs to a worktree but lies outside of it."""
    return slot.path.with_name(f"{slot.path.name}.{kind}")


def identity(path: Path) -> tuple[int, int]:
    """Device and inode of a directory, links not followed; (0, 0) if it is not a directory."""
    try:
        status = path.lstat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else (0, 0)


class TooLarge(Exception):  # noqa: N818 - it says what the change is
    """The change is too large to be reviewed; the message is a clause with the numbers."""


class Trespass(Exception):  # noqa: N818 - it says what was done
    """The change contains something forbidden; the message is a clause."""


@dataclass(frozen=True, slots=True)
class ExtractedPatch:
    """The changes: a patch against `base` for `git apply`, and the resulting tree."""

    base: str
    patch: bytes
    tree: str
    differences: tuple[Difference, ...]


def gathered(opened: Opened) -> ExtractedPatch:
    """Extract the changes since the worktree was opened, without new files that match LEAVINGS.

    Raises TooLarge before anything large is read, Trespass for forbidden changes (a nested repository, a link that
    leads outside, a changed submodule), GitFailed.
    """
    if identity(opened.path) != opened.identity:
        raise Trespass("the worktree itself was removed or replaced")
    _walk(opened.path)
    changed, new = _changed(opened), _untracked(opened)
    _weigh(opened.path, [*changed, *new])
    feed = b"".join(os.fsencode(path) + b"\0" for path in [*changed, *new])
    _git(opened, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
    tree = _git(opened, "write-tree").decode().strip()
    found = differences(Git(opened.checkout.common_dir), opened.base, tree, objects=opened.objects)
    _refuse_trespass(opened, found)
    command = ("-c", "core.quotePath=true", *_PATCH, opened.base, tree)
    patch = Git(opened.checkout.common_dir).run(*command, extra=opened.objects)
    return ExtractedPatch(opened.base, patch, tree, found)


def _git(opened: Opened, *arguments: str, feed: bytes | None = None) -> bytes:
    """Run git on the original repository with the private index: the worktree's `.git` is ignored, and new objects
    are temporary."""
    where = (f"--git-dir={opened.checkout.common_dir}", f"--work-tree={opened.path}")
    git = Git(opened.path, _beside(opened.slot, "index"))
    return git.run(*where, *EXACT, *arguments, feed=feed, extra=opened.objects)


def _walk(root: Path) -> None:
    """Raise Trespass for nested repositories; remove what is neither file, link nor directory, because git would block
    on a named pipe."""
    todo = [root]
    while todo:
        place = todo.pop()
        with contextlib.suppress(PermissionError), _entries(place) as entries:
            for entry in entries:
                if entry.name.lower() == ".git":
                    if place != root:
                        inside = text(os.fsencode(os.path.relpath(entry.path, root)))
                        raise Trespass(f"it makes a repository inside the repository: {inside}")
                elif entry.is_dir(follow_symlinks=False):
                    todo.append(Path(entry.path))
                elif not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()


@contextlib.contextmanager
def _entries(directory: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in a directory of an edit. Raises Trespass where it cannot be looked at, such as one that is too deep."""
    try:
        with os.scandir(directory) as entries:
            yield entries
    except PermissionError:
        raise
    except OSError as error:
        raise Trespass(f"a directory in it cannot be looked at: {error.strerror}") from error


def _changed(opened: Opened) -> list[str]:
    """Tracked paths that were changed or removed."""
    listed = _git(opened, "ls-files", "--modified", "-z")
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _untracked(opened: Opened) -> list[str]:
    patterns = [word for pattern in LEAVINGS for word in ("-x", pattern)]
    listed = _git(opened, "ls-files", "--others", "--exclude-standard", *patterns, "-z")
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _weigh(root: Path, paths: Collection[str]) -> None:
    if len(paths) > MAX_FILES:
        raise TooLarge(f"it changes {len(paths):,} files, and {MAX_FILES} is the most")
    sizes = {path: (root / path).lstat().st_size for path in paths if os.path.lexists(root / path)}
    if (total := sum(sizes.values())) > MAX_BYTES:
        most = text(os.fsencode(max(sizes, key=lambda path: sizes[path])))
        said = f"the changed files have {total / 2**20:,.1f} MiB, {most} the most of it"
        raise TooLarge(f"{said}, and {MAX_BYTES >> 20} MiB may be changed")


def _refuse_trespass(opened: Opened, differences: Iterable[Difference]) -> None:
    for one in differences:
        name = text(os.fsencode(one.path))
        if SUBMODULE in (one.mode, one.mode_before):
            raise Trespass(f"it changes the submodule {name}")
        if one.mode == LINK:
            target = os.fsdecode(_git(opened, "cat-file", "blob", one.blob))
            if target.startswith("/") or _leaves(opened.path, one.path, target):
                raise Trespass(f"the symbolic link {name} leads outside of the repository: {text(os.fsencode(target))}")


def _leaves(root: Path, path: str, target: str) -> bool:
    """Whether a relative link, as written or as resolved, leads outside of the tree or into `.git`."""
    written = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    real = os.path.realpath(root / path)
    followed = os.path.relpath(real, root)
    return any(place.split("/")[0].lower() in ("..", ".git") for place in (written, followed))


def patched(slot: Slot, base: str, patch: bytes, extras: Iterable[ExtraPath] = ()) -> str:
    """Make the slot hold the files of `base` changed by the patch; returns the id of their tree.

    Raises PatchError if it does not apply exactly (no 3-way merge), and the errors of `Slot.switch`.
    """
    slot.switch(base)
    wipe_nested(slot.path)
    try:
        _apply(slot.path, patch)
    except GitFailed as failure:
        raise PatchError(1, base, failure.stderr) from failure
    slot.show(extras)
    return Git(slot.path).line(*EXACT, "write-tree")


def _apply(worktree: Path, patch: bytes) -> None:
    Git(worktree).run(*EXACT, *STRICT, "apply", "--index", "--binary", "-p1", "-", feed=patch)
