"""The client of a swarm run, watched: its output unchanged, its exit status passed on, its engine monitored.

The Runner starts this program instead of the client and reads its lines like the client's own. It ends the client only
for failures that the client itself would not notice: an engine that dies while booting or goes away during training, a
dead server, an exception that is retried for ever. A server that just does not answer is only reported.

It follows two logs: the client's, for repeated exceptions, and the server's, for the engine's lines. The words that
distinguish the end of training from a crash: modelscope/AgentJet, ajet/backbone/trainer_verl.py (at 81e2b7d7).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from autoresearch.agentjet.child import Child, listening_to_signals, pass_on, shell
from autoresearch.agentjet.engine import CONFIRMED, OFFLINE, TAG, EngineWatch, SwarmFault
from autoresearch.agentjet.gate import boot_failed, up
from autoresearch.agentjet.server import SwarmRun, evidence, read, root_cause, serve, url_variables
from autoresearch.core.metrics.signal import SignalKind, read_step_line
from autoresearch.core.run.hooks import HostServices, Say
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError
from autoresearch.runner.line_patterns import diverged, kl_of
from autoresearch.runner.log_follower import LogFollower
from autoresearch.runner.text import logical_lines

PROGRAMS = ("up", "serve", "client")
EXIT = 3  # exit code of our own programs if the run cannot go on
WAITS_S = 30.0  # ajet's client prints every minute how long it has waited, and never gives up
LAST_S = 5.0  # a dying server's Runner needs a moment to record how it ended
OVER_S = 60.0  # a client may still evaluate or save when its engine is off; after that it hangs
IDLE_S = 10.0  # ... unless it says that it waits for the engine

_IDLE = later(r"ENGINE\.OFFLINE|Engine not ready|Try again")  # repeated for ever by a client that hangs
_WAITS = later(r"already waited (\d{1,6})(?:\.\d+)?s\): ENGINE\.OFFLINE")
_TOTAL = later(r"Total training steps: (\d{1,9})\b")
_RESUMED = later(
    r"Resuming from \S*global_step_[1-9]\d*|Setting global step to [1-9]\d*|Load from checkpoint folder: \S+"
)
_BOOTS = later(r"\[start_engine\] Successfully started training process|engine status to ENGINE\.BOOTING")
_CRASHED = later(r"Traceback \(most recent call last\):|.{1,80}\| (?:Unexpected error|Error running subprocess): ")
_WELL = "Final validation metrics"
_KEPT = 2000  # lines of the server's log that may explain its end
_NEAR = 400  # lines: a traceback farther before the end belongs to some request, and was survived
_MOST = 200  # different exceptions that are counted
_EXCEPTION = later(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)\b(?::\s.*)?\Z")
_RETRIED = later(r"\] Error executing episode: (?P<error>.*?)(?:\. Retrying\.\.\.)?\Z")
_CHANGING = later(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{12,}\b|\d+")
_BENIGN = later(r"(?i)\b404\b.*(?:claim|episode)|(?:claim|episode).*\b404\b|No available episodes to claim")
_BAR = later(r"@ step \d{1,9}: {1,4}\d{1,3}%[^|]*\|[^|]*\| *(\d+/\d+)")


def run_program(program: str, run_dir: str, services: HostServices, say: Say) -> int:
    """Run one of the programs to its end; returns the exit code, 3 for a run that cannot go on (its lines say why)."""
    if program not in PROGRAMS:
        raise UsageError(f"{program!r} is no program of a swarm run", hint=", ".join(PROGRAMS))
    swarm_run = read(run_dir)
    try:
        if program == "serve":
            return pass_on(serve(swarm_run, say))
        if program == "client":
            return client(swarm_run, say)
        up(swarm_run, services, say)
    except SwarmFault as fault:
        for line in fault.lines():
            say(line)
        return EXIT
    return 0


def client(swarm_run: SwarmRun, say: Say) -> int:
    """Run the client to its end; returns its exit code, or 3 if the run cannot go on."""
    poll = swarm_run.server().poll()
    if poll.status != OFFLINE:
        state = f"the engine is {poll.status}" if poll.status else f"no engine status: {poll.trouble}"
        raise SwarmFault("engine_busy", f"{state} before the client was started")
    watched = ClientWatch(swarm_run, say)
    child = shell(swarm_run.spec.command, swarm_run.spec.cwd, {**os.environ, **url_variables(swarm_run.url())})
    try:
        with listening_to_signals() as relay:
            relay.children.append(child)
            returncode = _watch(watched, child)
        watched.look(time.monotonic())  # a client ends when its last step is done, before the next look
        if returncode == 0:
            watched.check_success()
        elif returncode != EXIT and not relay.number:
            watched.report_faults()
    finally:
        child.close()
        watched.close()
    return pass_on(returncode)


def _watch(watched: ClientWatch, child: Child) -> int:
    try:
        while not child.ended(watched.swarm_run.swarm.poll_s):
            if watched.check(time.monotonic()):
                child.end()
                return 0
    except SwarmFault as fault:
        for line in fault.lines():  # before the client's last lines
            watched.say(line)
        child.end()
        return EXIT
    return child.returncode or 0


class ClientWatch:
    """The observed state of one client, its engine and its server."""

    def __init__(self, swarm_run: SwarmRun, say: Say) -> None:
        self.swarm_run = swarm_run
        self.say = say
        self._elsewhere = not swarm_run.swarm.server  # then there is no log of it to read
        self.watch = EngineWatch(pool_rewards=self._elsewhere)
        self.storm = RetryStorm(*swarm_run.swarm.retries)
        self.client_log = _at_the_end(swarm_run.rundir.log)
        self.server_log = ServerLog(swarm_run.server_dir.log)
        self._moved_at = 0.0
        self._gone_at: float | None = None
        self._spoke_at = 0.0  # when the client last printed something that a hanging one does not
        self._idles = False  # its last line says that it waits for the engine
        self._warned = False
        self._complete = False  # the client reported it
        self._waited = 0  # seconds that it reports having waited for an engine that is off

    def check(self, now: float) -> bool:
        """Check everything once; True if all is done though the client hangs. SwarmFault ends the run."""
        self.look(now)
        if self.watch.moved_at != self._moved_at:
            self._moved_at = self.watch.moved_at
            self.storm.reset()
        if self.server_log.booted:
            self.watch.boot_logged(now)
        for line in (line for chunk in self.client_log.poll() for line in logical_lines(chunk)):
            if not line.startswith(TAG):  # the client's own
                self._client_line(now, line)
        resumed = self.server_log.resumed or (f"it begins at step {s}" if (s := self.watch.first_step or 1) > 2 else "")
        if resumed and not self._warned:
            self._warned = True
            self.say(f"{TAG}error resumed: the engine goes on from an earlier run: {resumed}")
        return self._decide(now)

    def look(self, now: float) -> None:
        """Report what engine and pool say, and steps, with their KL, from the server's log."""
        lines = self.watch.update(now, self.swarm_run.server().poll())
        for step, kl in self.server_log.steps():
            lines += self.watch.step_done(step, kl)
        for line in (*lines, *(f"{TAG}nan: {line}" for line in self.server_log.nan_lines())):
            self.say(line)

    def _client_line(self, now: float, line: str) -> None:
        self.storm.line(now, line)
        self._idles = _IDLE.search(line) is not None
        self._spoke_at = self._spoke_at if self._idles else now
        self._complete = self._complete or "Training complete" in line
        waits = _WAITS.search(line)
        self._waited = int(waits[1]) if waits else self._waited

    def _decide(self, now: float) -> bool:
        swarm_run, watch = self.swarm_run, self.watch
        if watch.boot_failed:
            raise boot_failed(swarm_run, self.server_log.begin, now - watch.booting_since)
        if not watch.own and watch.last.status == OFFLINE and self._waited >= WAITS_S:
            text = f"the client waits for an engine that is off, since {self._waited} s: its boot failed unseen"
            raise SwarmFault("boot_failed", text, self.server_log.evidence())
        swarm_run.require_server("while the client ran")
        if storm := self.storm.active(now):
            raise SwarmFault("retry_storm", storm)
        if not watch.gone:
            self._gone_at = None
            return False
        self._gone_at = now if self._gone_at is None else self._gone_at
        self._raise_if_crashed()
        patience = min(IDLE_S, OVER_S) if self._idles else OVER_S
        return now - self._gone_at >= patience and self._hangs(now, patience)

    def _hangs(self, now: float, patience: float = OVER_S) -> bool:
        complete = self._complete or self.server_log.complete(self.watch.done)
        if complete or (self._elsewhere and self.server_log.total is None and self.watch.last_collected):
            if now - self._spoke_at < patience:
                return False  # it saves, plots or uploads
            self._report_last_step()
            self.say(f"{TAG}the engine is off after its last step, and the client does not end by itself")
            if not complete:  # training ends like this, and so does a crash of the optimizer step
                self.say(
                    f"{TAG}error end_unseen: the engine went off after the batch of step {self.watch.done}; this is "
                    "taken for the end of training, as the server's log is elsewhere: look there whether it crashed"
                )
            return True
        text = f"the engine went off after step {self.watch.done}, and {OVER_S:.0f} s later the client still waits"
        raise SwarmFault("engine_offline", text, self.server_log.evidence())

    def _report_last_step(self) -> None:
        """Report the step whose batch was complete when the engine went off, where no log reports it."""
        if self._elsewhere and self.watch.last_collected:
            for line in self.watch.step_done(self.watch.last_collected[0], reward=self.watch.last_collected[1]):
                self.say(line)

    def _raise_if_crashed(self) -> None:
        cause = self.server_log.crash
        if cause and not self._complete and not self.server_log.complete(self.watch.done):
            text = f"the engine went off after step {self.watch.done}: {cause}"
            raise SwarmFault("engine_crashed", text, self.server_log.evidence())

    def report_faults(self) -> None:
        """Report faults of engine or server if the client ended badly before they were seen; its exit code stays."""
        until = time.monotonic() + LAST_S
        try:
            while time.monotonic() < until:
                self.check(time.monotonic())
                if self.watch.answers and not 0 < self.watch.offline < CONFIRMED:
                    return
                time.sleep(0.1)
        except SwarmFault as fault:
            for line in fault.lines():
                self.say(line)

    def check_success(self) -> None:
        """Raise if the engine crashed: a client that is stopped while waiting for it may still exit well."""
        if self.watch.own and self.watch.last.status == OFFLINE:
            self._raise_if_crashed()
            self._report_last_step()

    def close(self) -> None:
        """Close the logs."""
        self.client_log.close()
        self.server_log.close()


class RetryStorm:
    """Counts equal exceptions in a client's log since its last progress.

    AgentJet's client template retries an episode for ever (`auto_retry=True`), so that with a bug in the agent's code
    the client neither exits nor completes a step. ajet's PeriodicDrainThreadPoolExecutor logs each retry as one line,
    `07:34 | retry_wrapper :71 | [PeriodicDrainThreadPoolExecutor] Error executing episode: ... Retrying...`, older
    versions with a traceback (ajet/utils/thread_executors.py at af6b611).
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._seen: dict[str, tuple[int, float, str]] = {}  # text without numbers -> count, first time, last line
        self._bar = ""

    def reset(self) -> None:
        """Record progress (a step, an episode, an evaluation): reset all counts."""
        self._seen.clear()

    def line(self, now: float, text: str) -> None:
        """Take in one stripped line of the client's output; `now` in seconds."""
        if bar := _BAR.search(text):
            if bar[1] != self._bar:
                self.reset()
            self._bar = bar[1]
            return
        retried = _RETRIED.search(text)
        error = (retried["error"] or "an exception without a message") if retried else text
        if not (retried or _EXCEPTION.match(text)) or _BENIGN.search(error):
            return
        key = _CHANGING.sub("#", error)[:200]
        times, first, _ = self._seen.get(key, (0, now, ""))
        if times or len(self._seen) < _MOST:
            self._seen[key] = (times + 1, first, error[:300])

    def active(self, now: float) -> str:
        """The exception of the storm, its count and duration; "" if there is no storm."""
        for times, first, text in self._seen.values():
            if times >= self.most and now - first >= self.seconds:
                return f"{times} times within {now - first:.0f} s, and nothing moved meanwhile: {text}"
        return ""


class ServerLog:
    """The server's log from now on; empty if the log is on another machine."""

    def __init__(self, path: Path) -> None:
        self._follower = _at_the_end(path)
        self.begin = self._follower.offset
        self.total: int | None = None  # steps that the trainer plans
        self.resumed = ""
        self.booted = False
        self._ended_well = False
        self._since = _NEAR + 1  # lines since the last traceback began, or the last line that stands for one
        self._kept: list[str] = []  # at most twice _KEPT
        self._nan: list[str] = []

    def steps(self) -> Iterator[tuple[int, float | None]]:
        """(step, KL) of each training step printed since the last call."""
        for chunk in self._follower.poll():
            for line in logical_lines(chunk):
                self._kept = [*self._kept[-_KEPT:], line] if len(self._kept) > 2 * _KEPT else self._kept
                self._kept.append(line)
                self._since += 1
                yield from self._take(line)

    def nan_lines(self) -> list[str]:
        """Metrics that became NaN, each reported once."""
        found, self._nan = self._nan, []
        return found

    def complete(self, done: int) -> bool:
        """Whether training reached its end: AgentJet's own clients stop when the last step would begin."""
        if self._ended_well and self._since > _NEAR:
            return True
        return self.total is not None and done >= max(1, self.total - 1)

    @property
    def crash(self) -> str:
        """The exception that ended the engine; "" if the log shows none."""
        return (root_cause(self._kept) or "a traceback in the server's log") if self._since <= _NEAR else ""

    def evidence(self) -> tuple[str, ...]:
        """The last lines of the log."""
        return evidence(self._kept, "the server's log")

    def close(self) -> None:
        """Close the file."""
        self._follower.close()

    def _take(self, line: str) -> Iterator[tuple[int, float | None]]:
        if (read := read_step_line(line)) is not None:
            if read.kind is SignalKind.STEP:
                self._nan += [f"{name} at step {read.step}" for name in diverged(dict(read.metrics))]
                yield read.step, kl_of(read.metrics)
            return
        if found := _TOTAL.search(line):
            self.total = int(found[1])
        elif found := _RESUMED.search(line):
            self.resumed = self.resumed or found[0]
        elif _BOOTS.search(line):
            self.booted = True
        elif _CRASHED.match(line):
            self._since = 0
        elif _WELL in line:
            self._ended_well = True


def _at_the_end(path: Path) -> LogFollower:
    try:
        return LogFollower(str(path), path.stat().st_size)
    except OSError:
        return LogFollower(str(path))
