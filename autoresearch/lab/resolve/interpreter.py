"""Which python a command means where nothing names one: that of the shell in which it was typed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from autoresearch.lab.resolve.files import kind_of

ACTIVE, POETRY = "active environment", "poetry"
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX")
SHELL = ("PATH", *_PREFIXES, "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_SHLVL")
_WORDS = ("python", "python3")
_ASKED_S = 60.0


def shell_interpreter(
    codebase: Path, environ: Mapping[str, str], command: str = ""
) -> tuple[Path | None, str]:
    """The interpreter, and where it is from: the active environment, `.venv` or `venv` in the codebase, or PATH.

    For a command with `poetry run`, the environment that poetry keeps elsewhere for this directory comes before PATH.
    The interpreter that runs us is one among others; (None, "") if there is none.
    """
    path = environ.get("PATH", "").split(os.pathsep)
    if "UV" in environ:  # `uvx` puts the environment that it made for us first on PATH
        path = [one for one in path if one != f"{sys.prefix}/bin"]
    on_path = next(filter(None, (shutil.which(one, path=os.pathsep.join(path)) for one in _WORDS)), "")
    active = [Path(environ[name], "bin/python") for name in _PREFIXES if environ.get(name)]
    active.sort(key=lambda python: str(python) != on_path)  # an environment activated in another: the one on PATH
    for python in active:
        if os.access(python, os.X_OK):
            return python, ACTIVE
    for folder in (".venv", "venv"):
        if os.access(python := codebase / folder / "bin" / "python", os.X_OK):
            return python, folder
    if "poetry run" in command and (kept := _of_poetry(codebase, environ)):
        return kept, POETRY
    return (Path(os.path.abspath(on_path)), "PATH") if on_path else (None, "")  # noqa: PTH100 - keeps symbolic links


def _of_poetry(codebase: Path, environ: Mapping[str, str]) -> Path | None:
    """The python of the environment that poetry has for a directory; it has none for a worktree of it."""
    if (program := shutil.which("poetry", path=environ.get("PATH", ""))) is None:
        return None
    words = [program, "env", "info", "--executable"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(words, cwd=codebase, env=dict(environ), capture_output=True, text=True, timeout=_ASKED_S)
        found = Path(done.stdout.strip())
        return found if done.returncode == 0 and found.is_file() else None
    return None


def shell_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment says which programs a word means: PATH, and the environment that is active."""
    return {name: environ[name] for name in SHELL if name in environ}


def unsynchronised(codebase: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which `uv run` and `pixi run` take the codebase's environment as it is, where there is one.

    The user's packages stay what they are, and all runs have the same. Where there is none, these programs make one.
    """
    found = {}
    if kind_of(codebase / (environ.get("UV_PROJECT_ENVIRONMENT") or ".venv")):
        found["UV_NO_SYNC"] = "1"
    if kind_of(codebase / ".pixi" / "envs"):
        found |= {"PIXI_FROZEN": "true", "PIXI_NO_INSTALL": "true"}
    return found
