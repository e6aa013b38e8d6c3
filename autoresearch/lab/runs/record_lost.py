"""Records a run whose Runner died without an exit record, after ending what it left alive.

That is every process that carries the run's id in its environment, and daemons that a trainer started and wrote down,
which may have an environment without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.regex import later
from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import events, exit_record, journal
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.hostile import read_plain
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.recorded_run import read as read_spec
from autoresearch.records.rundir import RunDir, locked, read_json
from autoresearch.runner import processes
from autoresearch.runner.basics import RUN_ID as RUN_ID
from autoresearch.runner.basics import clock, failpoint
from autoresearch.runner.processes import Table, process_table, run_id_of, variable_of

SWEEP_S = 10.0  # a process that survives KILL for so long is stuck in the kernel
MARK = "ScriptHash"  # what AgentJet gives every daemon: ajet/utils/smart_daemon.py of modelscope/AgentJet at d20cce0e
CLOCK_S = 2.0  # start times have the resolution of a tick, and the clock may have been set meanwhile

_WRITTEN_DOWN = later(r"(?:^|\.)(?P<mark>[0-9a-f]{8})\.(?P<host>.+)\.[a-z]+\Z")


def sweep(run: str, grace_s: float) -> int:
    """TERM, at most SWEEP_S of grace, KILL until none is left; returns how many processes were ended."""
    return _end(lambda: carriers(run), min(grace_s, SWEEP_S))


def sweep_companions(files: Iterable[Path], run: str, since: float, *, grace_s: float) -> int:
    """The same for daemons recorded in files `*.HASH.HOST.*`, each with the number of a process group.

    since: wall time of the run's start; older files and processes belong to others. So does a process that carries, or
    has an ancestor that carries, the id of another run. Reused group numbers are not hit.
    """
    marks, groups = set(), dict[int, float]()
    for path in files:
        name = _WRITTEN_DOWN.search(path.name)
        with contextlib.suppress(OSError, ValueError):
            written = path.stat().st_mtime
            if name and name["host"] == os.uname().nodename and written >= since - CLOCK_S:
                marks.add(name["mark"])
                groups[int(read_plain(path, 64))] = written
    return _end(lambda: _daemons(marks, groups, run, since), grace_s) if marks else 0


def _end(living: Callable[[], list[int]], grace_s: float) -> int:
    """Each process is looked for anew before it is sent anything, so a number that was given again is never hit."""
    found = set(living())
    processes.send(found, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while living() and time.monotonic() < until:
        time.sleep(0.05)
    until, empty = time.monotonic() + SWEEP_S, 0
    while empty < 2 and time.monotonic() < until:  # one that forks may have been missed by a single look
        left = living()
        empty = 0 if left else empty + 1
        found.update(left)
        processes.send(left, signal.SIGKILL)
        time.sleep(0.02)
    return len(found)


def carriers(run: str) -> list[int]:
    """The living processes of a run. tmux servers are spared: ending one would end foreign sessions."""
    return [pid for pid in _others(process_table()) if run_id_of(pid) == run]


def _others(table: Table) -> Iterator[int]:
    """The living processes but this one and tmux's."""
    for pid, (name, state, _) in table.items():
        if pid != os.getpid() and not name.startswith(b"tmux") and not processes.is_dead(pid, state):
            yield pid


def _lineage(pid: int, table: Table) -> Iterator[int]:
    """A process and its ancestors."""
    while pid in table:
        yield pid
        pid = table[pid][2]


def _daemons(marks: set[str], groups: Mapping[int, float], run: str, since: float) -> list[int]:
    """The living daemons that carry a mark, or existed when their group was written down, and what is below them."""
    table, found = process_table(), set()
    for pid in _others(table):
        born = time.time() - clock() + (processes.start_ticks(pid) or 0) / os.sysconf("SC_CLK_TCK")
        with contextlib.suppress(OSError):
            ours = variable_of(pid, MARK) in marks or born <= groups.get(os.getpgid(pid), 0.0) + CLOCK_S
            runs = {run_id_of(one) for one in _lineage(pid, table)} if ours else set()
            if ours and born >= since - CLOCK_S and runs <= {"", run}:
                found.add(pid)
    return [pid for pid in _others(table) if not found.isdisjoint(_lineage(pid, table))]


_RECORD = later(rb"(\d+),\d+,(\d+),[^;]*;(.*)")  # facility and level, number, microseconds since the boot
_WORDS = {
    "runner_died": "",
    "rebooted": ", as the machine was started anew",
    "killed_for_memory": ", killed by the kernel because memory ran out",
}


def record_lost(rundir: RunDir, *, reason: str = "") -> None:
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
            if rundir.foreign_exit.exists():
                reason += "; another exit record, which it did not write, is in exit.foreign.json"
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
    """The cause of the Runner's death: `rebooted`, `killed_for_memory`, or just `runner_died`."""
    boot = identity.get("boot_id")
    if boot and boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
        return "rebooted"
    pid, started = int(identity.get("pid") or 0), float(identity.get("started_boot") or 0)
    return "killed_for_memory" if killed_for_memory(pid, started) else "runner_died"


def _end_leftovers(recorded: RecordedRun) -> int:
    """End what is left of it and of what its trainer started; returns how many processes were ended."""
    from autoresearch.trainers import ask, registry

    spec, grace_s = recorded.spec, min(recorded.spec.limits.grace_s, SWEEP_S)
    killed = sweep(spec.run, grace_s)
    trainer = registry.by_name(spec.trainer) if spec.trainer in registry.NAMES else None  # else a newer version's
    if trainer:
        written = [path for pattern in trainer.companions() for path in Path(spec.cwd).glob(pattern)]
        killed += sweep_companions(written, spec.run, spec.created, grace_s=grace_s)
    _end_ray_job(spec)
    if trainer and spec.swarm:  # its server has a Runner of its own, which may live
        log, run_dir = Path(spec.result_dir), str(recorded.rundir.path)
        ask.server(trainer).stop_server(run_dir, sweep, lambda text: journal.append(log, text))
    return killed


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


def killed_for_memory(pid: int, started: float) -> bool:
    """Whether a process that started `started` seconds after the boot (CLOCK_BOOTTIME) was killed.

    False also if the log cannot be read: it is for root, and its process ids are those of the machine.
    """
    try:
        from autoresearch.launchers.host_sandbox_check import HOST_PIDS

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
