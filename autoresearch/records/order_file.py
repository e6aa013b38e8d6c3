"""order.json: the order to run a run on a target, and its progress; observed.json: what was seen of it last.

The order is written before anything leaves this machine, and `submitting` before the launcher is called, so that after
a kill it is known that a job may exist.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autoresearch.core.run.job_launcher import Handle
from autoresearch.core.run.json_record import from_record
from autoresearch.core.run.targets import Target
from autoresearch.records.files import read_json, write_json
from autoresearch.records.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Order:
    """The order to run one run on one target."""

    run: str
    place: Target
    ordered: float  # wall clock
    directory: str = ""  # the remote run directory; "" until the files are uploaded
    declared: tuple[str, ...] = ()  # names of environment variables set explicitly for the run, not just inherited
    gpus: int = 0  # number requested from the launcher
    socket: str = ""  # tmux socket setting: where its session goes
    paths: Mapping[str, str] = field(default_factory=dict)  # without a shared file system: local -> remote path
    watched: Mapping[str, str] = field(default_factory=dict)  # the same: mirrored metric files, remote -> local path
    code: str = ""  # the same: the remote code directory, released at the end
    submitting: float | None = None  # when the job submission was started; a job may exist from then on
    submitted: float | None = None
    handle: Handle | None = None


def write(rundir: RunDir, order: Order) -> None:
    """Write order.json, durably and atomically."""
    write_json(rundir.order, {"schema": 1, **asdict(order)})


def read(rundir: RunDir) -> Order | None:
    """The order of a remote run; None for a local run, or if the file is damaged."""
    data = read_json(rundir.order)
    if data is None:
        return None
    try:
        return from_record(Order, data)
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of the run last, and what the next look must know; written when it changes."""

    state: str  # a RunState
    since: float  # wall clock, since when it is so
    reason: str = ""  # why the run is waiting, or why the target is unreachable
    node: str = ""
    hint: str = ""  # what a person can do about it
    memory: Mapping[str, Any] = field(default_factory=dict)  # a `lab.remote.reconcile.Memory`


def observe(rundir: RunDir, observed: Observed) -> None:
    """Write observed.json."""
    write_json(rundir.observed, asdict(observed), durable=False)


def observed(rundir: RunDir) -> Observed | None:
    """The last observation; None before the first one."""
    data = read_json(rundir.observed)
    try:
        return from_record(Observed, data) if data else None
    except (TypeError, ValueError):
        return None


def last_look(rundir: RunDir) -> float | None:
    """When somebody last looked at a remote run; wall clock. None: nobody did."""
    try:
        return rundir.looked.stat().st_mtime
    except OSError:
        return None


def request_stop(rundir: RunDir, reason: str, *, cause: str = "", durable: bool = True) -> None:
    """Request a run to stop, local or remote, and wake a local Runner. OSError if it cannot be written."""
    asked = {"reason": reason, "t": time.time(), **({"cause": cause} if cause else {})}
    write_json(rundir.stop, asked, durable=durable)
    if rundir.order.exists():
        return
    if isinstance(pid := (read_json(rundir.runner) or {}).get("pid"), int):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCHLD)  # the Runner's, which else may look a second later; harmless to any other
