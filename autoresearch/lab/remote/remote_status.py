"""What the local files say of a remote run: its target, job, why it waits, since when the target is unreachable."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from autoresearch.core.run.spec import RunState
from autoresearch.records import order_file
from autoresearch.records.rundir import RunDir, read_json


def about(rundir: RunDir, *, now: float | None = None) -> dict[str, Any]:
    """The additional fields of a remote run; {} for a local one.

    queue_s: seconds it waited, or has waited, before its Runner began; they do not count as run time. Other fields may
    be None.
    """
    order = order_file.read(rundir)
    if order is None:
        return {}
    now = time.time() if now is None else now
    seen = order_file.observed(rundir)
    started = (read_json(rundir.runner) or {}).get("started")
    submitted = order.submitted or order.ordered
    followed = not order.unattended()
    trouble = None if followed else read_json(Path(order.follower) / order_file.TROUBLE)
    silent = seen is not None and seen.state == RunState.UNREACHABLE.value
    return {
        "place": order.place.name,
        "launcher": str(order.place.kind),
        "job": order.handle.native if order.handle else None,
        "node": (seen.node if seen else "") or None,
        "reason": (seen.reason if seen else "") or None,
        "unreachable_since": seen.since if silent and seen else None,
        "hint": (seen.more.get("hint") if silent and seen else None) or None,
        "followed": followed,
        "trouble": str(trouble.get("reason")) if trouble else None,
        "queue_s": round(max(0.0, (started if isinstance(started, int | float) else now) - submitted), 3),
    }


def clause(fields: dict[str, Any], run_state: RunState, *, now: float | None = None) -> str:
    """The same as a clause for people: `slurm job 17 on n3`, `..., waits since 90 s: Resources`."""
    if not fields:
        return ""
    now = time.time() if now is None else now
    job = f" job {fields['job']}" if fields["job"] else ", not submitted yet"
    words = f"{fields['place']}{job}" + (f" on {fields['node']}" if fields["node"] else "")
    why = f": {fields['reason']}" if fields["reason"] else ""
    if not fields["followed"]:
        return f"{words}; it is not followed now: {fields['trouble'] or 'autoresearch status'}"
    if fields["unreachable_since"] is not None:
        hint = f" ({fields['hint']})" if fields["hint"] else ""
        return f"{words}, no answer since {max(0.0, now - fields['unreachable_since']):.0f} s{why}{hint}"
    if run_state in (RunState.PENDING, RunState.STARTING, RunState.STOPPING) and fields["reason"]:
        return f"{words}, waits since {fields['queue_s']:.0f} s{why}"
    return words
