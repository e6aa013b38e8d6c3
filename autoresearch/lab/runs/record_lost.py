"""Records a run whose Runner died without an exit record, after ending what it left alive.

End what a dead Runner left alive: every process that carries the run's id in its environment.

Also daemons that a trainer started and wrote down, as they may have an environment without it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.trainer import Trainer
from autoresearch.errors import EnvironmentUnusable
from autoresearch.launchers.host_sandbox_check import HOST_PIDS
from autoresearch.records import events, exit_record, journal
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.failpoint import failpoint
from autoresearch.records.hostile import read_plain
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.recorded_run import read as read_spec
from autoresearch.records.rundir import RunDir, locked, read_json

if TYPE_CHECKING:
    import psutil

VARIABLE = "AUTORESEARCH_RUN_ID"
SWEEP_S = 10.0  # a process that survives KILL for so long is stuck in the kernel
MARK = "ScriptHash"  # what AgentJet gives every daemon: ajet/utils/smart_daemon.py of modelscope/AgentJet at d20cce0e
CLOCK_S = 2.0  # start times have the resolution of a tick, and the clock may have been set meanwhile

_WRITTEN_DOWN = re.compile(r"(?:^|\.)(?P<mark>[0-9a-f]{8})\.(?P<host>.+)\.[a-z]+\Z")


def sweep(run: str, grace_s: float) -> int:
    """TERM, at most SWEEP_S of grace, KILL until none is left; returns how many processes were ended.

    Processes are identified by (pid, start time), so a reused pid is never hit. tmux servers are spared: ending one
    would end foreign sessions.
    """
    return _end(lambda: carriers(run), min(grace_s, SWEEP_S))


def sweep_companions(files: Iterable[Path], run: str, since: float, *, grace_s: float) -> int:
    """The same for daemons recorded in files `*.HASH.HOST.*`, each with the number of a process group.

    since: wall time of the run's start; older files and processes belong to others. So does a process that carries, or
    has an ancestor that carries, the id of another run. Reused group numbers are not hit.
    """
    written = [path for path in files if _newer(path, since)]
    return _end(lambda: _written_down(written, run, since), grace_s) if written else 0


def _end(living: Callable[[], list[psutil.Process]], grace_s: float) -> int:
    found = set(living())
    for process in found:
        _send(process, kill=False)
    _wait_until_gone(living, grace_s)
    deadline = time.monotonic() + SWEEP_S
    empty = 0
    while empty < 2 and time.monotonic() < deadline:  # during an exec a process shows no environment
        left = living()
        empty = 0 if left else empty + 1
        found.update(left)
        for process in left:
            _send(process, kill=True)
        time.sleep(0.02)
    return len(found)


def carriers(run: str) -> list[psutil.Process]:
    """The living processes of a run; zombies do not count."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(VARIABLE) != run:
                continue
            if _lives(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _newer(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since - CLOCK_S
    except OSError:
        return False


def _written_down(files: Iterable[Path], run: str, since: float) -> list[psutil.Process]:
    """The living processes of these daemons, with all their descendants."""
    import psutil

    marks, groups = set(), dict[int, float]()
    for path in files:
        name = _WRITTEN_DOWN.search(path.name)
        if name is None or name["host"] != os.uname().nodename:
            continue
        marks.add(name["mark"])
        try:
            groups[int(read_plain(path, 64))] = path.stat().st_mtime
        except (OSError, ValueError):
            continue
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if _is_daemon(process, marks, groups, since) and not _is_of_another(process, run):
                found.update([process, *process.children(recursive=True)])
        except (psutil.Error, OSError):
            continue
    return [process for process in found if _lives(process)]


def _is_daemon(process: psutil.Process, marks: set[str], groups: dict[int, float], since: float) -> bool:
    """Whether it carries one of the marks, or existed when its group was written down."""
    born = process.create_time()
    if process.pid == os.getpid() or born < since - CLOCK_S or not _lives(process):
        return False
    if process.environ().get(MARK) in marks:
        return True
    return born <= groups.get(os.getpgid(process.pid), 0.0) + CLOCK_S


def _is_of_another(process: psutil.Process, run: str) -> bool:
    """Whether it or an ancestor carries the id of another run: a Runner is the ancestor of all its processes."""
    import psutil

    for one in (process, *process.parents()):
        try:
            if one.environ().get(VARIABLE, run) != run:
                return True
        except psutil.AccessDenied:  # another user's
            continue
    return False


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith("tmux")
    except psutil.Error:
        return False


def _wait_until_gone(living: Callable[[], list[psutil.Process]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while living() and time.monotonic() < deadline:
        time.sleep(0.05)


def _send(process: psutil.Process, *, kill: bool) -> None:
    import psutil

    try:
        process.kill() if kill else process.terminate()
    except psutil.Error:
        pass


_RECORD = re.compile(rb"(\d+),\d+,(\d+),[^;]*;(.*)")  # facility and level, number, microseconds since the boot
_WORDS = {
    "runner_died": "",
    "rebooted": ", as the machine was started anew",
    "killed_for_memory": ", killed by the kernel because memory ran out",
}


def record_lost(rundir: RunDir, *, reason: str = "", clock: Callable[[], float] = time.time) -> None:
    """Write the exit record of a run whose Runner died without one, after ending its leftover processes.

    Holding the Runner's own lock proves that none lives and keeps a late one from starting. That holds for local runs
    only: a remote run is settled by its Follower alone.
    """
    if rundir.order.exists():
        return
    with locked(rundir.lock, blocking=False) as alone:
        if not alone or rundir.exit_record.exists():
            return
        spec = read_spec(rundir)
        identity = read_json(rundir.runner)
        grace_s = min(spec.limits.grace_s, SWEEP_S)
        killed = sweep(spec.run, grace_s)
        killed += _end_companions(spec, grace_s)
        _end_ray_job(spec)
        if spec.swarm:
            _end_server(RecordedRun(rundir, spec))
        rundir.environment.unlink(missing_ok=True)  # the Runner never read it, and it may hold secrets
        failpoint("adopt.swept")
        if exit_record.recover(rundir, spec.run):
            return
        now = clock()
        if identity is None:
            ending, cause = Ending.LAUNCH_FAILED, "launch_interrupted"
            reason = reason or "the command that launched it died before the Runner started"
        else:
            ending, cause = Ending.LOST, _why_it_died(identity)
            who = f"the Runner (pid {identity.get('pid')})"
            reason = f"{who} died without an exit record{_WORDS[cause]}; {killed} processes of the run were ended"
            if rundir.foreign_exit.exists():
                reason += "; another exit record, which it did not write, is in exit.foreign.json"
        last = _last_sign(rundir, spec.created)
        seen = _first_step(rundir)
        exit_record.write(
            rundir,
            ExitRecord(
                run=spec.run,
                ending=ending,
                reason=reason,
                cause=cause,
                started=spec.created,
                ended=min(now, last),
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
    """The cause of the Runner's death: `rebooted`, `killed_for_memory`, or just `runner_died`."""
    boot = identity.get("boot_id")
    if boot and boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
        return "rebooted"
    pid, started = int(identity.get("pid") or 0), float(identity.get("started_boot") or 0)
    return "killed_for_memory" if killed_for_memory(pid, started) else "runner_died"


def _end_server(recorded: RecordedRun) -> None:
    """End the server of a swarm mode run: it has a Runner of its own, which may live."""
    if trainer := _trainer_of(recorded.spec):
        from autoresearch.trainers import ask

        log, run_dir = Path(recorded.spec.result_dir), str(recorded.rundir.path)
        ask.server(trainer).stop_server(run_dir, sweep, lambda text: journal.append(log, text))


def _trainer_of(spec: RunSpec) -> Trainer | None:
    """The trainer of a recorded run; None for one that only a newer version knows."""
    from autoresearch.trainers import registry

    return registry.by_name(spec.trainer) if spec.trainer in registry.NAMES else None


def _end_companions(spec: RunSpec, grace_s: float) -> int:
    """End daemons that its trainer started and wrote down; returns how many processes were ended."""

    trainer = _trainer_of(spec)
    patterns = trainer.companions() if trainer else ()
    written = [path for pattern in patterns for path in Path(spec.cwd).glob(pattern)]
    return sweep_companions(written, spec.run, spec.created, grace_s=grace_s)


def _end_ray_job(spec: RunSpec) -> None:
    """End the job that the Runner would have ended; the blueprint's own cleanup commands are not run."""
    for command in spec.cleanup[:1]:
        if "end_ray_job.py" in command or "end_nrl_run.py" in command:
            import shlex

            from autoresearch.lab.resolve.trainer_settings import END_NRL_RUN, END_RAY_JOB, RAY_S
            from autoresearch.launchers import program

            words = shlex.split(command)
            if words[2:3] in ([str(END_RAY_JOB)], [str(END_NRL_RUN)]):
                program.output(*words, timeout_s=RAY_S)


def _last_sign(rundir: RunDir, created: float) -> float:
    """The last time any file of the run was written: the best estimate of its end."""
    times = [created]
    for path in (rundir.lock, rundir.log, rundir.events):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times)


def _first_step(rundir: RunDir) -> events.Event | None:
    """The first step event, if the dead Runner reported one."""
    return next((e for e in events.read(rundir.events)[0] if e.event == "first_step"), None)


def killed_for_memory(pid: int, started: float) -> bool:
    """Whether a process that started `started` seconds after the boot (CLOCK_BOOTTIME) was killed.

    False also if the log cannot be read: it is for root, and its process ids are those of the machine.
    """
    try:
        if str(Path("/proc/self/ns/pid").readlink()) != HOST_PIDS:
            return False
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    # The log's clock stops while the machine sleeps, so it lags by at most the total time of sleep.
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    try:
        return says_killed(_records(log), pid, started - slept)
    finally:
        os.close(log)


def says_killed(records: Iterable[bytes], pid: int, since: float) -> bool:
    """The same for records as /dev/kmsg gives them; those older than `since` (seconds) are another process's."""
    words = f"Killed process {pid} (".encode()
    for record in records:
        found = _RECORD.match(record)
        # programs can write to the log too, but not as the kernel (facility 0)
        if found and int(found[1]) >> 3 == 0 and int(found[2]) >= since * 1e6 and words in found[3]:
            return True
    return False


def _records(log: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(log, 8192)
        except BrokenPipeError:  # a record was overwritten before it was read
            continue
        except OSError:  # no more records
            return
