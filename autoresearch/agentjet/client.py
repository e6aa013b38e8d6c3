"""The client of a swarm run, watched: its output unchanged, its exit status passed on, its engine monitored.

The Runner starts this program instead of the client and reads its lines like the client's own. It ends the client only
for failures that the client itself would not notice: an engine that dies while booting or goes away during training, a
dead server, an exception that is retried for ever. A server that just does not answer is only reported.
"""

from __future__ import annotations

import os
import re
import time

from autoresearch.agentjet import server_session
from autoresearch.agentjet.child import Child, listening_to_signals, pass_on, shell
from autoresearch.agentjet.engine_status import OFFLINE
from autoresearch.agentjet.engine_watch import CONFIRMED, TAG, EngineWatch
from autoresearch.agentjet.fault import EXIT, SwarmFault
from autoresearch.agentjet.follow_logs import ClientLog, RetryStorm, ServerLog
from autoresearch.agentjet.gate import boot_failed
from autoresearch.agentjet.swarm_run import SwarmRun, url_variables
from autoresearch.agentjet.up import server_died
from autoresearch.core.run.server import Say

_IDLE = re.compile(r"ENGINE\.OFFLINE|Engine not ready|Try again")  # repeated for ever by a client that hangs
_WAITS = re.compile(r"already waited (\d{1,6})(?:\.\d+)?s\): ENGINE\.OFFLINE")

WAITS_S = 30.0  # ajet's client prints every minute how long it has waited, and never gives up
LAST_S = 5.0  # a dying server's Runner needs a moment to record how it ended
OVER_S = 60.0  # a client may still evaluate or save when its engine is off; after that it hangs
IDLE_S = 10.0  # ... unless it says that it waits for the engine


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
        self.client_log = ClientLog(swarm_run.rundir.log)
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
        for line in self.client_log.lines():
            self.storm.line(now, line)
            self._idles = _IDLE.search(line) is not None
            self._spoke_at = self._spoke_at if self._idles else now
            self._complete = self._complete or "Training complete" in line
            waits = _WAITS.search(line)
            self._waited = int(waits[1]) if waits else self._waited
        self._warn_of_resume()
        return self._decide(now)

    def look(self, now: float) -> None:
        """Report what engine and pool say, and steps, with their KL, from the server's log."""
        for line in self.watch.update(now, self.swarm_run.server().poll()):
            self.say(line)
        for step, kl in self.server_log.steps():
            for line in self.watch.step_done(step, kl):
                self.say(line)
        for line in self.server_log.nan_lines():
            self.say(f"{TAG}nan: {line}")

    def _warn_of_resume(self) -> None:
        resumed = self.server_log.resumed or (f"it begins at step {s}" if (s := self.watch.first_step or 1) > 2 else "")
        if resumed and not self._warned:
            self._warned = True
            self.say(f"{TAG}error resumed: the engine goes on from an earlier run: {resumed}")

    def _decide(self, now: float) -> bool:
        swarm_run, watch = self.swarm_run, self.watch
        if watch.boot_failed:
            raise boot_failed(swarm_run, self.server_log.begin, now - watch.booting_since)
        if not watch.own and watch.last.status == OFFLINE and self._waited >= WAITS_S:
            text = f"the client waits for an engine that is off, since {self._waited} s: its boot failed unseen"
            raise SwarmFault("boot_failed", text, tuple(self.server_log.evidence()))
        if swarm_run.swarm.starts_session and (ended := server_session.how_it_ended(swarm_run)):
            raise server_died(swarm_run, f"ended while the client ran: {ended}")
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
            if not complete:
                self._report_unseen_end()
            return True
        text = f"the engine went off after step {self.watch.done}, and {OVER_S:.0f} s later the client still waits"
        raise SwarmFault("engine_offline", text, tuple(self.server_log.evidence()))

    def _report_unseen_end(self) -> None:
        """Training ends like this, and so does a crash of the optimizer step: only the server's log tells which."""
        self.say(
            f"{TAG}error end_unseen: the engine went off after the batch of step {self.watch.done}; this is taken for "
            "the end of training, as the server's log is elsewhere: look there whether it crashed"
        )

    def _report_last_step(self) -> None:
        """Report the step whose batch was complete when the engine went off, where no log reports it."""
        if self._elsewhere and self.watch.last_collected:
            for line in self.watch.step_done(self.watch.last_collected[0], reward=self.watch.last_collected[1]):
                self.say(line)

    def _raise_if_crashed(self) -> None:
        cause = self.server_log.crash
        if cause and not self._complete and not self.server_log.complete(self.watch.done):
            text = f"the engine went off after step {self.watch.done}: {cause}"
            raise SwarmFault("engine_crashed", text, tuple(self.server_log.evidence()))

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
