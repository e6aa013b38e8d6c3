"""Records a run whose Runner died without an exit record, after ending what carries its id in its environment."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.runs.processes import SWEEP_S, sweep
from autoresearch.lab.runs.run_status import boot_id
from autoresearch.records import events, exit_record, journal
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import locked, read_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.recorded_run import read as read_spec
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint

_WORDS = {"runner_died": "", "rebooted": ", as the machine was started anew"}


def record_lost(rundir: RunDir, *, reason: str = "") -> None:
    """Write the exit record of a run whose Runner died without one, after ending its leftover processes.

    Holding the Runner's own lock proves that none lives and keeps a late one from starting. That holds for local runs
    only: a remote run is settled by `lab.remote.refresh` alone.
    """
    if rundir.order.exists():
        return
    with locked(rundir.lock, blocking=False) as alone:
        if not alone or read_json(rundir.exit_record) is not None:
            return
        spec = read_spec(rundir)
        identity = read_json(rundir.runner)
        killed = _end_leftovers(RecordedRun(rundir, spec))
        rundir.environment.unlink(missing_ok=True)  # the Runner never read it, and it may hold secrets
        failpoint("adopt.swept")
        if exit_record.recover(rundir, spec.run):
            return
        if identity is None:
            ending, cause = Ending.LAUNCH_FAILED, "launch_interrupted"
            reason = reason or "the command that launched it died before the Runner started"
        else:
            ending, cause = Ending.LOST, _why_it_died(identity)
            who = f"the Runner (pid {identity.get('pid')})"
            reason = f"{who} died without an exit record{_WORDS[cause]}; processes of the run that were ended: {killed}"
        last = _last_sign(rundir, spec.created)
        seen = next((one for one in events.read(rundir.events)[0] if one.event == "first_step"), None)
        exit_record.write(
            rundir,
            ExitRecord(
                run=spec.run,
                ending=ending,
                reason=reason,
                cause=cause,
                started=spec.created,
                ended=min(time.time(), last),
                duration_s=max(0.0, last - spec.created),
                kill_sent=killed,
                first_step_s=seen.s if seen else None,
                first_step=seen.get("step") if seen else None,
            ),
        )
        # After the record, so that a woken watcher finds it; if the event cannot be written, the record still stands.
        with contextlib.suppress(EnvironmentUnusable):
            events.append(rundir.events, "lost" if ending is Ending.LOST else "launch_failed", reason=reason)


def _why_it_died(identity: Mapping[str, Any]) -> str:
    """The cause of the Runner's death: `rebooted`, or just `runner_died`."""
    return "runner_died" if identity.get("boot_id") in (None, "", boot_id()) else "rebooted"


def _end_leftovers(recorded: RecordedRun) -> int:
    """End what is left of it and of what its trainer started; returns how many processes were ended."""
    from autoresearch.trainers import registry

    spec, grace_s = recorded.spec, min(recorded.spec.limits.grace_s, SWEEP_S)
    killed = sweep(spec.run, grace_s)
    trainer = registry.by_name(spec.trainer) if spec.trainer in registry.NAMES else None  # else a newer version's
    _end_ray_job(spec)
    if trainer and spec.swarm:  # its server has a Runner of its own, which may live
        log, run_dir = Path(spec.result_dir), str(recorded.rundir.path)
        registry.server(trainer).stop_server(run_dir, sweep, lambda text: journal.append(log, text))
    return killed


def _end_ray_job(spec: RunSpec) -> None:
    """End the job that the Runner would have ended; the blueprint's own cleanup commands are not run."""
    for command in spec.cleanup[:1]:
        if "end_ray_job.py" in command:
            import shlex

            from autoresearch.lab.resolve.trainer_settings import END_RAY_JOB, RAY_S
            from autoresearch.launchers import program

            words = shlex.split(command)
            if words[2:3] == [str(END_RAY_JOB)]:
                program.output(*words, timeout_s=RAY_S)


def _last_sign(rundir: RunDir, created: float) -> float:
    """The last time any file of the run was written: the best estimate of its end."""
    times = [created]
    for path in (rundir.lock, rundir.log, rundir.events):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)
