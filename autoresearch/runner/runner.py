"""The Runner's main program: one run, from its first file to its exit record."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import time

from .basics import (
    RUN_ID,
    SCHEMA,
    LaunchError,
    clock,
    failpoint,
    is_locked,
    open_append,
    parse_object,
    read_file,
    take_lock,
    wall,
    write_all,
)
from .event_log import EventLog
from .exit_record import exit_record, why_it_ended
from .gpu_lease import QUESTION, VISIBLE, Leases
from .gpu_memory import Gpus, answer_of
from .limits_and_stops import StopDecision, Stopping
from .listener import Listener
from .loop import Loop, no_more_wakeups
from .masking import learn, learn_environment, mask_text, mask_values, secrets_in
from .processes import start_ticks
from .spawn import Command, evaluation_environment, how_it_ended, trainer_environment
from .spec import Spec
from .terminal_mirror import release_tmux_server
from .text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOKED_AT_S = 0.5  # a lock held longer than this is held by a Runner, not by `is_locked`
SCHEDULER_S = 0.2  # a scheduler signals trainer and Runner together: the Runner's signal may arrive this much later
CONTROLLER_S = 60.0  # a controller that has not collected a run by then hangs, or was stopped
FULL_BYTES = 1 << 16  # a disk with less free space counts as full
LIST_S = 30.0  # nvidia-smi without a persistence daemon takes seconds on eight GPUs
LEFTOVER_LOOK_S = 1.0  # within which what trains on prints something
LEFTOVER_STEPS_S = 10.0  # ... and then another step
LEFT_TRAINING = "the command ended while what it started was still printing steps; ended by us"
LEFTOVER_GRACE_S = 10.0  # for what a trainer that ended by itself left behind


class Runner:
    """Executes the phases of a run in order; `loop` handles events meanwhile."""

    def __init__(self, run_dir: str, runner_spec: Spec, lock: int) -> None:
        self.dir = run_dir
        self.spec = runner_spec
        self.born_wall = wall()
        self.event_log = EventLog(run_dir, runner_spec.journal)
        self.listener = Listener(run_dir, runner_spec, self.event_log)
        self.stopping = Stopping(run_dir, runner_spec, self.event_log, self.listener)
        self.loop = Loop(run_dir, runner_spec, lock, self.listener, self.stopping)
        self.leases = Leases(runner_spec.run, runner_spec.lease_shares)
        self.gpus = Gpus()
        self.log = -1
        self.env: dict[str, str] = {}
        self.secrets: dict[str, str] = {}  # variables of `env` whose values must not appear in records
        self.failure = ""  # an error of the Runner itself
        self.full_disk = ""  # a clause about the disk that was full when the trainer ended
        self.cleanup: list[dict[str, Any]] = []
        self.evaluation_env: dict[str, str] = {}
        self.evaluation: dict[str, Any] | None = None  # its result; None if there was none
        if runner_spec.evaluate:  # now: an upgrade may replace the file while the run goes on
            from . import evaluation as evaluation

    def run(self) -> int:
        """Execute all phases in order, even after an error of the Runner in one of them; returns the exit status."""
        start = (self.open, self.live)
        finish = (self.end_tree, self.read_the_rest, self.evaluate, self.clean_up, self.wait_for_gpus)
        for part in start + finish:
            try:
                part()
            except LaunchError as error:
                cause, reason = error.args
                self.stopping.decision = self.stopping.decision or StopDecision("launch_failed", cause, reason)
                self.event_log.emit("launch_failed", f"could not be launched: {reason}", cause=cause)
            except Exception as error:  # noqa: BLE001 - the run's only record must report what happened
                self.note_failure(part.__name__, error)
        self.leases.release()  # before the record is written: a process waiting for it may need the GPUs at once
        record = exit_record(
            *(self.spec.run, self.loop, self.failure, self.full_disk),
            gpu_memory_bytes=self.gpus.peak,
            gpu_memory_returned=self.gpus.returned,
            gpu_used=self.gpus.used,
            gpu_count=len(self.gpus.uuids),
            cleanup=self.cleanup,
            evaluation=self.evaluation,
            log_bytes=os.fstat(self.log).st_size if self.log >= 0 else 0,
        )
        failpoint("runner.before_exit_record")
        removed = not os.path.exists(f"{self.dir}/spec.json")  # by `git clean`, for one
        records = f"its records were removed while it ran: {self.dir}" if removed else f"records: {self.dir}"
        try:
            self.event_log.record_exit(record)
            self.event_log.emit("recorded", f"recorded: {record['ending']}", ending=record["ending"])
        except OSError as error:
            self.event_log.emit("warning", records if removed else f"the exit record could not be written: {error}")
        failpoint("runner.after_exit_record")
        shown = "" if record["returncode"] is None else f", exit code {record['returncode']}"
        self.loop.mirror.finish(f"== {self.spec.run}: {record['ending']}{shown}; {records} ==")
        self.hand_over(self.stopping.later.cause if self.stopping.later else record["cause"])
        return 0 if record["ending"] == "finished" else int(record["returncode"] or 1)

    def open(self) -> None:
        """Open records and log, read the environment, learn secrets, compile patterns. Raises LaunchError."""
        try:
            self.event_log.reserve()
            self.log = open_append(f"{self.dir}/run.log")
        except OSError as error:
            raise LaunchError("unwritable", f"the run directory cannot be written: {error.strerror}") from None
        self.env = trainer_environment(self.dir, self.spec)
        self.secrets = learn_environment(self.env)
        for command in (self.spec.command, *self.spec.prepare, *self.spec.evaluate, *self.spec.cleanup):
            learn(secrets_in(command))
        self.evaluation_env = evaluation_environment(self.env)
        self.write_identity()
        self.loop.mirror.say(f"== {self.spec.run}: {plain(self.spec.command)} ==")
        try:
            self.listener.learn()
        except re.error as error:
            raise LaunchError("bad_pattern", f"a signal's pattern cannot be compiled: {error}") from None
        failpoint("runner.started")

    def live(self) -> None:
        """Take the leases, run the prepare commands and the trainer, until it ends or must be ended."""
        loop, spec, stopping = self.loop, self.spec, self.stopping
        stopping.check_file()
        if stopping.decision or self.failure:
            return
        self.lease_gpus()
        if stopping.decision:  # while nvidia-smi hung
            return
        self.gpus.measure_before(loop.tick)
        self.prepare()
        if stopping.decision:
            return
        self.listener.copy_to(self.log, self.loop.tree.glance)
        pid = loop.start(Command(spec.start, spec.cwd, self.env, spec.inside), self.log, self.leases.fds)
        loop.started_trainer(pid)
        self.gpus.start()
        self.write_identity()
        self.event_log.emit("started", f"the trainer started (pid {pid})", pid=pid, runner=os.getpid())
        failpoint("runner.trainer_started")
        self.watch(pid)

    def lease_gpus(self) -> None:
        """Lease the GPUs of the run, and show them to every command from now on. Raises LaunchError."""
        if not self.spec.gpus:
            return
        listed = answer_of(QUESTION, self.env, self.loop.tick, clock() + LIST_S)
        shown = self.leases.lease(self.spec, listed or "", self.env)
        self.env |= shown
        self.evaluation_env |= shown
        # measured only where they are not shared: otherwise their memory says nothing about this run
        self.gpus = Gpus(self.leases.uuids if self.spec.lease_shares == 1 else (), self.env)
        self.event_log.emit("leased", f"leased for it: GPU {shown[VISIBLE]}", gpus=self.leases.uuids)
        if not shown[VISIBLE].replace(",", "").isdecimal():
            text = "its GPUs are shown by UUID, as their numbers are uncertain: vLLM reads numbers only"
            self.event_log.emit("warning", text)
        self.write_identity()

    def watch(self, pid: int) -> None:
        """Run the loop until a command has ended or the run must end."""
        while self.loop.runs(pid) and not self.stopping.decision:
            limit = self.stopping.next_limit()
            self.loop.tick(min(limit, self.gpus.next_at))
            if clock() >= self.gpus.next_at:
                self.gpus.look(self.loop.tick, limit)
            if self.loop.runs(pid):
                self.stopping.check_limits()

    def prepare(self) -> None:
        """Run the prepare commands in order, then the check of the worktree. Raises LaunchError if one fails."""
        for command in self.spec.prepare:
            begun = os.fstat(self.log).st_size
            if words := self.waited(self.start(command, self.spec.cwd)):
                printed = self.last_line_since(begun)
                raise LaunchError("prepare_failed", f"the prepare command `{plain(command)}` {words}{printed}")
            if self.stopping.decision:
                return
        if self.spec.before_training:
            check = Command(self.spec.before_training, self.dir, {**os.environ, RUN_ID: self.spec.run})
            if words := self.waited(self.loop.start(check, self.log)):
                raise LaunchError("foreign_commit", f"its worktree is not as it was committed: the check {words}")
        if self.spec.prepare:
            took = round(clock() - self.event_log.origin, 3)
            self.event_log.emit("prepared", f"prepared in {took:.1f} s", seconds=took)

    def waited(self, pid: int) -> str:
        """Wait for a command; returns how it failed, or "" if it succeeded or the run must end."""
        self.watch(pid)
        self.stopping.check_limits()
        code, _, words = how_it_ended(self.loop.statuses[pid])
        return "" if self.stopping.decision or code == 0 else words

    def last_line_since(self, offset: int) -> str:
        """ ": " and the last line of the log after an offset, which often says why a command failed; "" without one."""
        try:
            with open(f"{self.dir}/run.log", "rb") as file:
                file.seek(max(offset, os.fstat(file.fileno()).st_size - 8192))
                lines = [line for line in map(plain, file.read().splitlines()) if line and line[:2] != "$ "]
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""

    def start(self, command: str, cwd: str) -> int:
        """Start a prepare or cleanup command, with a line in the log; returns its pid."""
        write_all(self.log, b"$ " + mask_text(command).encode("utf-8", "replace") + b"\n")
        return self.loop.start(Command(command, cwd, self.env, self.spec.inside), self.log)

    def end_tree(self) -> None:
        """End all processes of the run by TERM, grace period, KILL; `keep_children` spares them after a normal end."""
        loop, tree = self.loop, self.loop.tree
        self.full_disk = self.look_for_full_disk()
        by_itself = self.stopping.decision is None and not self.failure
        members = tree.alive() or list(tree.glance())
        if by_itself and self.spec.keep_children:
            tree.kept = set(members)
        elif members or tree.unsure:
            if by_itself and members and self.trains_on():
                self.stopping.decision = StopDecision("finished", "left_training", LEFT_TRAINING)
            grace_s = min(self.spec.grace_s, LEFTOVER_GRACE_S) if by_itself else self.spec.grace_s
            tree.terminate(grace_s, loop.tick, lambda: loop.hurry)
            if not (tree.term_sent or tree.kill_sent or tree.left):
                return
            whose = "what the trainer left behind" if by_itself else "the trainer and what it started"
            text = f"ended {whose}: TERM to {tree.term_sent}, KILL to {tree.kill_sent}"
            self.event_log.emit("killed", text, left=tree.left, term_sent=tree.term_sent, kill_sent=tree.kill_sent)

    def trains_on(self) -> bool:
        """Whether what a command that exited with 0 left behind prints another step; waits for it for a while."""
        loop, pace = self.loop, self.listener.pace
        if how_it_ended(loop.statuses.get(loop.trainer))[0] != 0:
            return False
        self.listener.scan(LEFTOVER_LOOK_S)
        steps, printed, began = pace.steps, pace.output_at, clock()
        while clock() - began < (LEFTOVER_STEPS_S if pace.output_at > printed else LEFTOVER_LOOK_S):
            if pace.steps > steps or not (loop.tree.alive() or list(loop.tree.glance())):
                break
            loop.tick(clock() + 0.05)
        return pace.steps > steps

    def look_for_full_disk(self) -> str:
        """A clause naming a full disk, or "". Checked at the trainer's end, because cleaning up may free space."""
        for path in (self.dir, self.spec.result_dir, "/tmp"):
            try:
                found = os.statvfs(path)
            except (OSError, ValueError):
                continue
            free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
            if found.f_blocks and (free * found.f_frsize < FULL_BYTES or (found.f_files and not found.f_ffree)):
                return f"the disk that holds {path} is full"
        return f"the disk that holds {self.dir} is full" if self.event_log.disk_full else ""

    def read_the_rest(self) -> None:
        """Scan the last output, some of which arrives after the trainer's end (Ray's); await a scheduler's signal."""
        code = how_it_ended(self.loop.statuses.get(self.loop.trainer))[0]
        if code in {128 + s for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)}:
            until = clock() + SCHEDULER_S
            while clock() < until and not self.stopping.decision:
                self.loop.tick(until)
        self.listener.finish()

    def evaluate(self) -> None:
        """Run the evaluation if the run finished or reached its time limit; its ending is fixed before that."""
        status = self.loop.statuses.get(self.loop.trainer)
        why = why_it_ended(self.stopping.decision, self.failure, status)
        if why.cause == "left_training" or not os.path.isdir(self.dir):  # it was removed, and nothing can be recorded
            return
        cut = why.ending == "max_time" and self.spec.timed_by not in ("timeout", "deadline")
        if not (self.spec.evaluate and self.loop.trainer and (cut or why.ending == "finished")):
            return
        self.stopping.decision = why
        self.evaluation = {"returncode": None, "seconds": 0.0, "reason": "the Runner could not do it"}
        self.wait_for_gpus()
        from .evaluation import evaluate  # takes memory, and few runs need it

        failpoint("runner.before_evaluation")
        self.evaluation = evaluate(self.dir, self.spec, self.loop, self.evaluation_env)
        failpoint("runner.evaluated")
        self.gpus.returned = None  # to be measured again after the evaluation

    def clean_up(self) -> None:
        """Run the cleanup commands after any ending, within `cleanup_s` in all."""
        until = clock() + self.spec.cleanup_s
        cwd = self.spec.cwd if os.path.isdir(self.spec.cwd) else self.dir  # it may be missing
        for command in self.spec.cleanup:
            code = None
            try:
                if clock() < until:
                    pid = self.start(command, cwd)
                    while self.loop.runs(pid) and clock() < until:
                        self.loop.tick(until)
                    code, _, _ = how_it_ended(self.loop.statuses[pid])
            except (LaunchError, OSError) as error:
                self.event_log.emit("warning", f"a cleanup command could not start: {error}")
            self.cleanup.append({"command": command, "returncode": code})
            self.loop.tree.kill(self.loop.tick)
        if self.cleanup:
            failed = sum(1 for done in self.cleanup if done["returncode"] != 0)
            self.event_log.emit("cleaned", f"cleaned up: {len(self.cleanup)} commands, {failed} failed", failed=failed)

    def wait_for_gpus(self) -> None:
        """Wait until the GPUs' memory is freed, because the next run needs it."""
        if self.loop.trainer:
            self.gpus.wait_for_return(self.loop.tick)

    def hand_over(self, cause: str) -> None:
        """Close the lock; replace this process by the collector, if the spec names one and no controller collects."""
        no_more_wakeups()
        if cause == "session_killed":
            release_tmux_server()
        os.close(self.loop.lock)
        if not self.spec.collector:
            self.clear_spec()
            return
        if self.controller_collects():
            return
        env = {key: value for key, value in {**os.environ, **self.secrets}.items() if key != RUN_ID}
        try:
            out = open_append(f"{self.dir}/collect.log")
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.nice(10)  # a watching command collects sooner, and may already be starting the next run
            os.execve(self.spec.collector[0], self.spec.collector, env)
        except OSError as error:
            self.event_log.emit("warning", f"the collector could not be started: {error}")

    def controller_collects(self) -> bool:
        """Whether a campaign's controller collects the run, which needs no second interpreter; waits until it has.

        False if it dies before that, or takes too long: it may have been stopped.
        """
        collected, until = f"{self.dir}/collected.json", clock() + CONTROLLER_S
        while not (done := os.path.exists(collected)) and is_locked(self.spec.controller) and clock() < until:
            time.sleep(0.05)
        return done

    def clear_spec(self) -> None:
        """Mask the secrets in spec.json, which is not executed again; if there is a collector, that does it."""
        given = parse_object(read_file(f"{self.dir}/spec.json"))
        if given and mask_values(given) != given:
            self.event_log.write_json("spec.json", given)

    def write_identity(self) -> None:
        """Write runner.json: the identity of Runner and trainer, unambiguous across pid reuse and reboots."""
        trainer = self.loop.trainer
        value = {
            "schema": SCHEMA,
            "run": self.spec.run,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "trainer_pid": trainer or None,
            "trainer_start_ticks": start_ticks(trainer) if trainer else None,
            "boot_id": read_file("/proc/sys/kernel/random/boot_id").decode().strip(),
            "host": os.uname().nodename,
            "started": self.born_wall,
            "started_boot": self.event_log.origin,
            "trainer_started_boot": self.listener.pace.started or None,
            "gpus": self.leases.uuids,
        }
        self.event_log.write_json("runner.json", value)

    def note_failure(self, part: str, error: Exception) -> None:
        """Note an error of the Runner itself: the run is ended, and its record holds the traceback."""
        import traceback  # takes memory, and is rarely needed

        self.failure = self.failure or f"the Runner failed in {part}: {traceback.format_exc()[-2500:]}"
        self.event_log.emit("error", f"the Runner failed in {part}: {error!r}", kind="runner_error")


def refuse(status: int, sentence: str) -> int:
    """Print why nothing was started to stderr; returns the exit status."""
    sys.stderr.write(sentence + "\n")
    return status


def main(argv: list[str]) -> int:
    """Execute the run of a run directory; returns the exit status (see the package's docstring)."""
    if len(argv) != 1:
        return refuse(2, "usage: python -S -E -s RUNNER_DIRECTORY RUN_DIR")
    run_dir = os.path.abspath(argv[0])
    given = parse_object(read_file(f"{run_dir}/spec.json"))
    if not given.get("run") or not given.get("command"):
        return refuse(4, f"{run_dir} holds no readable spec.json.")
    spec = Spec(given)
    if os.environ.get(RUN_ID, spec.run) != spec.run:
        # Started inside another run: set this run's id, so that the other Runner's cleanup spares this process.
        again = [sys.executable, "-S", "-E", "-s", os.path.dirname(os.path.abspath(__file__)), run_dir]
        os.execve(sys.executable, again, {**os.environ, RUN_ID: spec.run})
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # descriptors 0 to 2 must not be used for the Runner's files
    os.close(fd)
    lock = os.open(f"{run_dir}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not take_lock(lock, fcntl.LOCK_EX, LOOKED_AT_S):
        return refuse(5, f"Another Runner holds {run_dir}.")
    if os.path.exists(f"{run_dir}/exit.json"):
        return refuse(5, f"The run in {run_dir} is over: it has an exit record.")
    if parse_object(read_file(f"{run_dir}/runner.json")).get("trainer_pid"):
        return refuse(5, f"The run in {run_dir} was started before, by a Runner that died: it is lost.")
    if spec.claim and not claim(run_dir):
        return refuse(5, f"The run in {run_dir} was started before, by another Runner.")
    return Runner(run_dir, spec, lock).run()


def claim(run_dir: str) -> bool:
    """Create the claim file; False if it exists. O_EXCL works even where another machine does not see the lock."""
    try:
        fd = os.open(f"{run_dir}/claim", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    write_all(fd, f"{os.uname().nodename} {os.getpid()}\n".encode())
    os.close(fd)
    return True
