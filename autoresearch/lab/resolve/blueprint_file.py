"""The blueprint's file: read and parsed once, before anything is resolved."""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.document import MAX_BYTES
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.errors import BlueprintError, NotFoundError

NEW_BLUEPRINT = "`autoresearch blueprint new FILE.md --purpose WHY --command COMMAND` makes one"
_STARTED_BY = {".py": "python", ".sh": "bash", ".bash": "bash"}  # suffixes of scripts


@dataclass(frozen=True, slots=True)
class BlueprintFile:
    """A blueprint as it stands in its file."""

    path: Path  # absolute; symbolic links are kept, as a person reads the path
    data: bytes
    blueprint: Blueprint

    @property
    def sha(self) -> str:
        """sha256 of the content, hex."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def base(self) -> Path:
        """The directory from which its relative paths start."""
        return base_of(self.path)


def read_blueprint(path: Path) -> BlueprintFile:
    """Read and parse a blueprint.

    Raises NotFoundError for a file that is missing or cannot be read, BlueprintError for one that is invalid.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - keeps symbolic links
    data = read_bytes(path)
    _refuse_other_files(path)
    return BlueprintFile(path, data, parse_blueprint(data, path.name))


def is_blueprint(path: Path) -> bool:
    """Whether a file looks like one, among other Markdown."""
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)


def read_bytes(path: Path) -> bytes:
    """The content of a blueprint file. Raises NotFoundError, and BlueprintError if it is too large."""
    try:
        if not path.is_file():
            raise _no_blueprint(path)
        with path.open("rb") as file:
            data, size = file.read(MAX_BYTES + 1), os.fstat(file.fileno()).st_size
    except OSError as failure:  # a name of 300 characters, a folder without access
        raise NotFoundError(f"{_shown(path)}: {failure.strerror or failure}") from failure
    except ValueError as failure:  # a NUL in the name
        raise NotFoundError(f"{_shown(path)} is not a file name") from failure
    if len(data) > MAX_BYTES:
        message = f"{path.name}: the blueprint has {max(size, len(data)) / (1 << 20):.1f} MiB; the limit is 1 MiB"
        raise BlueprintError(message, hint="keep data out of it", code="blueprint_too_large")
    return data


def _refuse_other_files(path: Path) -> None:
    """Raise BlueprintError for a script or a campaign file, with the line that makes or uses a blueprint of it."""
    if path.suffix in (".yaml", ".yml"):
        raise BlueprintError(
            f"{path.name} is no blueprint",
            hint="a campaign file is started as a campaign; a recipe is named in a blueprint",
            fix=f"autoresearch campaign start {shlex.quote(path.name)}",
            code="not_a_blueprint",
        )
    if path.suffix in _STARTED_BY:
        command = f"{_STARTED_BY[path.suffix]} {shlex.quote(path.name)}"
        where = "" if path.parent == base_of(path) else f" --codebase {shlex.quote(str(path.parent))}"
        new = f"autoresearch blueprint new {shlex.quote(path.stem)}.md"
        raise BlueprintError(
            f"{path.name} is a script; a blueprint says why and how it is run",
            hint="this makes one, and `autoresearch run` then takes it; `--metric NAME` says which number counts",
            fix=f"{new} --purpose WHY{where} --command {shlex.quote(command)}",
            code="not_a_blueprint",
        )


def base_of(path: Path) -> Path:
    """The root of the git repository that holds a file, found by its `.git` entry; else its folder."""
    for folder in path.parents:
        if (folder / ".git").exists():
            return folder
    return path.parent


def _no_blueprint(path: Path) -> NotFoundError:
    if path.is_dir():
        return NotFoundError(f"{_shown(path)} is a directory, not a blueprint", hint="name the .md file in it")
    if path.exists():
        return NotFoundError(f"{_shown(path)} is not a regular file")
    near = difflib.get_close_matches(path.name, (one.name for one in path.parent.glob("*.md")), n=1)
    hint = f"did you mean {path.parent / near[0]}?" if near else NEW_BLUEPRINT
    return NotFoundError(f"there is no blueprint {_shown(path)}", hint=hint, code="no_blueprint")


def _shown(path: Path) -> str:
    """A path on one line, shortened, whatever characters it has."""
    text = str(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) < 200 else f"{text[:120]}...{text[-40:]}"
