"""Requests about run directories, executed on their host: by a copy of this file on a remote host, or in process.

Standard library only, Python 3.9. Nothing here makes decisions about a run.
"""

from __future__ import annotations

import os

from .basics import is_locked, parse_object, read_file, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

PIECE = 1 << 20  # bytes of one file per answer
GROWING = ("run.log", "events.jsonl", "journal.md", "evaluation.log")
CLAIMS = ("claim", "runner.json")  # either shows that a Runner was started in the directory


def look(directory: str, offsets: Mapping[str, int]) -> dict[str, Any]:
    """State of a run directory on this host, and what its files grew by since `offsets` (bytes by file name).

    The keys are those of `core.run.job_launcher.DirectoryState`.
    """
    if not _is_there(directory):
        return {"there": False}
    grown, more = {}, False
    record = parse_object(read_file(f"{directory}/exit.json"))  # first: once it exists, the other files are complete
    for name in (*GROWING, *(name for name in offsets if name.startswith("/"))):  # or any file, by absolute path
        if name not in offsets:
            continue
        piece = read_from(name if name.startswith("/") else f"{directory}/{name}", offsets[name], PIECE)
        more = more or len(piece) == PIECE
        if piece:
            grown[name] = piece
    return {
        "there": True,
        "claimed": any(os.path.exists(f"{directory}/{name}") for name in CLAIMS),
        "alive": is_locked(f"{directory}/lock"),
        "beat": _mtime(f"{directory}/lock"),
        "runner": parse_object(read_file(f"{directory}/runner.json")),
        "exit": record,
        "evaluating": os.path.exists(f"{directory}/evaluation.log"),
        "grown": grown,
        "more": more,
    }


def _is_there(directory: str) -> bool:
    """Open the directory instead of only calling stat: on NFS, open makes the kernel revalidate it with the server
    (close-to-open; see nfs_lookup_verify_inode in Linux' fs/nfs/dir.c). Otherwise a file that did not exist at the
    first look may stay invisible for up to a minute."""
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return os.path.isdir(directory)
    return True


def read_from(path: str, offset: int, most: int) -> bytes:
    """At most `most` bytes of a file from `offset` on; b"" if there are none (yet)."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(most)
    except OSError:
        return b""


def put(directory: str, files: Mapping[str, bytes], private: Collection[str] = ()) -> None:
    """Write files, each atomically; names may contain slashes, and `private` ones get mode 0600. Raises OSError."""
    for name, data in files.items():
        path = f"{directory}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}.tmp"
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600 if name in private else 0o644
        )
        try:
            write_all(fd, data)
            os.fsync(fd)
        except OSError:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        os.rename(temporary, path)


def _mtime(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
