"""Commits exactly the code that runs, without touching the user's checkout.

HEAD with staged, changed, deleted and untracked (not ignored) files goes into a private index, from there into
a tree and a commit. The user's index, HEAD, branch, stash and reflogs stay byte for byte as they are; only objects
are added, which nothing refers to until a branch is claimed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from pathlib import Path

from autoresearch.core.run.spec import SUBMODULE_EDITS
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout, locate, private_index
from autoresearch.git_repo.commits import commit_tree
from autoresearch.git_repo.git import LFS_FILES, LIST, Git, GitFailed, directory_locked, path_in_tree, text
from autoresearch.records.appending import FULL, unwritable
from autoresearch.records.hostile import read_readable
from autoresearch.records.rundir import write_atomically
from autoresearch.runner.basics import failpoint

# What differs from HEAD in a checkout, and which of it a snapshot takes or leaves out. Writes nothing.
#
# One `git status` reports nearly everything. `git ls-files -v` runs in parallel, to find files that the user told git
# to overlook (assume-unchanged, skip-worktree), because runs use the files on disk all the same.
# Output format: git-status(1), "Porcelain Format Version 2", NUL separated.
#
# Names alone decide what is a secret or a checkpoint; no file is opened. A file left out wrongly makes the commit
# differ from the code that ran; one taken wrongly may publish a key. Hence secrets are matched broadly, except for
# names of source code, and weights narrowly: by the directory names that trainers use and by suffixes used for nothing
# else.

MAX_BYTES = 50 * 2**20  # a larger untracked file is taken for data
BUDGET_BYTES = 2**30  # of untracked files in all: a data set that is not ignored must not be copied into .git
BLOCK_BYTES = 4096  # disk space of the smallest object
CROWD = 20  # more files left out of one directory for the same reason are reported as one entry

OWN = "results and records"
NESTED = "a git repository of its own"
SECRET = "secret file"
CHECKPOINT = "checkpoint"
VENV = "virtual environment"
LFS = "of Git LFS, which is not installed"

STATUS = (
    *("status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--no-renames"),
    *("--untracked-files=normal", "--ignore-submodules=none"),
)
_HIDDEN = later(rb"\0[a-zS] ([^\0]*)")  # of `ls-files -v`; H is an ordinary entry
_ABSENT, _GITLINK = b"000000", b"160000"
_VENV_PARTS = frozenset({b"bin", b"include", b"lib", b"lib64", b"share"})

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
class Pin:
    """An index entry to set without reading the file; mode "0" removes the entry."""

    mode: str
    oid: str
    path: bytes

    @property
    def line(self) -> bytes:
        """The entry in the input format of `git update-index -z --index-info`."""
        return b"%s %s 0\t%s\0" % (self.mode.encode(), self.oid.encode(), self.path)


@dataclass(frozen=True, slots=True)
class Survey:
    """The differences from HEAD, classified by what to do. Paths in bytes are git's, relative to the root."""

    head: str  # commit; "" if there is none
    take: tuple[bytes, ...]  # to be read from disk
    pins: tuple[Pin, ...]  # to be set or removed in the index
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths in which the snapshot will differ from HEAD, sorted


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What the caller excludes: directories or files, relative to the root, and larger untracked files."""

    paths: tuple[bytes, ...]
    max_bytes: int

    @classmethod
    def of(cls, checkout: Checkout, leave_out: Iterable[Path], max_bytes: int) -> Exclusions:
        """The caller's exclusions as git paths; paths outside the checkout, or containing it, are ignored."""
        root = os.fsencode(checkout.root)
        real = (os.fsencode(os.path.realpath(path)) for path in leave_out)
        return cls(tuple(path[len(root) + 1 :] for path in real if path.startswith(root + b"/")), max_bytes)

    def holds(self, path: bytes) -> bool:
        """Whether `path` is one of the excluded paths, or inside one."""
        return any(path == own or path.startswith(own + b"/") for own in self.paths)


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    """One changed entry; `change` is XY (HEAD to index, index to disk), `sub` is N... or S<commit><M><U>."""

    change: bytes
    sub: bytes
    head_mode: bytes
    index_mode: bytes
    work_mode: bytes
    head_oid: bytes
    path: bytes

    @classmethod
    def parse(cls, record: bytes) -> _ChangedFile:
        """Parse `1 XY sub mH mI mW hH hI path`, or unmerged `u XY sub m1 m2 m3 mW h1 h2 h3 path`, where 2 is HEAD."""
        if record.startswith(b"1 "):
            _, change, sub, head, index, work, oid, _, path = record.split(b" ", 8)
            return cls(change, sub, head, index, work, oid, path)
        _, change, sub, _, head, _, work, _, oid, _, path = record.split(b" ", 10)
        return cls(change, sub, head, head, work, oid, path)

    @property
    def on_disk(self) -> bool:
        """Whether the file on disk differs from the index; otherwise the index already holds the change."""
        return not self.change.endswith(b".")


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
        return look(git, Exclusions.of(checkout, leave_out, max_bytes))


def look(git: Git, own: Exclusions) -> Survey:
    """Run `git status` (on a private index), then classify path by path. Raises GitFailed."""
    return _Classifier(git, own).survey()


class _Classifier:
    """Collects the parts of a Survey."""

    def __init__(self, git: Git, own: Exclusions) -> None:
        self.git = git
        self.own = own
        self.root = os.fsencode(git.cwd) + b"/"
        self.take: list[bytes] = []
        self.pins: list[Pin] = []
        self.left_out: list[LeftOut] = []
        self.settled: list[bytes] = []  # differs from HEAD without being read from disk

    def survey(self) -> Survey:
        """The finished Survey."""
        head, untracked = "", []
        for record in self._status().split(b"\0"):
            if record.startswith(b"# branch.oid "):
                oid = record.rpartition(b" ")[2].decode()
                head = "" if oid == "(initial)" else oid
            elif record.startswith((b"1 ", b"u ")):
                entry = _ChangedFile.parse(record)
                self._tracked(entry)
                if entry.work_mode == _ABSENT and entry.on_disk and self._is_directory(entry.path):
                    untracked.append(entry.path + b"/")  # git status does not report a directory that replaced a file
            elif record.startswith(b"? "):
                untracked.append(record[2:])
        self._untracked(list(self._expanded(untracked)))
        dirty = tuple(sorted({text(path) for path in (*self.take, *self.settled)}))
        return Survey(head, tuple(self.take), tuple(self.pins), _crowds_as_one(self.left_out), dirty)

    @cached_property
    def lfs_files(self) -> frozenset[bytes]:
        """The files that Git LFS would make pointers of, where it is not installed."""
        import shutil

        missing = shutil.which("git-lfs") is None
        return frozenset(self.git.run("ls-files", "-z", "--", LFS_FILES).split(b"\0") if missing else ())

    def _leave(self, path: bytes, reason: str, size: int = 0) -> None:
        self.left_out.append(LeftOut(text(path), reason, size))

    def _status(self) -> bytes:
        """Output of `git status`, including files that git was told to overlook."""
        answer = self.git.run(*STATUS)
        listed = b"\0" + self.git.run(*LIST, "-v")
        if listed.count(b"\0H ") == listed.count(b"\0") - 1:  # ten times faster than the regex
            return answer
        hidden = [path for path in _HIDDEN.findall(listed) if os.path.lexists(self.root + path)]
        if not hidden:
            return answer
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            self.git.run("update-index", "-z", flag, "--stdin", feed=b"\0".join(hidden))
        return self.git.run(*STATUS)

    def _is_directory(self, path: bytes) -> bool:
        place = self.root + path
        return os.path.realpath(place) == place and Path(os.fsdecode(place)).is_dir()

    def _tracked(self, changed_file: _ChangedFile) -> None:
        """Classify a changed entry of the index: take the file, pin HEAD's version, or note that it was removed."""
        path, head_oid = changed_file.path, changed_file.head_oid.decode()
        removal = Pin("0", "0" * len(head_oid), path)
        reason = OWN if self.own.holds(path) else SECRET if is_secret(text(path)) else ""
        if not reason and changed_file.on_disk and path in self.lfs_files:
            reason = LFS
        if changed_file.work_mode == _ABSENT:
            self.settled.append(path)
            if changed_file.on_disk:
                self.pins.append(removal)
        elif reason and changed_file.head_mode == _ABSENT:
            self.pins.append(removal)
            self._leave(path, reason)
        elif reason:
            self.pins.append(Pin(changed_file.head_mode.decode(), head_oid, path))
            self._leave(path, reason + "; the commit keeps the version of HEAD")
        else:
            self._allowed(changed_file)

    def _allowed(self, changed_file: _ChangedFile) -> None:
        """Classify a tracked path that exists and may be taken."""
        path = changed_file.path
        if changed_file.work_mode == _GITLINK != changed_file.index_mode:  # a repository replaced a file
            self._leave(path + b"/", NESTED)
        elif b"M" in changed_file.sub or b"U" in changed_file.sub:
            self._leave(path + b"/", SUBMODULE_EDITS)
            if changed_file.change == b".M" and b"C" not in changed_file.sub:
                return
        if not changed_file.on_disk:
            self.settled.append(path)
        elif self._size(path) is not None:
            self.take.append(path)

    def _size(self, path: bytes) -> int | None:
        """Bytes of a file, link or submodule that git can store; None for anything else, which is left out."""
        place = self.root + path
        try:
            status = os.lstat(place)
        except OSError:
            return 0  # it was removed just now; git will notice that, too
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG and not os.access(place, os.R_OK, effective_ids=True):
            self._leave(path, "cannot be read", status.st_size)
        elif kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            self._leave(path, "neither a file nor a link")
        else:
            return status.st_size
        return None

    def _expanded(self, untracked: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the untracked files, expanding directories except those that are left out as a whole."""
        above: dict[bytes, str] = {b"": "named already"}  # directory -> why it is left out as a whole; "" if it is not
        inside: list[str] = []
        for path in untracked:
            directory = path.removesuffix(b"/")
            if directory == path:
                yield path
                continue
            above[directory] = self._whole(directory)
            if above[directory]:
                self._leave(path, above[directory])
            else:
                inside.append(os.fsdecode(path))
        if not inside:
            return
        places = inside if sum(map(len, inside)) < 100_000 else []  # limit of a command line: then list all
        listed = self.git.run(*LIST, "-o", "--exclude-standard", "--", *places)
        for path in filter(None, listed.split(b"\0")):
            bare = path.removesuffix(b"/")
            if bare not in above and self._pruned(bare.rpartition(b"/")[0], above):
                continue
            if bare == path:
                yield path
            else:  # git never enters another repository
                self._leave(path, NESTED)

    def _pruned(self, directory: bytes, above: dict[bytes, str]) -> str:
        """Why `directory`, or one above it, is left out as a whole, recorded once; "" if it is not."""
        if directory not in above:
            above[directory] = self._pruned(directory.rpartition(b"/")[0], above)
            if not above[directory] and (reason := self._whole(directory)):
                above[directory] = reason
                self._leave(directory + b"/", reason)
        return above[directory]

    def _whole(self, directory: bytes) -> str:
        """Why an untracked directory is left out as a whole; "" if it is not."""
        if self.own.holds(directory):
            return OWN
        place = self.root + directory
        parent, _, name = place.rpartition(b"/")
        marks = [place + b"/pyvenv.cfg", place + b"/conda-meta"]
        if name in _VENV_PARTS:  # the virtual environment may have been created in a directory with code
            marks.append(parent + b"/pyvenv.cfg")
        return VENV if any(map(os.path.lexists, marks)) else ""

    def _untracked(self, paths: Sequence[bytes]) -> None:
        """Take the untracked files that are neither secrets, weights nor data (by size); leave the others out."""
        code: list[tuple[int, bytes]] = []
        for path in paths:
            size = self._size(path)
            if size is None:
                continue
            if reason := self._unwanted(path, size):
                self._leave(path, reason, size)
            else:
                code.append((size, path))
        left = BUDGET_BYTES
        for size, path in sorted(code):  # smallest first: they are most likely code
            left -= max(size, BLOCK_BYTES)
            if left >= 0:
                self.take.append(path)
            else:
                self._leave(path, f"untracked files over {BUDGET_BYTES / 2**30:.0f} GB in all", size)

    def _unwanted(self, path: bytes, size: int) -> str:
        if self.own.holds(path):
            return OWN
        if is_secret(text(path)):
            return SECRET
        if is_checkpoint(text(path)):
            return CHECKPOINT
        most = self.own.max_bytes
        return f"untracked and larger than {most / 2**20:.0f} MB" if size > most else ""


def _crowds_as_one(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Merge the entries of a directory into one where a reason leaves out more than CROWD of its files."""
    groups = Counter((left.path.rpartition("/")[0], left.reason) for left in left_out)
    merged: dict[tuple[str, str], LeftOut] = {}
    for left in left_out:
        group = (left.path.rpartition("/")[0], left.reason)
        if groups[group] <= CROWD or left.path.endswith("/"):
            merged[left.path, left.reason] = left
        else:
            size = left.size + (merged[group].size if group in merged else 0)
            merged[group] = LeftOut(f"{group[0] or '.'}/", f"{left.reason} ({groups[group]} files)", size)
    return tuple(merged.values())


ATTEMPTS = 3  # files may change during the survey
_SPECIAL = later(rb"([\\*?\[\]!# ])")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The created commit; `parent` is "" in a repository without a commit."""

    tree: str
    commit: str
    parent: str
    left_out: tuple[LeftOut, ...]
    dirty: tuple[str, ...]  # paths that differ from HEAD


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

    `extra` maps paths in the tree to content that must be there, even if ignored or left out; a file that the
    snapshot takes anyway with this content is stored as usual (filters, mode). Raises GitFailed if the repository
    cannot be read or written, UsageError for an impossible path.
    """
    own = Exclusions.of(checkout, leave_out, max_bytes)
    for attempt in range(1, ATTEMPTS + 1):
        with private_index(checkout) as git:
            found = look(git, own)
            failpoint("repository.surveyed")
            try:
                _fill(git, found, _missing(git, found, extra or {}))
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


def begin_repository(root: Path) -> tuple[str, tuple[LeftOut, ...]]:
    """`git init` in a directory, with a commit of what is there; returns the commit, and what it does not hold."""
    Git(root).run("init", "-q")
    checkout = locate(root)
    if not isinstance(checkout, Checkout):
        raise EnvironmentUnusable(f"git init made no repository in {root}: {checkout.reason}")
    shot = snapshot(checkout, message="start")
    checkout.git.run("update-ref", "HEAD", shot.commit, "")
    checkout.git.run("read-tree", "HEAD")
    checkout.git.run("update-index", "-q", "--refresh")
    return shot.commit, shot.left_out


def _fill(git: Git, survey: Survey, extra: Mapping[bytes, bytes]) -> None:
    """Update the private index to the files on disk; blobs are written to the repository."""
    pins = list(survey.pins)
    for path, content in extra.items():
        oid = git.line("hash-object", "-w", "--stdin", feed=content)
        pins.append(Pin("100644", oid, path))
    if pins:
        # Removals first, and without checking the disk: a tracked directory may have become a link.
        lines = sorted(pins, key=lambda pin: pin.mode != "0")
        git.run("update-index", "-z", "--index-info", feed=b"".join(pin.line for pin in lines))
    failpoint("repository.pinned")
    take = [path for path in survey.take if path not in extra]
    if take:
        command = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        git.run(*command, feed=b"\0".join(take))
    failpoint("repository.filled")


def _missing(git: Git, survey: Survey, extra: Mapping[str, bytes]) -> dict[bytes, bytes]:
    """The extra files that the tree would not contain, or not with this content."""
    missing = {path_in_tree(path): content for path, content in extra.items()}
    same = {path for path, content in missing.items() if _on_disk(git, path) == content}
    tracked = same.difference(survey.take)
    if tracked:
        names = map(os.fsdecode, tracked)
        tracked.intersection_update(git.run(*LIST, "--", *names).split(b"\0"))
    covered = (tracked | same.intersection(survey.take)).difference(pin.path for pin in survey.pins)
    return {path: content for path, content in missing.items() if path not in covered}


def _on_disk(git: Git, path: bytes) -> bytes | None:
    place = Path(os.fsdecode(os.fsencode(git.cwd) + b"/" + path))
    try:
        return None if place.is_symlink() else read_readable(place)
    except OSError:
        return None


def exclude(checkout: Checkout, pattern: str) -> None:
    """Hide what a gitignore(5) pattern matches from `git status`, in .git/info/exclude, whose content is kept.

    Safe against concurrent processes; all worktrees of the repository share the file.
    Raises EnvironmentUnusable if it cannot be written.
    """
    path = Path(os.path.realpath(checkout.common_dir / "info" / "exclude"))  # may be a link into the user's dotfiles
    line = pattern.encode("utf-8", "surrogateescape")
    try:
        path.parent.mkdir(exist_ok=True)
        with directory_locked(path.parent):
            before = path.read_bytes() if path.exists() else b""
            if line in before.split(b"\n"):
                return
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            gap = b"" if before.endswith(b"\n") or not before else b"\n"
            write_atomically(path, before + gap + line + b"\n", mode=mode)
    except OSError as error:
        if error.errno in FULL:
            raise unwritable(path, error) from error
        raise EnvironmentUnusable(
            f"{path} cannot be written: {error.strerror}",
            hint=f"add {pattern} to .gitignore",
            code="no_exclude",
        ) from error


def pattern_for(checkout: Checkout, path: Path) -> str:
    """The pattern that matches exactly this path of the checkout; "" if it lies outside or is the root."""
    root, real = os.fsencode(checkout.root), os.fsencode(os.path.realpath(path))
    if not real.startswith(root + b"/"):
        return ""
    escaped = _SPECIAL.sub(rb"\\\1", real[len(root) :])
    return os.fsdecode(escaped.replace(b"\n", b"?"))  # a pattern is one line; ? is any character
