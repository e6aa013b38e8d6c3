"""Processes of this machine, as /proc shows them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path


def is_dead(pid: int) -> bool:
    """Gone, or a zombie that waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def processes_with(texts: Sequence[str], *where: str) -> list[int]:
    """Others with one of these texts in one of their /proc files `where` (cmdline, environ)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                told = b"".join(Path(f"/proc/{name}/{file}").read_bytes() for file in where)
                if any(text.encode() in told for text in texts):
                    found.append(int(name))
    return found
