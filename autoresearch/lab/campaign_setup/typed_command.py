"""The blueprint of a command that somebody typed: what it leaves open is found as `init` finds it."""

from __future__ import annotations

import re
from pathlib import Path

from autoresearch.core.blueprint.lint import RECORDS
from autoresearch.core.text.session_and_branch_names import first_free, slugify
from autoresearch.lab.campaign_setup.first_blueprint import first_blueprint
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import read_blueprint

TYPED = f"{RECORDS}/typed"  # in the repository, beside the records
_STARTERS = re.compile(r"\A(?:(?:uv run|python3?(?:\.\d+)?|bash|sh)\s+(?:-\w+\s+)?)+")
_SUFFIX = re.compile(r"\.(?:py|sh)\b")


def typed_blueprint(command: str, directory: Path, metric: str = "") -> Path:
    """Write the blueprint that runs a command in this directory as it stands; the one of an earlier time is kept.

    metric: the objective; "" leaves it to what the trainer or the program's text shows, as in any blueprint.
    """
    root = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), directory)
    folder = root / TYPED
    name = first_free(slugify(short_name(command)), lambda one: _other(folder / one, command))
    path = folder / f"{name}.md"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    fields = first_blueprint(directory, command, metric, "", path)
    path.write_text(render_blueprint(fields), encoding="utf-8")
    return path


def short_name(command: str) -> str:
    """A command without the interpreter before its program: `train --lr 0.1`."""
    return _SUFFIX.sub("", _STARTERS.sub("", command))


def _other(stem: Path, command: str) -> bool:
    """Whether a blueprint of this name is there that runs another command."""
    path = stem.with_name(f"{stem.name}.md")
    return path.exists() and read_blueprint(path).blueprint.launch_command != command
