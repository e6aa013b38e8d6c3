"""Before the client starts: a server that answers, an engine that is off, and one episode that works.

`up` is a `prepare` step of the run: its output goes to the run's log, and any failure ends the launch. The one-episode
check is the blueprint's own script: it boots the engine, claims an episode, runs the agent on it and aborts it. A pass
is stored by a hash of all its inputs, so that the same check is not repeated.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import time
from pathlib import Path

from autoresearch.agentjet import server
from autoresearch.agentjet.child import Child, listening_to_signals, shell
from autoresearch.agentjet.engine import OFFLINE, ROLLING, TAG, EnginePoll, EngineWatch, SwarmFault
from autoresearch.agentjet.server import SwarmRun, evidence, log_lines, port_of
from autoresearch.core.run.hooks import HostServices, Say
from autoresearch.core.text.regex import later
from autoresearch.records.files import write_json
from autoresearch.records.hostile import open_readable
from autoresearch.runner.metric_lines import value_of

LOOK_S = 1.0
FIRST_LOOKS_S = 0.1  # a server is up within seconds; the first check is early

_REWARD = later(r"(?i)\breward[\"']?\s*(?:is|[:=])\s*((?:np\.\w+|tensor)\([^()]*\)|[-+]?[\w.]+)")
_FILE = later(r"\.(?:py|sh|ya?ml|json|toml)\Z")
_LARGEST = 1 << 20
_PUSHED_S = 6.0  # seconds within which an episode that has ended shows in the pool
_OUTPUT = "the check's output"


def up(swarm_run: SwarmRun, services: HostServices, say: Say) -> None:
    """Raises SwarmFault if the client must not be started."""
    swarm, url = swarm_run.swarm, server.choose_url(swarm_run.swarm, services.environ)
    if swarm.starts_session and server.listening(port_of(url)):
        text = f"port {port_of(url)} is taken by somebody else; end that server, or give this one another port"
        raise SwarmFault("port_taken", text)
    swarm_run.record(url=url)
    if swarm.starts_session:
        say(f"{TAG}{swarm_run.what} starts in session {swarm_run.session}")
        server.start(swarm_run, services)
    took = await_health(swarm_run)
    say(f"{TAG}server healthy at {url} after {took:.1f} s")
    require_offline(swarm_run, say)
    swarm_run.record(owned=True)
    if swarm.debug:
        check(swarm_run, services, say)
        if swarm_run.server().poll().status != OFFLINE:  # the run trains with a fresh one
            say(f"{TAG}the engine that the check has booted is stopped")
            _stop_engine(swarm_run)


def await_health(swarm_run: SwarmRun) -> float:
    """Seconds until GET /health was ok. SwarmFault if the server ends first, or takes too long."""
    began, pause = time.monotonic(), FIRST_LOOKS_S
    while trouble := swarm_run.server().healthy():
        swarm_run.require_server("before it was healthy")
        if time.monotonic() - began >= swarm_run.swarm.health_s:
            text = f"no healthy server at {swarm_run.url()} within {swarm_run.swarm.health_s:.0f} s: {trouble}"
            if not swarm_run.swarm.starts_session:
                text += "; `- swarm_server: ajet-swarm start --swarm-port=10086` in the notes starts one"
                raise SwarmFault("server_unhealthy", text)
            raise SwarmFault("server_unhealthy", text, evidence(swarm_run.server_log(), "its log"))
        time.sleep(pause)
        pause = min(2 * pause, LOOK_S)
    return time.monotonic() - began


def require_offline(swarm_run: SwarmRun, say: Say) -> None:
    """An engine that is not off trains another run: refuse or stop it, never use it."""
    poll = swarm_run.server().poll()
    if poll.status == OFFLINE:
        return
    if not poll.status:
        raise SwarmFault("server_unhealthy", f"the engine's status cannot be read: {poll.trouble}")
    state = f"the engine is {poll.status}" + (f" at global_step {poll.step}" if poll.step is not None else "")
    if swarm_run.swarm.on_busy != "stop":
        hint = "`- swarm_on_busy: stop` stops it first"
        raise SwarmFault("engine_busy", f"{state}: another run has it; {hint}")
    say(f"{TAG}{state}: it is stopped")
    _stop_engine(swarm_run)


def _stop_engine(swarm_run: SwarmRun) -> None:
    if trouble := swarm_run.server().stop():
        raise SwarmFault("engine_stuck", f"the engine cannot be stopped: {trouble}")


def check(swarm_run: SwarmRun, services: HostServices, say: Say) -> None:
    """Run the check unless it has passed on the same inputs. Raises SwarmFault if it does not pass."""
    passed = Path(services.state_dir) / "gates" / f"{fingerprint(swarm_run, services)}.json"
    if passed.exists():
        say(f"{TAG}one episode has worked before on the same inputs: {passed}")
        return
    say(f"{TAG}one episode first: {swarm_run.swarm.debug}")
    pool = EpisodePool(swarm_run.server().poll())
    seconds = _run(swarm_run, pool)
    lines = log_lines(swarm_run.gate_log)
    reward = reward_of(lines)
    if reward is None or not math.isfinite(reward):
        printed = "none" if reward is None else str(reward)
        text = f"the one-episode check printed no finite reward (it printed {printed}); it must print `reward: NUMBER`"
        raise SwarmFault("gate_failed", text, evidence(lines, _OUTPUT))
    if grown := pool.await_growth(swarm_run):
        text = f"the one-episode check added {grown} episodes to the batch; it must end in abort_episode"
        raise SwarmFault("gate_trained", text)
    passed.parent.mkdir(parents=True, exist_ok=True)
    write_json(passed, {"run": swarm_run.spec.run, "reward": reward, "seconds": round(seconds, 1), "t": time.time()})
    say(f"{TAG}one episode worked: reward {reward:g} in {seconds:.0f} s; it was aborted, nothing of it trains")


class EpisodePool:
    """Counts completed episodes while this engine collects; the counter of one that is off is an earlier run's."""

    def __init__(self, first_poll: EnginePoll) -> None:
        self._stale = first_poll.episodes[0]
        self._base: int | None = None
        self.grown = 0  # episodes added since

    def update(self, poll: EnginePoll) -> None:
        """Record one poll."""
        if poll.status == ROLLING:
            count = poll.episodes[0]
            if self._base is None:
                self._base = count if count in (0, self._stale) else 0
            self.grown = max(0, count - self._base)

    def await_growth(self, swarm_run: SwarmRun) -> int:
        """Poll until it has grown, or would have: the trainer pushes it every few seconds only."""
        until = time.monotonic() + min(_PUSHED_S, 20 * swarm_run.swarm.poll_s)
        self.update(swarm_run.server().poll())
        while not self.grown and time.monotonic() < until:
            time.sleep(swarm_run.swarm.poll_s)
            self.update(swarm_run.server().poll())
        return self.grown


def reward_of(lines: list[str]) -> float | None:
    """The last reward in an output; None without one."""
    found = [value for line in lines for text in _REWARD.findall(line) if (value := value_of(text)) is not None]
    return found[-1] if found else None


def _run(swarm_run: SwarmRun, pool: EpisodePool) -> float:
    """Run the check; returns its seconds. SwarmFault for a failure, an engine that dies meanwhile, or a timeout."""
    env = {**os.environ, **server.url_variables(swarm_run.url())}
    out = os.open(swarm_run.gate_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        child = shell(swarm_run.swarm.debug, swarm_run.spec.cwd, env, out)
    finally:
        os.close(out)
    try:
        with listening_to_signals() as relay:
            relay.children.append(child)
            return _await(swarm_run, child, pool)
    finally:
        child.close()


def _await(swarm_run: SwarmRun, child: Child, pool: EpisodePool) -> float:
    began, watch, log = time.monotonic(), EngineWatch(), swarm_run.server_dir.log
    offset = log.stat().st_size if log.exists() else 0
    while not child.ended(swarm_run.swarm.poll_s):
        now = time.monotonic()
        poll = swarm_run.server().poll()
        pool.update(poll)
        watch.update(now, poll)
        if watch.boot_failed:
            raise boot_failed(swarm_run, offset, now - watch.booting_since)
        if now - began >= swarm_run.swarm.debug_timeout_s:
            text = f"the one-episode check took longer than {swarm_run.swarm.debug_timeout_s:g} s"
            raise SwarmFault("gate_timeout", text, evidence(log_lines(swarm_run.gate_log), _OUTPUT))
    if code := child.returncode:
        how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
        text = f"the one-episode check {how}"
        raise swarm_run.fault("gate_failed", text, log_lines(swarm_run.gate_log), _OUTPUT)
    return time.monotonic() - began


def boot_failed(swarm_run: SwarmRun, offset: int, seconds: float) -> SwarmFault:
    """The fault of BOOTING to OFFLINE, where the client would wait for ever; the server's log may hold the reason."""
    text = f"the engine went from BOOTING to OFFLINE after {seconds:.0f} s"
    return swarm_run.fault("boot_failed", text, swarm_run.server_log(offset), "the server's log")


def fingerprint(swarm_run: SwarmRun, services: HostServices) -> str:
    """A hash of commands, recipe, the files that they name, and the tree of the code."""
    spec, swarm = swarm_run.spec, swarm_run.swarm
    tree = services.tree_of(spec.cwd, spec.commit) if spec.commit else ""  # equal code has one, whatever the message
    inputs = [spec.command, swarm.debug, swarm.server, swarm.ssh, swarm.url, spec.interpreter, spec.cwd, tree]
    inputs += [f"{name}={value}" for name, value in sorted(spec.environment.items())]
    digest = hashlib.sha256("\0".join(inputs).encode("utf-8", "surrogateescape"))
    files = [Path(spec.recipe)] if spec.recipe else []
    for command in (spec.command, swarm.debug, swarm.server):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        files += [Path(spec.cwd) / word for word in words if _FILE.search(word)]
    for path in files:
        try:
            with open_readable(path) as file:
                digest.update(b"\0" + hashlib.sha256(file.read(_LARGEST)).digest())
        except OSError:
            digest.update(b"\0-")
    return digest.hexdigest()[:32]
