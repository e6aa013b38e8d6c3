"""rsync between this machine and a place, where both have it: for much data, and to go on where it was cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from autoresearch.core.run.job_launcher import Reach, Unreachable

TIMEOUT_S = 600.0
_CUT = frozenset({10, 12, 30, 35, 255})  # rsync(1), EXIT VALUES: of sockets, of the stream, timeouts; and ssh's own
_OPTIONS = ("-a", "--partial", "--inplace", "--no-owner", "--no-group", "--omit-dir-times", "--timeout=60")


class Slow(Exception):  # noqa: N818 - nothing is wrong
    """It was not done in its time, and goes on from there with the next try."""


class RsyncFailed(Exception):  # noqa: N818 - another way is taken
    """rsync does not work between these two hosts."""


@runtime_checkable
class Rsyncs(Protocol):
    """A Reach whose host rsync can be started on."""

    def rsync_shell(self) -> str:
        """The words for `-e`."""

    @property
    def target(self) -> str:
        """The host, as TARGET:PATH names it."""


def words(reach: Reach) -> tuple[str, str] | None:
    """How a place is reached by rsync: the remote shell, and what stands before a path; None where it cannot be."""
    if not hasattr(reach, "rsync_shell") or shutil.which("rsync") is None:
        return None
    assert isinstance(reach, Rsyncs)
    user, at, host = reach.target.rpartition("@")
    return reach.rsync_shell(), f"{user}{at}[{host}]:" if ":" in host else f"{user}{at}{host}:"  # IPv6


def push(way: tuple[str, str], files: Iterable[tuple[Path, str]]) -> None:
    """Send files; each gets the path that is said. Unreachable where the connection was cut, Slow, Failed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for here, there in files:
        relative = _common_tail(str(here), there)
        groups.setdefault((str(here)[: -len(relative)], there[: -len(relative)]), []).append(relative)
    for (here_root, far_root), names in groups.items():
        _rsync(way, names, here_root, way[1] + far_root)


def pull(way: tuple[str, str], root: str, names: Sequence[str], place: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Fetch files below a directory there; what is there of them already is taken on. Unreachable as above."""
    place.mkdir(parents=True, exist_ok=True)
    _rsync(way, names, f"{way[1]}{root}/", f"{place}/", timeout_s)


def _common_tail(one: str, other: str) -> str:
    """The longest end that two paths have in common, whole names of it."""
    a, b = one.split("/"), other.split("/")
    n = 1
    while n + 1 < min(len(a), len(b)) and a[-n - 1] == b[-n - 1]:
        n += 1
    if a[-n:] != b[-n:]:
        raise ValueError(f"{one} and {other} have no name in common")
    return "/".join(a[-n:])


def _rsync(way: tuple[str, str], names: Sequence[str], source: str, target: str, timeout_s: float = TIMEOUT_S) -> None:
    command = ["rsync", *_OPTIONS, "-e", way[0], "--from0", "--files-from=-", source, target]
    fed = b"\0".join(map(os.fsencode, names))
    try:
        done = subprocess.run(command, input=fed, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise Slow from None
    if done.returncode:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if done.returncode in _CUT:
            raise Unreachable(f"rsync was cut: {said}", code="rsync")
        raise RsyncFailed(said)
