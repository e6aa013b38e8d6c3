"""What is asked about far directories, answered where they are: by a copy of this file on another host, or in process.

Standard library only, Python 3.9. Nothing here decides anything about a run.
"""

from __future__ import annotations

import os

from .basics import is_locked, parse_object, read_file, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

PIECE = 1 << 20  # bytes of one file in one answer
GROWING = ("run.log", "events.jsonl", "journal.md", "evaluation.log")
CLAIMS = ("claim", "runner.json")  # either says that a Runner was started there


def look(directory: str, offsets: Mapping[str, int]) -> dict[str, Any]:
    """What lies in a far directory; the keys are those of `core.run.job_launcher.DirectoryState`."""
    if not _is_there(directory):
        return {"there": False}
    grown, more = {}, False
    record = parse_object(read_file(f"{directory}/exit.json"))  # before the files: what is read then is all of them
    for name in (*GROWING, *(name for name in offsets if name.startswith("/"))):  # or a file anywhere there
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
    """Opened, not only asked about: on NFS that has the kernel ask the server what is new in it (close-to-open; see
    nfs_lookup_verify_inode in Linux' fs/nfs/dir.c). Else a file that was missed once is not seen for up to a minute."""
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return os.path.isdir(directory)
    return True


def read_from(path: str, offset: int, most: int) -> bytes:
    """A piece of a file; b"" where there is nothing (yet)."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(most)
    except OSError:
        return b""


def put(directory: str, files: Mapping[str, bytes], private: Collection[str] = ()) -> None:
    """Write files, each whole or not at all; a name may hold slashes. Raises OSError."""
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
