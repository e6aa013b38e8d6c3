"""rsync between this machine and a target, if both have it: for much data, and to resume interrupted transfers."""

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
    """The time was up; the next try resumes."""


class RsyncFailed(Exception):  # noqa: N818 - another way is taken
    """rsync does not work between these two hosts."""


@runtime_checkable
class Rsyncs(Protocol):
    """A Reach to a host on which rsync can be started."""

    def rsync_shell(self) -> str:
        """The argument of `-e`."""

    @property
    def destination(self) -> str:
        """The host, as in DESTINATION:PATH."""


def words(reach: Reach) -> tuple[str, str] | None:
    """How rsync reaches a target: the remote shell, and the prefix of a path; None if it cannot."""
    if not hasattr(reach, "rsync_shell") or shutil.which("rsync") is None:
        return None
    assert isinstance(reach, Rsyncs)
    user, at, host = reach.destination.rpartition("@")
    return reach.rsync_shell(), f"{user}{at}[{host}]:" if ":" in host else f"{user}{at}{host}:"  # IPv6


def push(way: tuple[str, str], files: Iterable[tuple[Path, str]]) -> None:
    """Send files, each to its given path. Raises Unreachable if the connection broke, Slow, RsyncFailed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for here, there in files:
        relative = _common_tail(str(here), there)
        groups.setdefault((str(here)[: -len(relative)], there[: -len(relative)]), []).append(relative)
    for (here_root, far_root), names in groups.items():
        _rsync(way, names, here_root, way[1] + far_root)


def pull(way: tuple[str, str], root: str, names: Sequence[str], directory: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Fetch files below a remote directory; partial local copies are continued. Raises as `push`."""
    directory.mkdir(parents=True, exist_ok=True)
    _rsync(way, names, f"{way[1]}{root}/", f"{directory}/", timeout_s)


def _common_tail(one: str, other: str) -> str:
    """The longest common end of two paths, in whole names."""
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
