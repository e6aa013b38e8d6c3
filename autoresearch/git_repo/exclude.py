"""Hides autoresearch's files from `git status` in .git/info/exclude; the user's .gitignore is never changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import Checkout
from autoresearch.records.rundir import write_atomically

_SPECIAL = re.compile(rb"([\\*?\[\]!# ])")


def exclude(checkout: Checkout, pattern: str) -> None:
    """Add one pattern (gitignore(5)) unless it is there; the existing content is kept byte for byte.

    Safe against concurrent processes; all worktrees of the repository share the file.
    Raises EnvironmentUnusable if it cannot be written.
    """
    path = Path(os.path.realpath(checkout.common_dir / "info" / "exclude"))  # may be a link into the user's dotfiles
    line = pattern.encode("utf-8", "surrogateescape")
    try:
        path.parent.mkdir(exist_ok=True)
        with _alone(path.parent):
            before = path.read_bytes() if path.exists() else b""
            if line in before.split(b"\n"):
                return
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            gap = b"" if before.endswith(b"\n") or not before else b"\n"
            write_atomically(path, before + gap + line + b"\n", mode=mode)
    except OSError as error:
        raise EnvironmentUnusable(
            f"{path} cannot be written: {error.strerror}",
            hint=f"add {pattern} to .gitignore",
            code="no_exclude",
        ) from error


def pattern_for(checkout: Checkout, path: Path) -> str:
    """The pattern that matches exactly this path of the checkout; "" if it lies outside or is the root."""
    root, real = os.fsencode(checkout.root), os.fsencode(os.path.realpath(path))
    if not real.startswith(root + b"/"):
        return ""
    escaped = _SPECIAL.sub(rb"\\\1", real[len(root) :])
    return os.fsdecode(escaped.replace(b"\n", b"?"))  # a pattern is one line; ? is any character


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the flock of a directory, so that no lock file is left in the user's .git."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a network file system may not lock directories
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
