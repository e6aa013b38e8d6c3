"""Opens what training or an agent may have put into a directory that it can write: result directory, worktree.

There a name may be a link out of it, a FIFO that never answers, a device, a second name of somebody else's file, or
terabytes of zeros. So a file of ours is opened without following a link, from its directory's descriptor, with
O_NONBLOCK; only then it is looked at, and refused unless it is a plain file. New files have random names and O_EXCL.
The directory itself is trusted, with the links in its path: the user made it before the run.

A trainer's file may be reached by links (`wandb/latest-run`), but within `bounds` it must lie in one of their
directories, and be no larger than they say. A refusal is an OSError whose text is a sentence's end: "is a FIFO".
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.runner.basics import write_all

MOST = 1 << 26  # bytes of a file of ours
FOREIGN = ".foreign-"
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotPlainError(OSError):
    """What lies there is no plain file of its own, or lies where it must not; `strerror` says what it is."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EPERM, f"it is {what}", os.fspath(path))


@dataclass(slots=True)
class ReadBounds:
    """What may be read of a trainer's files, and what was refused."""

    roots: tuple[str, ...] = ()  # real directories; (): anywhere
    most: int | None = None  # bytes of one file
    refused: dict[str, None] = field(default_factory=dict)  # sentences, in order

    def refusal(self, status: os.stat_result, real: str) -> str:
        """What is wrong with an open file; "" if it may be read."""
        if what := _KINDS.get(stat.S_IFMT(status.st_mode), ""):
            return what
        if self.roots and not any(real == root or real.startswith(f"{root.rstrip('/')}/") for root in self.roots):
            return f"a link to {real}, where the run cannot have written it"
        if self.most is not None and status.st_size > self.most:
            return _too_large(self.most)
        return ""

    def refuse(self, path: Path, what: str) -> NotPlainError:
        """The error for a file that is not read; it is noted."""
        self.refused[f"{path} is not read: it is {what}"] = None
        return NotPlainError(path, what)


def _too_large(most: int) -> str:
    return f"larger than the {most >> 20} MiB that are read"


_BOUNDS: ContextVar[ReadBounds | None] = ContextVar("_BOUNDS", default=None)


@contextlib.contextmanager
def bounds(roots: Iterable[str] = (), most: int | None = None) -> Iterator[ReadBounds]:
    """Within it, `open_readable` refuses files that really lie outside of `roots`, or have more than `most` bytes."""
    found = ReadBounds(tuple(roots), most)
    token = _BOUNDS.set(found)
    try:
        yield found
    finally:
        _BOUNDS.reset(token)


def open_readable(path: Path) -> io.FileIO:
    """A trainer's file, opened for reading, links followed. NotPlainError if it is none, other OSError as usual.

    It is looked at before it is opened: to open a device or a FIFO may have effects, or wait.
    """
    seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        itself, limits = Path(f"/proc/self/fd/{seen}"), _BOUNDS.get() or ReadBounds()
        if what := limits.refusal(os.fstat(seen), str(itself.readlink())):
            raise limits.refuse(path, what)
        return io.FileIO(os.open(itself, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    finally:
        os.close(seen)


def is_readable(path: Path) -> bool:
    """Whether `open_readable` opens it: for what is read by a library of its own."""
    try:
        open_readable(path).close()
    except OSError:
        return False
    return True


def read_readable(path: Path, most: int = MOST) -> bytes:
    """A whole file that a user, an agent or a trainer named, as `open_readable` opens it.

    NotPlainError if it has more than `most` bytes, or is none, such as `/dev/zero` or a FIFO.
    """
    with open_readable(path) as file:
        if os.fstat(file.fileno()).st_size <= most:
            return file.read(most) or b""
    raise (_BOUNDS.get() or ReadBounds()).refuse(path, _too_large(most))


def open_own(path: Path, flags: int, *, root: Path | None = None) -> int:
    """A descriptor of a file of ours: no links below `root` (default: its directory), and one name only.

    Never pass O_TRUNC: it would cut a file before it is looked at. NotPlainError if it is something else.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if root is None:
            fd = os.open(path, flags, 0o644)
        else:
            with _parent(path, root) as directory:
                fd = os.open(path.name, flags, 0o644, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # link; socket, or FIFO to write; directory
            raise
        raise NotPlainError(path, _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "no plain file")) from None
    status = os.fstat(fd)
    what = _KINDS.get(stat.S_IFMT(status.st_mode), "")
    if not what and status.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        what = "another file's second name"
    if what:
        os.close(fd)
        raise NotPlainError(path, what)
    return fd


def read_own(path: Path, most: int = MOST, *, root: Path | None = None) -> bytes:
    """At most so many bytes of a file of ours; raises OSError as `open_own`."""
    fd, found = open_own(path, os.O_RDONLY, root=root), bytearray()
    try:
        while block := os.read(fd, min(most - len(found), 1 << 20)):
            found += block
    finally:
        os.close(fd)
    return bytes(found)


def files_below(directory: Path, most: int) -> list[tuple[Path, int]]:
    """The plain files below a directory, with their sizes; no links are followed, and so many names looked at."""
    found, todo = list[tuple[Path, int]](), [directory]
    while todo:
        here = todo.pop()
        with contextlib.suppress(OSError), _parent(here / "file", directory.parent) as fd, os.scandir(fd) as entries:
            for entry in entries:
                most -= 1
                if most < 0:
                    return found
                if entry.is_dir(follow_symlinks=False):
                    todo.append(here / entry.name)
                elif entry.is_file(follow_symlinks=False):
                    found.append((here / entry.name, entry.stat(follow_symlinks=False).st_size))
    return found


def read_plain(path: Path, most: int = MOST) -> bytes:
    """The same; b"" if it cannot be read, whatever the reason."""
    try:
        return read_own(path, most)
    except OSError:
        return b""


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Write to a new file beside `path`, fsync, rename; readers never see half a file, and no link is followed.

    `durable=False` skips the fsync, for files that have no use after a power failure.
    """
    temporary = f".{path.name[:200]}.{os.getpid()}.{os.urandom(8).hex()}.tmp"
    with _parent(path, None) as directory:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            try:
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise


@contextlib.contextmanager
def _parent(path: Path, root: Path | None) -> Iterator[int]:
    """A descriptor of a file's directory, reached from `root` one component at a time, without following links."""
    here = path.parent if root is None else root
    parts = path.parent.relative_to(here).parts
    if ".." in parts:
        raise NotPlainError(path, f"not below {here}")
    fd = os.open(here, _DIRECTORY)
    try:
        for part in parts:
            try:
                inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            except NotADirectoryError:
                raise NotPlainError(path, f"below {part}, which is a link or no directory") from None
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def lies_in(path: Path, root: Path) -> bool:
    """Whether a path, which may not exist yet, really is in `root`: no link leads out of it."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def clear(directory: Path, files: Iterable[str], directories: Iterable[str] = ()) -> None:
    """Rename what stands where our files and directories go but is none, see `foreign`. Raises OSError.

    Nothing that a link points to is touched, and no second name is written to.
    """
    for name, wanted in [*((name, stat.S_IFREG) for name in files), *((name, stat.S_IFDIR) for name in directories)]:
        path = directory / name
        if os.path.lexists(path) and (stat.S_IFMT(path.lstat().st_mode) != wanted or _is_second_name(path)):
            path.rename(path.with_name(f"{name}{FOREIGN}{os.urandom(4).hex()}"))


def unlock(directory: Path, names: Iterable[str]) -> list[str]:
    """Give us back a directory and files of ours that training has taken our permissions from; a sentence for each."""
    found = (path for path in (directory, *(directory / name for name in names)) if _gave_back(path))
    return [f"{path.name} had lost its permissions: they were given back" for path in found]


def _gave_back(path: Path) -> bool:
    try:
        seen = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        status = os.fstat(seen)
        wanted = {stat.S_IFDIR: 0o700, stat.S_IFREG: 0o600}.get(stat.S_IFMT(status.st_mode), 0)
        if status.st_uid != os.geteuid() or status.st_mode & wanted == wanted:
            return False
        Path(f"/proc/self/fd/{seen}").chmod(stat.S_IMODE(status.st_mode) | wanted)
        return True
    finally:
        os.close(seen)


def foreign(directory: Path, names: Iterable[str]) -> list[str]:
    """A sentence for everything that `clear` renamed."""
    found = renamed(directory, names)
    return [f"{path.name.partition(FOREIGN)[0]} was {_what(path)}: it is {path.name} now" for path in found]


def renamed(directory: Path, names: Iterable[str]) -> list[Path]:
    """What `clear` renamed."""
    return [path for name in names for path in sorted(directory.glob(f"{name}{FOREIGN}*"))]


def _what(path: Path) -> str:
    kind = _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "a file")
    return "another file's second name" if _is_second_name(path) else kind


def _is_second_name(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1
