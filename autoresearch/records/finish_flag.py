"""finish.flag: marks that a run is over, whatever happened; a full disk cannot prevent it.

Its existence has the meaning that the published skill promises; its content is one JSON object. Its disk space is
reserved before the launch, as `.finish.flag.reserve`; at the end, the reserve is filled and renamed.

A trainer may write the flag itself (AgentJet: `Training completed at 1737...`). Such a foreign flag is evidence, but
not autoresearch's verdict: it is replaced by a flag that quotes it under `foreign`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.records import index
from autoresearch.records.appending import sync_directory, unwritable
from autoresearch.records.hostile import clear, open_own
from autoresearch.records.rundir import write_all, write_atomically
from autoresearch.runner.masking import mask_values

NAME = "finish.flag"
RESERVE = ".finish.flag.reserve"
RESERVED_BYTES = 4096
REFUSED = "refused"  # used instead of an ending: the run was never started
READ_MAX = 1 << 16
FOREIGN_MAX = 500  # characters kept of a flag not written by autoresearch
TEXT_MAX = (1000, 400, 150)  # limits of characters per text in a flag; the first that fits the reserve is used


@dataclass(frozen=True, slots=True)
class Flag:
    """A finish.flag as found, written by autoresearch or not."""

    exists: bool
    content: Mapping[str, Any] = field(default_factory=dict)  # empty if it is foreign
    text: str = ""  # the file's text, at most 64 KiB
    written: float | None = None  # its mtime, wall clock

    @property
    def ours(self) -> bool:
        """Whether autoresearch wrote it."""
        return bool(self.content)

    @property
    def run(self) -> str:
        """The run it marks; "" if it is foreign."""
        return str(self.content.get("run", ""))

    @property
    def refused(self) -> bool:
        """Whether it marks a blueprint that could not be run."""
        return self.content.get("ending") == REFUSED


def read(path: Path) -> Flag:
    """Read a finish.flag. Never raises: it may be missing, empty, unreadable or foreign."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            data = file.read(READ_MAX)
            written = os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return Flag(exists=False)
    except OSError:
        return Flag(exists=os.path.lexists(path))
    text = data.decode("utf-8", "replace")
    return Flag(exists=True, content=_ours(text), text=text, written=written)


def _ours(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and {"schema", "run", "ending"} <= content.keys() else {}


def reserve(result_dir: Path) -> None:
    """Reserve the bytes that the flag will need, while the disk has space; EnvironmentUnusable if it has none."""
    path = result_dir / RESERVE
    try:
        result_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(path, b" " * RESERVED_BYTES)  # written, not only allocated: works on every file system
        sync_directory(result_dir)
    except OSError as error:
        raise unwritable(path, error) from error


def write(result_dir: Path, content: Mapping[str, Any]) -> None:
    """Mark a run as over; writing the same flag again changes nothing. EnvironmentUnusable if it cannot be written.

    `content` holds at least schema, run, ending. A flag of another run is moved aside first.
    """
    path = result_dir / NAME
    try:
        result_dir.mkdir(parents=True, exist_ok=True)
        clear(result_dir, (NAME, RESERVE), (index.DIRECTORY,))
        found = read(path)
        if found.ours and found.run != str(content["run"]):
            index.move(result_dir, [path], found.run)
            found = Flag(exists=False)
        elif (unfinished := index.unfinished(result_dir)).is_dir():
            index.move(result_dir, (), read(unfinished / NAME).run)  # continue an interrupted move
        data = _bytes(mask_values({**content, **_foreign(found)}))
        if found.text != data.decode():
            _put(result_dir, data)
        (result_dir / RESERVE).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def write_refusal(result_dir: Path, *, blueprint: str, reason: str, t: float) -> None:
    """Mark a result directory as finished because its blueprint could not be run. EnvironmentUnusable on failure."""
    nothing = {"run": "", "verdict": None, "returncode": None}
    write(result_dir, {"schema": 1, **nothing, "ending": REFUSED, "reason": reason, "blueprint": blueprint, "ended": t})


def _foreign(flag: Flag) -> dict[str, Any]:
    """The text of a foreign flag, even if autoresearch's flag has replaced it."""
    if flag.ours:
        return {"foreign": flag.content["foreign"]} if "foreign" in flag.content else {}
    if not flag.exists:
        return {}
    return {"foreign": {"text": flag.text[:FOREIGN_MAX], "written": flag.written}}


def _bytes(content: Mapping[str, Any]) -> bytes:
    data = b""
    for limit in TEXT_MAX:
        text = json.dumps(_bounded(content, limit), ensure_ascii=False, allow_nan=False, indent=1)
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        if len(data) <= RESERVED_BYTES:
            break
    return data


def _bounded(value: Any, limit: int) -> Any:
    """Fit values for a flag: non-finite numbers become None, texts are cut to `limit` characters."""
    if isinstance(value, Mapping):
        return {str(k): _bounded(v, limit) for k, v in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value[:limit] if isinstance(value, str) else value


def _put(result_dir: Path, data: bytes) -> None:
    """Write into the reserve and rename it; or atomically as usual if the reserve is missing or too small."""
    reserved = result_dir / RESERVE
    try:
        fd = open_own(reserved, os.O_WRONLY)
    except OSError:
        write_atomically(result_dir / NAME, data)
        return
    try:
        fits = len(data) <= os.fstat(fd).st_size
        if fits:
            write_all(fd, data)
            os.ftruncate(fd, len(data))
            os.fsync(fd)
    finally:
        os.close(fd)
    if not fits:
        write_atomically(result_dir / NAME, data)
        return
    reserved.rename(result_dir / NAME)
    sync_directory(result_dir)
