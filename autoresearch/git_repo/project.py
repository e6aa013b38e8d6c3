"""The project of a directory: the main working tree of its repository. Every command that takes a name asks for it.

A plain repository is seen by its files. git, whose start takes 10 ms of CPU with the modules that it needs, answers for
all others: linked worktrees, submodules, bare and foreign repositories, and limits of its search.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from autoresearch.errors import NotFoundError

_LIMITS = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")


def project_of(directory: Path) -> Path:
    """The main working tree of its repository, the same for all linked ones; else the directory itself."""
    if (plain := _plain(directory)) is not None:
        return plain
    from autoresearch.git_repo.checkout import asked_project

    return asked_project(directory)


def current_project() -> Path:
    """The project of the current directory. Raises NotFoundError if that directory was removed."""
    try:
        return project_of(Path.cwd())
    except FileNotFoundError as error:
        raise NotFoundError("the current directory was removed", hint="go to that of your project") from error


def _plain(directory: Path) -> Path | None:
    """The nearest directory above with a `.git` of its own that git would trust; None where only git can tell."""
    real = Path(os.path.realpath(directory))
    if any(name in os.environ for name in _LIMITS) or ".git" in real.parts:
        return None
    try:
        device = real.stat().st_dev
        for place in (real, *real.parents):
            own, git_dir = place.stat(), place / ".git"
            if own.st_dev != device or os.path.lexists(place / "objects"):  # another disk, or a bare repository
                return None
            if os.path.lexists(git_dir):
                status = git_dir.lstat()
                trusted = os.geteuid() == own.st_uid == status.st_uid
                whole = all(os.path.lexists(git_dir / name) for name in ("HEAD", "objects", "refs"))
                return place if trusted and whole and stat.S_ISDIR(status.st_mode) else None
    except OSError:
        pass
    return None
