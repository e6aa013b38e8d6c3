"""Runs the collector command of each finished run when no watching process has collected it in time."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from autoresearch.records.rundir import RunDir, read_json

PATIENCE_S = 3.0  # seconds; a controller, a `run` or a `wait` is awake and collects within milliseconds
NICE = "10"  # the watching process may be starting the next run


class Collectors:
    """Runs that wait to be collected, and the running collector processes."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self.environ = {name: value for name, value in environ.items() if name != "AUTORESEARCH_RUN_ID"}
        self.clock = clock
        self._waiting: list[tuple[float, RunDir]] = []
        self._working: list[subprocess.Popen[bytes]] = []

    @property
    def busy(self) -> bool:
        """Whether runs wait or collectors still work."""
        return bool(self._waiting or self._working)

    def later(self, rundir: RunDir) -> None:
        """Schedule the collection of a run that is over, PATIENCE_S from now."""
        self._waiting.append((self.clock() + PATIENCE_S, rundir))

    def tend(self) -> None:
        """Start the collectors that are due and drop the finished ones."""
        self._working = [each for each in self._working if each.poll() is None]
        now = self.clock()
        due = [rundir for at, rundir in self._waiting if at <= now]
        self._waiting = [(at, rundir) for at, rundir in self._waiting if at > now]
        for rundir in due:
            words = (read_json(rundir.spec) or {}).get("collector") or []
            if words and not rundir.collected.exists():
                with contextlib.suppress(OSError):
                    self._start([str(word) for word in words], rundir.path / "collect.log")

    def _start(self, words: list[str], path: Path) -> None:
        """Start it detached: it may write for a long time, so nobody waits for it."""
        with path.open("ab") as log:
            self._working.append(
                subprocess.Popen(
                    ["nice", "-n", NICE, *words],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
