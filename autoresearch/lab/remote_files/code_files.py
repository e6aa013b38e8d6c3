"""The code of a run as it lies on this machine, file by file, to be reproduced on a remote host."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import export, files_of
from autoresearch.git_repo.snapshot import MAX_BYTES
from autoresearch.git_repo.worktrees import stays_here
from autoresearch.runner.remote_files import sha256 as sha256_of

NEVER = frozenset({".git", ".venv", "venv", "__pycache__"})  # at any depth, where git does not determine what is code


@dataclass(frozen=True, slots=True)
class CodeFile:
    """One file or link. kind: `f`, `x` (executable), `l`; content: its sha256, or the link's target."""

    path: str  # relative to the top of the tree
    kind: str
    content: str
    size: int
    source: Path

    def to_json(self) -> list[object]:
        """The form that `runner.remote_files` reads."""
        return [self.path, self.kind, self.content, self.size]


@dataclass(frozen=True, slots=True)
class CodeTree:
    """`root`: the local directory that this tree stands for. `texts`: files that are sent with another content."""

    root: Path
    entries: tuple[CodeFile, ...]
    texts: Mapping[str, bytes]

    def bytes_of(self, code_file: CodeFile) -> bytes:
        """The content to send for a file."""
        return self.texts[code_file.path] if code_file.path in self.texts else code_file.source.read_bytes()

    def packed(self, code_files: Collection[CodeFile]) -> bytes:
        """These entries as a tar archive; equal entries give equal bytes."""
        buffer = io.BytesIO()
        import tarfile  # takes milliseconds to import

        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in code_files:
                info = tarfile.TarInfo(entry.path)
                info.mode = 0o755 if entry.kind == "x" else 0o644
                if entry.kind == "l":
                    info.type, info.linkname = tarfile.SYMTYPE, entry.content
                    tar.addfile(info)
                    continue
                data = self.bytes_of(entry)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return buffer.getvalue()


def root_of(directory: Path) -> Path:
    """The directory that is sent along with a directory: the root of its repository, else itself."""
    checkout = repository.find(directory)
    return checkout.root if checkout else Path(os.path.realpath(directory))


@contextlib.contextmanager
def code_of(spec: RunSpec, texts: Mapping[str, bytes], leave_out: Collection[Path]) -> Iterator[CodeTree]:
    """The code that the run's branch holds; without a branch, the files of its codebase that one would hold.

    texts: path relative to the root -> content to send instead. leave_out: results and records.
    """
    cwd = Path(spec.cwd)
    checkout = repository.find(cwd)
    root = root_of(cwd)
    if checkout is None:
        yield CodeTree(root, tuple(_walked(root, leave_out, texts)), texts)
    elif is_slot(root):
        yield CodeTree(root, tuple(_walked(root, leave_out, texts, tidy=True, stays=stays_here(root))), texts)
    elif spec.commit:
        with tempfile.TemporaryDirectory(prefix="autoresearch-export-") as place:
            top = Path(place) / "tree"
            export(checkout, spec.commit, top)
            yield CodeTree(root, tuple(_walked(top, (), texts, tidy=True)), texts)
    else:
        yield CodeTree(root, tuple(_listed(checkout, cwd, leave_out, texts)), texts)


def is_slot(root: Path) -> bool:
    """Whether a directory is one of autoresearch's worktrees, which holds its commit and nothing else."""
    return root.with_name(root.name + ".slot").exists()


def worktree(root: Path) -> CodeTree:
    """All files of one of autoresearch's worktrees that go to other hosts."""
    return CodeTree(root, tuple(_walked(root, (), {}, tidy=True, stays=stays_here(root))), {})


def _walked(
    top: Path,
    leave_out: Collection[Path],
    texts: Mapping[str, bytes],
    *,
    tidy: bool = False,
    stays: Collection[str] = (),
) -> Iterator[CodeFile]:
    """Everything below a directory but what `stays`; `tidy`: it holds nothing but code."""
    left = {os.path.realpath(path) for path in leave_out}
    for folder, names, files in os.walk(top):
        names[:] = sorted(n for n in names if n != ".git" and (tidy or n not in NEVER))
        names[:] = [n for n in names if os.path.realpath(f"{folder}/{n}") not in left]
        names[:] = [n for n in names if os.path.relpath(f"{folder}/{n}", top) not in stays]
        for name in [n for n in names if Path(folder, n).is_symlink()] + sorted(files):
            path = Path(folder) / name
            if os.path.relpath(path, top) in stays:
                continue
            if name != ".git" and (tidy or path.is_symlink() or path.stat().st_size <= MAX_BYTES):
                yield from _entries(path, os.path.relpath(path, top), texts)


def _listed(
    checkout: Checkout, directory: Path, leave_out: Collection[Path], texts: Mapping[str, bytes]
) -> Iterator[CodeFile]:
    left = [os.path.realpath(path) for path in leave_out]
    for name in map(os.fsdecode, files_of(checkout, directory)):
        path = checkout.root / name
        if any(str(path).startswith(f"{one}/") for one in left) or not os.path.lexists(path) or path.is_dir():
            continue
        if path.is_symlink() or path.stat().st_size <= MAX_BYTES:
            yield from _entries(path, name, texts)


def _entries(path: Path, relative: str, texts: Mapping[str, bytes]) -> Iterator[CodeFile]:
    """A file, a link, or the files behind a worktree's link to an include (files that no commit holds)."""
    if path.is_symlink():
        target = str(path.readlink())
        if not (target.startswith("/") and target.endswith("/" + relative)):
            yield CodeFile(relative, "l", target, 0, path)
            return
        if path.is_dir():
            for one in _walked(Path(target), (), {}, tidy=True):
                yield CodeFile(f"{relative}/{one.path}", one.kind, one.content, one.size, one.source)
            return
    if not path.is_file():
        return  # a socket, a pipe, a removed include
    kind = "x" if os.access(path, os.X_OK) else "f"
    text = texts.get(relative)
    if text is not None:
        yield CodeFile(relative, kind, sha256(text).hexdigest(), len(text), path)
    else:
        yield CodeFile(relative, kind, sha256_of(str(path)), path.stat().st_size, path)
