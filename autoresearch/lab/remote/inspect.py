"""What `doctor --launcher` reports about a target: whether it answers, how fast, what it offers, its Follower."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity, errors
from autoresearch.core.run.job_launcher import Declined, Describes, JobLauncher, Unreachable
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.canary import Canary, send_canary
from autoresearch.lab.remote.start_follower import directory_of
from autoresearch.lab.remote_files.interpreter import InterpreterSearch
from autoresearch.launchers.registry import pinned
from autoresearch.records import order_file
from autoresearch.records.rundir import RunDir, is_locked, read_json


@dataclass(frozen=True, slots=True)
class Followed:
    """State of a target's Follower."""

    alive: bool
    session: str  # "" if there never was one
    runs: int  # unfinished ones

    @property
    def sentence(self) -> str:
        """One clause, for people."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        if self.alive:
            return f"lives, follows {runs}" + (f", in {self.session}" if self.session else "")
        return f"gone, and {runs} want one: any command that looks at them starts it" if self.runs else "not needed now"


@dataclass(frozen=True, slots=True)
class Inspected:
    """State of a target as probed now."""

    target: Target
    answers: bool
    latency_s: float | None  # one round trip over an open connection; with shared files, the time of all probes
    clock_offset_s: float | None  # remote minus local
    rows: tuple[tuple[str, str], ...]
    followed: Followed
    findings: tuple[Finding, ...]

    @property
    def fit(self) -> bool:
        """Whether a run could be sent to it."""
        return not errors(self.findings)


def inspect(
    target: Target,
    parts: Parts,
    *,
    canary: Path | None = None,
    search: InterpreterSearch | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Inspected:
    """Probe a target that is not local. Raises nothing: whatever prevents a run is a finding.

    canary: send a canary; the directory is one above the project's run directories.
    search: finds the interpreter that the canary shall start.
    """
    follower = _followed(target, parts)
    try:
        launcher = parts.launcher_for(target, parts.environ)
    except AutoresearchError as error:
        wrong = Finding(Severity.ERROR, error.code, error.message, error.hint)
        return Inspected(target, False, None, None, (), follower, (wrong,))
    try:
        send = partial(send_canary, target, launcher, canary, search) if canary else None
        return _inspect(target, launcher, follower, send, clock)
    finally:
        launcher.reach.close()


def _inspect(
    target: Target,
    launcher: JobLauncher,
    follower_status: Followed,
    send: Callable[[], Canary] | None,
    clock: Callable[[], float],
) -> Inspected:
    found: list[Finding] = []
    latency, offset, rows = None, None, [("files", _FILES[launcher.reach.shared])]
    try:
        begun = clock()
        found += launcher.preflight()
        if not errors(found):
            rows += launcher.describe() if isinstance(launcher, Describes) else ()
            latency = clock() - begun if launcher.reach.shared else _round_trip(launcher, clock)
            offset = launcher.reach.clock_offset()
        if send and not errors(found):
            sent = send()
            rows.append(("canary", sent.row))
            found += sent.findings
    except (Unreachable, Declined) as no:
        found = [one for one in found if one.code != "unreachable"]  # the preflight's weaker finding of the same
        found.append(Finding(Severity.ERROR, no.code, no.reason, no.hint))
    except AutoresearchError as error:
        found.append(Finding(Severity.ERROR, error.code, error.message, error.hint))
    return Inspected(target, latency is not None, latency, offset, tuple(rows), follower_status, tuple(found))


_FILES = {True: "seen there under the same paths", False: "copied there and back"}


def _round_trip(launcher: JobLauncher, clock: Callable[[], float]) -> float:
    """Round trip in seconds over the open connection."""
    begun = clock()
    launcher.reach.run(["true"])
    return clock() - begun


def _followed(target: Target, parts: Parts) -> Followed:
    folder = directory_of(pinned(target, parts.environ), parts)
    runs = 0
    for entry in parts.index.live():
        order = order_file.read(RunDir(Path(entry.run_dir)))
        runs += order is not None and Path(order.follower) == folder
    sessions = (read_json(folder / "controller.sessions.json") or {}).get("sessions") or [""]
    return Followed(is_locked(folder / "lock"), str(sessions[-1]), runs)
