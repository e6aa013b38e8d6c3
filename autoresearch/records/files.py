"""How files of ours are read and written: whole, locked, appended to by several writers, with secrets masked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.hostile import open_own, open_readable, read_plain, write_atomically
from autoresearch.runner.basics import take_lock
from autoresearch.runner.masking import MASK, clean_text, mask_text, mask_values

LOOKED_AT_S = 0.5  # `is_locked` holds a lock more briefly than this; a longer hold is a real owner
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
BLOCK = 1 << 18


def unwritable(path: Path, error: OSError) -> EnvironmentUnusable:
    """The error for a file that cannot be written, with a hint what to do: `disk_full`, `no_locks` or `unwritable`."""
    if error.errno in NO_LOCKS:
        return EnvironmentUnusable(
            f"{path} cannot be locked: {error.strerror}; its file system has no locks, as some NFS mounts",
            hint="without them two commands could start the same run: put the project on another disk, or mount this "
            "one with locks (NFS: `-o local_lock=flock`)",
            code="no_locks",
        )
    if error.errno in FULL:
        return EnvironmentUnusable(
            f"{path} cannot be written: {error.strerror}",
            hint="free some space and repeat the command; nothing that was recorded is lost",
            fix=f"df -h {path.parent}",
            code="disk_full",
        )
    return EnvironmentUnusable(
        f"{path} cannot be written: {error.strerror}",
        hint="make it writable for this user, or record somewhere else",
        code="unwritable",
    )


def unreadable(path: Path, error: OSError) -> EnvironmentUnusable:
    """The error for a file that is there and cannot be read: it is no one's fault but the machine's."""
    hint = "make it readable for this user"
    return EnvironmentUnusable(f"{path} cannot be read: {error.strerror}", hint=hint, code="unreadable")


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if the file is missing or incomplete."""
    try:
        value = json.loads(read_plain(path))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[int | None]:
    """Open a file for reading: its descriptor, None if there is no such file; EnvironmentUnusable if unreadable."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        yield fd
    except (FileNotFoundError, NotADirectoryError):
        yield None
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        if fd >= 0:
            os.close(fd)


def lines_from(fd: int, start: int = 0, needle: bytes = b"") -> Iterator[bytes]:
    """Yield every line from byte `start` on, with its newline; the last one may be incomplete.

    needle: blocks of lines without it are left out, which is far faster than to ask each line.
    """
    offset, rest = start, b""
    while block := os.pread(fd, BLOCK, offset):
        offset += len(block)
        whole, newline, rest = (rest + block).rpartition(b"\n")
        for line in whole.split(b"\n") if newline and needle in whole else ():
            yield line + b"\n"
    if rest:
        yield rest


def tail(path: Path, limit: int) -> bytes:
    """The last bytes of a file, from the start of a line; empty where it cannot be read."""
    try:
        with open_readable(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            data = file.read(limit) or b""
    except OSError:
        return b""
    return data if size <= limit else data[data.find(b"\n") + 1 :]


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True, executed: bool = False) -> None:
    """Write a JSON object atomically, with secrets masked. Raises ValueError for NaN, which JSON does not have.

    `executed`: a program executes the content, so it is written unmasked, with mode 0600.
    """
    shown = value if executed else mask_values(dict(value))
    text = json.dumps(shown, allow_nan=False, ensure_ascii=False, indent=1)
    mode = 0o600 if executed else 0o644
    # a path that is not UTF-8 holds lone surrogates; \udcXX is how JSON spells them
    write_atomically(path, text.encode("utf-8", "backslashreplace") + b"\n", mode=mode, durable=durable)


def write_environment(path: Path, environ: Mapping[str, str]) -> None:
    """Hand an environment over to the program that will read and remove the file: NAME=value, separated by NUL."""
    data = b"\0".join(f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in environ.items())
    write_atomically(path, data, mode=0o600, durable=False)


def write_page(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a text document atomically, with secrets masked."""
    write_atomically(path, clean_text(text).encode("utf-8", "backslashreplace"), durable=durable)


def masked_file(data: bytes, *, yaml: bool = False) -> bytes:
    """The content of a user's file with secrets masked; unchanged bytes if it contains none."""
    text = data.decode("utf-8", "surrogateescape")
    masked = mask_text(text)
    if yaml:  # quote the mask: a bare *** would be a YAML alias
        masked = re.sub(rf"(?<=[:\s]){re.escape(MASK)}(?=\s|$)", f'"{MASK}"', masked)
    return data if masked == text else masked.encode("utf-8", "surrogateescape")


def make_directory(path: Path) -> None:
    """Create a directory and its parents. Raises EnvironmentUnusable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def sync_directory(path: Path) -> None:
    """fsync a directory, to make new names in it durable; ignored on file systems that do not support it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def append_line(path: Path, line: bytes, *, durable: bool = True) -> None:
    """Add `line` (which ends in a newline) by one O_APPEND write. Raises EnvironmentUnusable.

    No lock is needed: on a local file system one write is atomic. If a killed writer left half a line, this one
    starts on a new line, so that readers lose only the half.
    """
    try:
        fd = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            data = b"\n" + line if _is_torn(fd) else line
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise unwritable(path, error) from error


def _is_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def json_line(record: Mapping[str, Any], *, executed: Container[str] = ()) -> bytes:
    """A record as a line of JSON: non-finite numbers become null, secrets are masked except in `executed` entries."""
    text = json.dumps(mask_values(finite(record), executed), ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def finite(value: Any) -> Any:
    """The value as JSON can hold it: null for each non-finite number, text for a path."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return str(value) if isinstance(value, Path) else value


@contextlib.contextmanager
def locked(path: Path, *, blocking: bool = True) -> Iterator[bool]:
    """Hold the flock of a file; yields False if it is held elsewhere and blocking is off.

    Raises EnvironmentUnusable where the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if blocking:
            hold_lock(fd, path)
        yield blocking or take_lock(fd, fcntl.LOCK_EX, LOOKED_AT_S)
    finally:
        os.close(fd)


def hold_lock(fd: int, path: Path) -> None:
    """Wait for the flock of an open file. Raises EnvironmentUnusable where the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        raise unwritable(path, error) from error
