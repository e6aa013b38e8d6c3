"""The blueprint's file: read and parsed once, before anything is resolved."""

from __future__ import annotations

import difflib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.document import MAX_BYTES
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import parse_blueprint
from autoresearch.errors import BlueprintError, NotFoundError


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
    return BlueprintFile(path, data, parse_blueprint(data, path.name))


def read_bytes(path: Path) -> bytes:
    """The content of a blueprint file. Raises NotFoundError, and BlueprintError if it is too large."""
    try:
        if not path.is_file():
            raise _no_blueprint(path)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError as failure:  # a name of 300 characters, a folder without access
        raise NotFoundError(f"{_shown(path)}: {failure.strerror or failure}") from failure
    except ValueError as failure:  # a NUL in the name
        raise NotFoundError(f"{_shown(path)} is not a file name") from failure
    if len(data) > MAX_BYTES:
        message = f"{path.name}: the blueprint has {max(size, len(data)) / (1 << 20):.1f} MiB; the limit is 1 MiB"
        raise BlueprintError(message, hint="keep data out of it", code="blueprint_too_large")
    return data


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
    near: list[str] = []
    if path.parent.is_dir():
        names = [p.name for p in path.parent.iterdir() if p.suffix == ".md"]
        near = difflib.get_close_matches(path.name, names, n=1)
    hint = f"did you mean {path.parent / near[0]}?" if near else "`autoresearch blueprint new` makes one"
    return NotFoundError(f"there is no blueprint {_shown(path)}", hint=hint, code="no_blueprint")


def _shown(path: Path) -> str:
    """A path on one line, shortened, whatever characters it has."""
    text = str(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) < 200 else f"{text[:120]}...{text[-40:]}"
