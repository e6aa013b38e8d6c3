"""Which python a command means where nothing names one: that of the shell in which it was typed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from autoresearch.lab.resolve.files import OURS, Files

ACTIVE = "active environment"
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX")
SHELL = ("PATH", *_PREFIXES, "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_SHLVL")
_WORDS = ("python", "python3")


def shell_interpreter(codebase: Path, environ: Mapping[str, str], files: Files = OURS) -> tuple[Path | None, str]:
    """The interpreter, and where it is from: the active environment, `.venv` or `venv` in the codebase, or PATH.

    `environ` counts only if the files are local. The interpreter that runs us is one among others; (None, "") if there
    is none.
    """
    on_path = next(filter(None, (shutil.which(one, path=environ.get("PATH", "")) for one in _WORDS)), "")
    active = [Path(environ[name], "bin/python") for name in _PREFIXES if environ.get(name)]
    active.sort(key=lambda python: str(python) != on_path)  # an environment activated in another: the one on PATH
    for python in filter(files.executable, active if files.here else ()):
        return python, ACTIVE
    for folder in (".venv", "venv"):
        if files.executable(python := codebase / folder / "bin" / "python"):
            return python, folder
    found = on_path if files.here else files.python
    return (Path(os.path.abspath(found)), "PATH") if found else (None, "")  # noqa: PTH100 - keeps symbolic links


def shell_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment says which programs a word means: PATH, and the environment that is active."""
    return {name: environ[name] for name in SHELL if name in environ}
