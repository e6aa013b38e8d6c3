"""The exit record: the Runner's last word about a run, or ours about a Runner that died without one."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import Any

from autoresearch.core.run.ending import EXCUSED, Ending
from autoresearch.records import evidence
from autoresearch.records.rundir import RunDir, read_json, write_json
from autoresearch.runner.event_log import seal

_CLAIMS_NOTHING = (Ending.STOPPED, Ending.LAUNCH_FAILED)


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a run ended. Exit code and reason are separate facts; None means: not known."""

    run: str
    ending: Ending
    reason: str
    returncode: int | None = None  # 128 + n for signal n
    signal: int | None = None
    cause: str = ""  # a stable word where the ending alone does not say enough, e.g. "lease_busy"
    first_step_s: float | None = None
    first_step: int | None = None
    kl: float | None = None
    last_step: int | None = None
    steps_seen: int = 0
    validations_seen: int = 0
    nan_seen: bool = False
    error_kind: str = ""
    duration_s: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    peak_memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    gpu_memory_returned: bool | None = None
    term_sent: int = 0
    kill_sent: int = 0
    left: tuple[int, ...] = ()
    cleanup: tuple[dict[str, Any], ...] = ()
    job: str = ""  # of a far run: what its launcher called it,
    node: str = ""  # where it ran,
    queue_s: float | None = None  # and how long it waited there, which is no time of the run
    evaluation: dict[str, Any] | None = None  # returncode, seconds, reason ("": it ended well); None: there was none


def read(rundir: RunDir) -> ExitRecord | None:
    """The exit record of a run; None where there is none (yet)."""
    data = read_json(rundir.exit_record)
    if data is None:
        return None
    known: dict[str, Any] = {
        k: v for k, v in data.items() if k in ExitRecord.__dataclass_fields__ and v is not None
    }
    known["ending"] = Ending(data["ending"])
    known["run"] = str(data.get("run", ""))
    known["reason"] = str(data.get("reason") or "")
    for name in ("left", "cleanup"):
        known[name] = tuple(known.get(name) or ())
    return ExitRecord(**known)


def set_aside(rundir: RunDir, run: str) -> bool:
    """Move an exit record that its Runner did not write out of the way, to exit.foreign.json; whether there was one.

    A Runner that is stopped before it begins never gets its key: an end that claims nothing needs none.
    """
    key = evidence.key_of(run)
    data = read_json(rundir.exit_record) if key else None
    if data is None or hmac.compare_digest(str(data.get("seal", "")), seal(data, key)):
        return False
    if data.get("ending") in _CLAIMS_NOTHING and data.get("cause") not in EXCUSED:
        return False
    rundir.exit_record.replace(rundir.foreign_exit)
    return True


def recover(rundir: RunDir, run: str) -> bool:
    """Give the Runner's finished record its name; whether there was one. The caller holds the Runner's lock.

    The Runner fills the reserved `exit.rec` and then renames it. A kill in between, or a disk that has become
    read-only, keeps only the rename from being done: the record is whole, or no JSON at all.
    """
    reserved = rundir.path / "exit.rec"
    data = read_json(reserved)
    if data is None or data.get("run") != run or "ending" not in data:
        return False
    reserved.replace(rundir.exit_record)
    return True


def write(rundir: RunDir, record: ExitRecord) -> None:
    """Write a record for a Runner that can't; the caller holds the Runner's lock."""
    data = {name: getattr(record, name) for name in ExitRecord.__dataclass_fields__}
    whole = json.loads(json.dumps({"schema": 1, **data, "ending": record.ending.value}))
    if key := evidence.key_of(record.run):
        whole["seal"] = seal(whole, key)
    write_json(rundir.exit_record, whole)
