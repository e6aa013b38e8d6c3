"""The present state of a run, from its files alone: cheap enough to be polled."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json

TAIL_BYTES = 256 * 1024
KEY_LINES = 64  # the longest private key: one that begins above the lines to be shown must still be recognised


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A living run: its elapsed and remaining time, and the last metrics it printed."""

    state: RunState
    elapsed_s: float
    left_s: float  # until the total time limit
    first_step_left_s: float | None  # None after the first step
    last_step: Reading | None = None
    last_validation: Reading | None = None
    newest_output: str = ""  # the last line of its log, until a step is recognised

    @property
    def nearest_limit_s(self) -> float:
        """Seconds until the next limit can fire. One that has passed is held back by progress, or ends the run now."""
        return min((left for left in (self.left_s, self.first_step_left_s) if left), default=math.inf)


def standing(recorded: RecordedRun, *, first_step_seen: bool, readings: bool = True) -> RunStatus:
    """Read a run's state; `readings` False skips parsing the tail of its log."""
    rundir, spec = recorded.rundir, recorded.spec
    elapsed = elapsed_s(recorded)
    trained = elapsed_s(recorded, since="trainer_started_boot")
    step, validation = last_readings(rundir.log, spec) if readings else (None, None)
    unknown = readings and step is None and not first_step_seen
    return RunStatus(
        state=rundir.state(),
        elapsed_s=elapsed,
        left_s=max(0.0, spec.limits.max_s - elapsed),
        first_step_left_s=None if first_step_seen else first_step_left_s(spec, trained, rundir.log),
        last_step=step,
        last_validation=validation,
        newest_output=next(iter(tail_lines(rundir.log, 1)), "") if unknown else "",
    )


def first_step_left_s(spec: RunSpec, trained_s: float, log: Path) -> float:
    """Seconds until the limit to the first step ends the run, judged by its files. trained_s: since its start."""
    waited = trained_s
    if spec.limits.first_step_since_output:
        try:
            waited = min(trained_s, max(0.0, time.time() - log.stat().st_mtime))
        except OSError:
            pass  # nothing was printed yet
    return max(0.0, spec.limits.first_step_s - waited)


def elapsed_s(recorded: RecordedRun, *, since: str = "started_boot") -> float:
    """Seconds since the Runner (or its trainer) started: by the boot clock within the same boot, else by the wall
    clock.

    `since` names the stamp in runner.json. 0.0 before the start.
    """
    return seconds_since(read_json(recorded.rundir.runner) or {}, recorded.spec, since=since)


def seconds_since(record: Mapping[str, Any], spec: RunSpec, *, since: str = "started_boot") -> float:
    """The same from the content of runner.json."""
    if record.get(since) is None:
        return 0.0
    started_boot, boot = record[since], record.get("boot_id")
    if isinstance(started_boot, (int, float)) and boot == boot_id():
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_boot)
    began = float(record.get("started", spec.created))
    if isinstance(started_boot, (int, float)) and isinstance(record.get("started_boot"), (int, float)):
        began += started_boot - record["started_boot"]  # another machine or boot: use the wall clock
    return max(0.0, time.time() - began)


@cache
def boot_id() -> str:
    """The id of this machine's current boot; "" if the kernel does not tell it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def last_readings(log: Path, spec: RunSpec) -> tuple[Reading | None, Reading | None]:
    """The last training step and the last validation in the tail of a log."""
    from autoresearch.core.text.lines import logical_lines

    lines = list(logical_lines(tail(log, TAIL_BYTES)))
    if not lines:
        return None, None
    from autoresearch.core.run.trainer import ReadsLogs
    from autoresearch.trainers import registry

    trainer = registry.of_run(spec)
    step: Reading | None = None
    validation: Reading | None = None
    if isinstance(trainer, ReadsLogs):
        reader = trainer.reader()
        readings: Iterable[Reading | None] = reversed([*map(reader.line, lines), reader.end()])
    else:
        readings = map(trainer.read_line, reversed(lines))
    for reading in readings:
        if reading is None:
            continue
        if reading.kind is SignalKind.STEP and step is None:
            step = reading
        elif reading.kind is SignalKind.VALIDATION and validation is None:
            validation = reading
        if step and validation:
            break
    return step, validation


def tail(path: Path, limit: int) -> bytes:
    """The last bytes of a file, from the start of a line; empty where it is missing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            data = file.read(limit)
    except OSError:
        return b""
    return data if size <= limit else data[data.find(b"\n") + 1 :]


def tail_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log in a form safe to show: no escapes, no secrets, bounded."""
    from autoresearch.core.text.lines import logical_lines
    from autoresearch.records.secrets import mask_text

    if count <= 0:
        return []
    lines = list(logical_lines(tail(path, TAIL_BYTES)))[-count - KEY_LINES :]
    return [line[:500] for line in mask_text("\n".join(lines)).split("\n")[-count:]] if lines else []


def _so_far(recorded: RecordedRun) -> float | None:
    """The objective of a living run that is not in its last readings: an expression, or in a file."""
    from autoresearch.lab.results.measure import so_far
    from autoresearch.trainers import registry

    spec = recorded.spec
    return so_far(spec, registry.of_run(spec), recorded.rundir.log)


def as_payload(recorded: RecordedRun, now: RunStatus) -> dict[str, Any]:
    """The JSON object for an unfinished run."""
    rundir, spec = recorded.rundir, recorded.spec
    name = spec.objective.metric if spec.objective else None
    metrics: dict[str, float] = {}
    for reading in (now.last_step, now.last_validation):
        if reading:
            metrics.update(reading.metrics)
    return {
        "run": spec.run,
        "state": now.state.value,
        "ending": None,
        "returncode": None,
        "verdict": None,
        "step": now.last_step.step if now.last_step and now.last_step.step >= 0 else None,
        "newest_output": now.newest_output or None,
        "metrics": metrics,
        "metric_name": name,
        "metric_value": metrics[name] if name in metrics else _so_far(recorded) if metrics else None,
        "elapsed_s": round(now.elapsed_s, 3),
        "deadline_s": round(now.left_s, 3),
        "first_step_left_s": now.first_step_left_s
        if now.first_step_left_s is None
        else round(now.first_step_left_s, 3),
        "branch": spec.branch or None,
        "no_snapshot": spec.no_snapshot or None,
        "session": spec.session,
        "result_dir": spec.result_dir,
        "run_dir": str(rundir.path),
        "log_path": str(rundir.log),
        "ledger": spec.ledger,
        **elsewhere(rundir),
    }


def elsewhere(rundir: RunDir) -> dict[str, Any]:
    """The additional fields of a remote run; a local one does not even import them."""
    if not rundir.order.exists():
        return {}
    from autoresearch.lab.remote.remote_status import about

    return about(rundir)


def unfollowed(rundir: RunDir) -> bool:
    """Whether a run is remote and nobody follows it, or can: its order is damaged."""
    if not rundir.order.exists():
        return False
    from autoresearch.records import order_file

    order = order_file.read(rundir)
    return order is None or order.unattended()
