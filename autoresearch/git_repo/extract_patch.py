"""Extracts the changes made in an isolated worktree, as a patch against its base commit.

Only the files on disk count, under that commit's rule files (.gitignore, .gitattributes), with an index saved before
and an explicit git directory. Whatever was staged, committed, configured or ignored in the worktree has no effect.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.git_repo.fresh_files import without_programs
from autoresearch.git_repo.git import Git, GitFailed, text
from autoresearch.git_repo.hypothesis_commit import STRICT, PatchError
from autoresearch.git_repo.isolated_worktree import RULES, GitRuleFile, Opened, identity, rule_at
from autoresearch.git_repo.remove_tree import stays_inside, wipe, wipe_nested
from autoresearch.git_repo.tree_changes import LINK, SUBMODULE, Difference, differences
from autoresearch.git_repo.worktrees import EXACT, Slot

MAX_FILES = 500
MAX_FILE_BYTES = 5 * 2**20
MAX_BYTES = 64 * 2**20  # of all changed files together
MAX_PATCH_BYTES = 2 * 2**20
LEAVINGS = (
    *("__pycache__/", "*.py[cod]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".ipynb_checkpoints/"),
    *(".DS_Store", "/.autoresearch/", "*.rej", "*.orig", "*.swp"),
)
_PATCH = (
    *("diff-tree", "-r", "-p", "--binary", "--full-index", "--find-renames", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=none"),
)


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


def gathered(opened: Opened, leavings: Collection[str] = ()) -> ExtractedPatch:
    """Extract the changes since the worktree was opened, without new files that match `leavings` (gitignore patterns).

    Raises TooLarge before anything large is read, Trespass for forbidden changes (a nested repository, a link that
    leads outside, a changed submodule), GitFailed.
    """
    if identity(opened.path) != opened.identity:
        raise Trespass("the worktree itself was removed or replaced")
    new_rules = _walk(opened.path, opened.rules)
    edited = _base_rules_again(opened, new_rules)
    _keep_submodules(opened)
    changed, new = _changed(opened), _untracked(opened, leavings)
    _weigh(opened.path, [*changed, *new])
    feed = b"".join(os.fsencode(path) + b"\0" for path in [*changed, *new])
    _git(opened, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed)
    _put(opened, {path: rule for path, rule in edited.items() if path in opened.rules or path in new})
    tree = _git(opened, "write-tree").decode().strip()
    found = differences(Git(opened.checkout.common_dir), opened.base, tree, objects=opened.objects)
    _refuse_trespass(opened, found)
    return ExtractedPatch(opened.base, _patch(opened, tree), tree, found)


def _git(opened: Opened, *arguments: str, feed: bytes | None = None) -> bytes:
    """Run git on the original repository with the private index: the worktree's `.git` is ignored, and new objects
    are temporary."""
    where = (f"--git-dir={opened.checkout.common_dir}", f"--work-tree={opened.path}")
    git = Git(opened.path, opened.enclosure.index)
    safe = without_programs(opened.checkout)
    return git.run(*where, *EXACT, *safe, *arguments, feed=feed, extra=opened.objects)


def _walk(root: Path, rule_files: Mapping[str, GitRuleFile]) -> list[str]:
    """Paths of new rule files. Raises Trespass for nested repositories; removes what is neither file, link nor
    directory, because git would block on a named pipe."""
    new, todo = [], [root]
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
                elif entry.name in RULES and (path := os.path.relpath(entry.path, root)) not in rule_files:
                    new.append(path)
                elif not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()
    return new


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


def _base_rules_again(opened: Opened, new: Iterable[str]) -> dict[str, GitRuleFile | None]:
    """Restore the commit's rule files on disk; returns the edited ones, as they were found (None: removed).

    New ones are emptied, not removed, so that git can tell whether they are ignored, like pytest's in its cache.
    """
    edited: dict[str, GitRuleFile | None] = {}
    for path in new:
        edited[path] = rule_at(opened.path / path)
        wipe(opened.path / path)
        (opened.path / path).touch()
    for path, before in opened.rules.items():
        place = opened.path / path
        if (now := rule_at(place)) == before:
            continue
        edited[path] = now
        if stays_inside(opened.path, place.parent) and before.mode != LINK:
            wipe(place)
            place.write_bytes(before.content)
    return edited


def _keep_submodules(opened: Opened) -> None:
    """Recreate missing submodule directories, which are always empty here, so that they do not count as a change."""
    for entry in _git(opened, "ls-files", "-s", "-z").split(b"\0"):
        if entry.startswith(SUBMODULE.encode()):
            place = opened.path / os.fsdecode(entry.partition(b"\t")[2])
            if not os.path.lexists(place) and stays_inside(opened.path, place.parent):
                place.mkdir()


def _changed(opened: Opened) -> list[str]:
    """Tracked paths that were changed or removed."""
    with contextlib.suppress(GitFailed):  # it exits with an error if a file differs, but has then done its work
        _git(opened, "update-index", "-q", "--refresh")
    listed = _git(opened, "diff-files", "-z", "--name-only", "--no-renames")
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _untracked(opened: Opened, leavings: Collection[str]) -> list[str]:
    patterns = [word for pattern in (*LEAVINGS, *leavings) for word in ("-x", pattern)]
    listed = _git(opened, "ls-files", "--others", "--exclude-standard", *patterns, "-z")
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _weigh(root: Path, paths: Collection[str]) -> None:
    if len(paths) > MAX_FILES:
        raise TooLarge(f"it changes {len(paths):,} files, and {MAX_FILES} is the most")
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):  # removed
            size = (root / path).lstat().st_size
            if size > MAX_FILE_BYTES:
                name = text(os.fsencode(path))
                raise TooLarge(f"{name} has {size / 2**20:,.1f} MiB, and {MAX_FILE_BYTES >> 20} MiB is the most")
            total += size
    if total > MAX_BYTES:
        raise TooLarge(f"the changed files have {total / 2**20:,.0f} MiB, and {MAX_BYTES >> 20} MiB is the most")


def _put(opened: Opened, edited: Mapping[str, GitRuleFile | None]) -> None:
    """Put the edited rule files into the index, byte for byte."""
    lines = []
    for path, rule in edited.items():
        if rule is None:
            lines.append(b"0 %s\t%s" % (b"0" * len(opened.base), os.fsencode(path)))
            continue
        blob = _git(opened, "hash-object", "-w", "--no-filters", "--stdin", feed=rule.content).strip()
        lines.append(b"%s %s\t%s" % (rule.mode.encode(), blob, os.fsencode(path)))
    if lines:
        _git(opened, "update-index", "-z", "--index-info", feed=b"\0".join(lines) + b"\0")


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


def _patch(opened: Opened, tree: str) -> bytes:
    """The patch as bytes. Raises TooLarge above MAX_PATCH_BYTES, without reading more."""
    git = Git(opened.checkout.common_dir)
    with git.start("-c", "core.quotePath=true", *_PATCH, opened.base, tree, extra=opened.objects) as running:
        assert running.process.stdout is not None
        data: bytes = running.process.stdout.read(MAX_PATCH_BYTES + 1)
        if len(data) > MAX_PATCH_BYTES:
            raise TooLarge(f"its patch has more than {MAX_PATCH_BYTES >> 20} MiB")
        status, _, said = running.finish()
    if status:
        raise GitFailed(("git", *_PATCH), status, said)
    return data


def patched(slot: Slot, base: str, patch: bytes, includes: Iterable[str] = ()) -> str:
    """Make the slot hold the files of `base` changed by the patch; returns the id of their tree.

    Raises PatchError if it does not apply exactly (no 3-way merge), and the errors of `Slot.switch`.
    """
    slot.switch(base, includes)
    wipe_nested(slot.path)
    git = Git(slot.path)
    try:
        git.run(*EXACT, *STRICT, "apply", "--index", "--binary", "-p1", "-", feed=patch)
    except GitFailed as failure:
        raise PatchError(1, base, failure.stderr) from failure
    return git.line(*EXACT, "write-tree")
