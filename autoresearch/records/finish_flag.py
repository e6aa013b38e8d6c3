"""finish.flag: marks that a run is over, whatever happened.

Its existence has the meaning that the published skill promises; its content is one JSON object. A trainer may write the
flag itself (AgentJet: `Training completed at 1737...`): that is not autoresearch's verdict, and ours replaces it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.records import index
from autoresearch.records.appending import finite, sync_directory, unwritable
from autoresearch.records.hostile import clear, open_own
from autoresearch.records.rundir import write_json

NAME = "finish.flag"
REFUSED = "refused"  # used instead of an ending: the run was never started
READ_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Flag:
    """A finish.flag as found, written by autoresearch or not."""

    exists: bool
    content: Mapping[str, Any] = field(default_factory=dict)  # empty if a trainer wrote it

    @property
    def run(self) -> str:
        """The run it marks; "" if a trainer wrote it."""
        return str(self.content.get("run", ""))

    @property
    def refused(self) -> bool:
        """Whether it marks a blueprint that could not be run."""
        return self.content.get("ending") == REFUSED


def read(path: Path) -> Flag:
    """Read a finish.flag. Never raises: it may be missing, empty, unreadable or a trainer's."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            content = json.loads(file.read(READ_MAX))
    except FileNotFoundError:
        return Flag(exists=False)
    except (OSError, ValueError, RecursionError):
        return Flag(exists=os.path.lexists(path))
    ours = isinstance(content, dict) and {"schema", "run", "ending"} <= content.keys()
    return Flag(exists=True, content=content if ours else {})


def write(result_dir: Path, content: Mapping[str, Any]) -> None:
    """Mark a run as over; writing the same flag again changes nothing. EnvironmentUnusable if it cannot be written.

    `content` holds at least schema, run, ending. A flag of another run is moved aside first.
    """
    path = result_dir / NAME
    try:
        result_dir.mkdir(parents=True, exist_ok=True)
        clear(result_dir, (NAME,), (index.DIRECTORY,))
        found = read(path)
        if found.content and found.run != str(content["run"]):
            index.move(result_dir, [path], found.run)
        elif (unfinished := index.unfinished(result_dir)).is_dir():
            index.move(result_dir, (), read(unfinished / NAME).run)  # continue an interrupted move
        write_json(path, finite(content))
        sync_directory(result_dir)
    except OSError as error:
        raise unwritable(path, error) from error


def write_refusal(result_dir: Path, *, blueprint: str, reason: str, t: float) -> None:
    """Mark a result directory as finished because its blueprint could not be run. EnvironmentUnusable on failure."""
    nothing = {"run": "", "verdict": None, "returncode": None}
    write(result_dir, {"schema": 1, **nothing, "ending": REFUSED, "reason": reason, "blueprint": blueprint, "ended": t})
