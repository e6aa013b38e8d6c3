"""Appends whole lines to files with concurrent writers; locks files; says why a file cannot be written."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records.hostile import open_own
from autoresearch.runner.masking import mask_values

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


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


def _is_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def hold_lock(fd: int, path: Path) -> None:
    """Wait for the flock of an open file. Raises EnvironmentUnusable where the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        raise unwritable(path, error) from error


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
