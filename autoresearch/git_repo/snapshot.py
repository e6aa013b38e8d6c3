"""Commits exactly the code that runs, without touching the user's checkout.

HEAD with staged, changed, deleted and untracked (not ignored) files goes into a private index, from there into
a tree and a commit. The user's index, HEAD, branch, stash and reflogs stay byte for byte as they are; only objects
are added, which nothing refers to until a branch is claimed.

Names alone decide what is a secret or a checkpoint; no file is opened. A file left out wrongly makes the commit
differ from the code that ran; one taken wrongly may publish a key. Hence secrets are matched broadly, except for
names of source code, and weights narrowly: by the directory names that trainers use and by suffixes used for nothing
else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from autoresearch.core.run.spec import SUBMODULE_EDITS
from autoresearch.core.text.regex import later
from autoresearch.git_repo.checkout import Checkout, private_index
from autoresearch.git_repo.commits import commit_tree
from autoresearch.git_repo.git import LFS_FILES, Git, GitFailed, path_in_tree, text
from autoresearch.git_repo.history import NOTHING, SUBMODULE, Difference, read_raw
from autoresearch.runner.basics import failpoint

MAX_BYTES = 50 * 2**20  # a larger untracked file is taken for data
ATTEMPTS = 3  # files may change during the survey

OWN = "results and records"
NESTED = "a git repository of its own"
SECRET = "secret file"
CHECKPOINT = "checkpoint"
VENV = "virtual environment"
LFS = "of Git LFS, which is not installed"
KEPT = "; the commit keeps the version of HEAD"
_VENV_PARTS = frozenset({"bin", "include", "lib", "lib64", "share"})

_DIFF = ("-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
_SOURCE = tuple(
    f".{suffix}"
    for suffix in "py pyi pyx ipynb sh bash c cc cpp cu cuh h hpp rs go js ts java md rst".split()  # noqa: SIM905
)
_CONFIG = (".yaml", ".yml", ".toml")
_PUBLISHED = (".example", ".sample", ".template", ".dist")  # .env.example is meant to be committed
_SECRET_NAMES = (
    *("*.env", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials*", ".credentials*", ".netrc", ".pgpass", ".pypirc", ".git-credentials", ".htpasswd"),
)
_SECRET = later("|".join(map(translate, _SECRET_NAMES)))
_TOKEN = later(r"\.?(?:[\w-]*[._-])?token(?:\.txt|\.json)?\Z")
_SECRET_DIRECTORIES = frozenset({".ssh", ".aws", ".gnupg", ".kube"})
_CHECKPOINT_SUFFIXES = (".ckpt", ".safetensors")
_CHECKPOINT_DIRECTORY = later(r"(?:saved_)?checkpoints\Z|(?:global_step_?|checkpoint-|iter_)\d+\Z")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path (a directory's ends in `/`) that the snapshot does not contain as it is on disk, and why."""

    path: str
    reason: str
    size: int = 0  # bytes; 0 if unknown

    def __str__(self) -> str:
        counted = f", {self.size / 2**20:.1f} MB" if self.size >= 2**20 else ""
        return f"{self.path} ({self.reason}{counted})"


@dataclass(frozen=True, slots=True)
class Survey:
    """How a checkout differs from HEAD, and what a snapshot does about it. Paths are relative to the root."""

    head: str  # commit; "" if there is none
    take: tuple[str, ...]  # to be read from disk
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths in which the snapshot will differ from HEAD, sorted


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The created commit; `parent` is "" in a repository without a commit."""

    tree: str
    commit: str
    parent: str
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths that differ from HEAD


def is_secret(path: str) -> bool:
    """Whether a repository path names a key, a token or a credentials file; source code never counts as one."""
    *directories, name = path.lower().split("/")
    if not _SECRET_DIRECTORIES.isdisjoint(directories):
        return True
    if name.endswith(_PUBLISHED):
        return False
    if name == ".env" or name.startswith(".env."):
        return True
    if name.endswith(_SOURCE):
        return False
    return bool(_TOKEN.match(name) or _SECRET.match(name))


def is_checkpoint(path: str) -> bool:
    """Whether an untracked path holds weights: by suffix, or inside a trainer's checkpoint directory.

    Source code and configuration files in such a directory do not count: a package may be called `checkpoints`.
    """
    *directories, name = path.lower().split("/")
    if name.endswith(_CHECKPOINT_SUFFIXES):
        return True
    if name.endswith((*_SOURCE, *_CONFIG)):
        return False
    return any(_CHECKPOINT_DIRECTORY.match(directory) for directory in directories)


def survey(checkout: Checkout, *, leave_out: Iterable[Path] = (), max_bytes: int = MAX_BYTES) -> Survey:
    """What a snapshot would take and leave out; for `--dry-run`. Raises GitFailed."""
    with private_index(checkout) as git:
        return _Surveyor(git, checkout.root, leave_out, max_bytes).survey()


class _Surveyor:
    """Looks at a checkout. What is gone, or stays as HEAD has it, it sets in the private index; it writes no object."""

    def __init__(self, git: Git, root: Path, leave_out: Iterable[Path], max_bytes: int) -> None:
        self.git, self.root, self.max_bytes = git, root, max_bytes
        real = (Path(os.path.realpath(path)) for path in leave_out)
        self.own = [str(path.relative_to(root)) for path in real if root in path.parents]
        self.left_out: dict[str, LeftOut] = {}

    def survey(self) -> Survey:
        self.git.ask("update-index", "-q", "--refresh")  # its exit status only says that something differs
        status, out, _ = self.git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        head = out.decode().strip() if status == 0 else ""
        take, settled = self._tracked(head or self.git.line("hash-object", "-t", "tree", os.devnull))
        take += self._untracked()
        dirty = tuple(sorted(text(os.fsencode(path)) for path in {*take, *settled}))
        return Survey(head, tuple(take), tuple(self.left_out.values()), dirty)

    def _tracked(self, base: str) -> tuple[list[str], list[str]]:
        """The tracked files to be read from disk, and those that differ from `base` without that."""
        changed = {one.path: one for one in read_raw(self.git.run("diff-index", *_DIFF, base, "--"))}
        gone = [path for path, one in changed.items() if one.gone]
        submodules = [path for path, one in changed.items() if one.mode == SUBMODULE == one.mode_before]
        take, kept = [], []
        pointers = self._pointers() if changed else frozenset()
        for path in changed.keys() - {*gone, *submodules}:
            one = changed[path]
            if one.mode == SUBMODULE and (self.root / path).is_dir():  # a repository replaced a file
                self._leave(f"{path}/", NESTED)
                gone.append(path)
                continue
            reason = OWN if self._own(path) else SECRET if is_secret(path) else LFS if path in pointers else ""
            if reason := reason or self._unreadable(path):
                self._leave(path, reason + ("" if one.mode_before == NOTHING else KEPT))
                kept.append(one)
            else:
                take.append(path)
        if missing := [*gone, *self._names("ls-files", "-d")]:  # what is staged and missing is no difference from HEAD
            self._update("--force-remove", paths=missing)
        if kept:
            self.git.run("update-index", "-z", "--index-info", feed=b"".join(map(_before, kept)))
        moved: list[str] = []
        if submodules:
            self._update(paths=submodules)
            for path in self._names("diff-files", "--name-only", "--ignore-submodules=none"):
                if path in submodules:
                    self._leave(f"{path}/", SUBMODULE_EDITS)
            moved = self._names("diff-index", "--cached", "--name-only", "--ignore-submodules=none", base)
        return take, [*gone, *(path for path in moved if path in submodules)]

    def _untracked(self) -> list[str]:
        """The untracked files that are neither secrets, weights nor data (by size)."""
        take, listed = [], self._names("ls-files", "-o", "--exclude-standard")
        environments = {mark for path in listed if (mark := _environment_of(path))}
        environments |= _VENV_PARTS if "pyvenv.cfg" in listed else set()
        for path in listed:
            size = self._size(path)
            if path.endswith("/"):  # git never enters another repository
                self._leave(path, NESTED)
            elif environment := next((one for one in environments if path.startswith(f"{one}/")), ""):
                self._leave(f"{environment}/", VENV)
            elif own := self._own(path):
                self._leave(own if own == path else f"{own}/", OWN)
            elif reason := SECRET if is_secret(path) else self._unreadable(path):
                self._leave(path, reason, size)
            elif is_checkpoint(path):
                self._leave(path, CHECKPOINT, size)
            elif size > self.max_bytes:
                self._leave(path, f"untracked and larger than {self.max_bytes / 2**20:.0f} MB", size)
            else:
                take.append(path)
        return take

    def _leave(self, path: str, reason: str, size: int = 0) -> None:
        self.left_out.setdefault(path, LeftOut(text(os.fsencode(path)), reason, size))

    def _names(self, command: str, *words: str) -> list[str]:
        return [os.fsdecode(path) for path in self.git.run(command, "-z", *words).split(b"\0") if path]

    def _update(self, *words: str, paths: Iterable[str]) -> None:
        self.git.run("update-index", *words, "-z", "--stdin", feed=b"\0".join(map(os.fsencode, paths)))

    def _pointers(self) -> frozenset[str]:
        """The files that Git LFS would make pointers of, where it is not installed."""
        return frozenset() if shutil.which("git-lfs") else frozenset(self._names("ls-files", "--", LFS_FILES))

    def _own(self, path: str) -> str:
        """Which of the paths that the caller leaves out this is, or lies in."""
        return next((own for own in self.own if path == own or path.startswith(f"{own}/")), "")

    def _unreadable(self, path: str) -> str:
        """Why git cannot store this path; "" if it can."""
        place = self.root / path
        with contextlib.suppress(OSError):  # it was removed just now: git will notice that, too
            kind = stat.S_IFMT(place.lstat().st_mode)
            if kind == stat.S_IFREG and not os.access(place, os.R_OK, effective_ids=True):
                return "cannot be read"
            return "" if kind in (stat.S_IFREG, stat.S_IFLNK) else "neither a file nor a link"
        return ""

    def _size(self, path: str) -> int:
        with contextlib.suppress(OSError):
            return (self.root / path).lstat().st_size
        return 0


def _environment_of(path: str) -> str:
    """The virtual environment of which a file is the mark; "" if it is none."""
    return path.removesuffix("/pyvenv.cfg") if path.endswith("/pyvenv.cfg") else path.rpartition("/conda-meta/")[0]


def _before(difference: Difference) -> bytes:
    """An index entry as HEAD has it, in the format of `git update-index -z --index-info`."""
    mode = "0" if difference.mode_before == NOTHING else difference.mode_before
    return b"%s %s\t%s\0" % (mode.encode(), difference.blob_before.encode(), os.fsencode(difference.path))


def snapshot(
    checkout: Checkout,
    *,
    message: str,
    extra: Mapping[str, bytes] | None = None,
    leave_out: Iterable[Path] = (),
    parent: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Snapshot:
    """Commit what is on disk, with `extra` files, on `parent` (default HEAD).

    `extra` maps paths in the tree to content that must be there, even if ignored or left out. Raises GitFailed if the
    repository cannot be read or written, UsageError for an impossible path.
    """
    leave_out = tuple(leave_out)
    for attempt in range(1, ATTEMPTS + 1):
        with private_index(checkout) as git:
            found = _Surveyor(git, checkout.root, leave_out, max_bytes).survey()
            failpoint("repository.surveyed")
            try:
                _fill(git, found.take, extra or {})
            except GitFailed:
                if attempt == ATTEMPTS:
                    raise
                continue
            # git itself has just written or staged the blobs; checking each one would take a quarter of the time.
            tree = git.line("write-tree", "--missing-ok")
        failpoint("repository.tree")
        above = found.head if parent is None else parent
        commit = commit_tree(checkout.git, tree, above, message)
        failpoint("repository.commit")
        return Snapshot(tree, commit, above, found.left_out, found.dirty)
    raise AssertionError("unreachable")


def _fill(git: Git, take: Iterable[str], extra: Mapping[str, bytes]) -> None:
    """Read the files from disk into the private index, and put the extra ones there; blobs go into the repository."""
    names = {path: path_in_tree(path) for path in extra}
    read = b"".join(os.fsencode(path) + b"\0" for path in take if path not in names)
    git.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", feed=read)
    failpoint("repository.pinned")
    entries = []
    for path, content in extra.items():
        place = git.cwd / path
        mode = b"100755" if place.is_file() and os.access(place, os.X_OK) else b"100644"
        blob = git.line("hash-object", "-w", "--stdin", "--path", path, feed=content)
        entries.append(b"%s %s\t%s\0" % (mode, blob.encode(), names[path]))
    git.run("update-index", "-z", "--index-info", feed=b"".join(entries))
    failpoint("repository.filled")
