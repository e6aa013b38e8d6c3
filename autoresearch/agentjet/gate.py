"""The gate: one episode must work, and leave nothing behind, before a client trains for hours.

The blueprint's own script boots the engine, claims an episode, runs the agent on it and aborts it. A pass is stored by
a hash of all its inputs, so that the same check is not repeated.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from autoresearch.agentjet import server_session
from autoresearch.agentjet.child import Child, listening_to_signals, shell
from autoresearch.agentjet.engine_status import ROLLING, EnginePoll
from autoresearch.agentjet.engine_watch import TAG, EngineWatch
from autoresearch.agentjet.fault import SwarmFault
from autoresearch.agentjet.server_failure import evidence, root_cause
from autoresearch.agentjet.swarm_run import SwarmRun, url_variables
from autoresearch.core.metrics.python_values import number
from autoresearch.core.run.server import HostServices, Say
from autoresearch.records.rundir import write_json

_REWARD = re.compile(r"(?i)\breward[\"']?\s*(?:is|[:=])\s*((?:np\.\w+|tensor)\([^()]*\)|[-+]?[\w.]+)")
_FILE = re.compile(r"\.(?:py|sh|ya?ml|json|toml)\Z")
_LARGEST = 1 << 20
_PUSHED_S = 6.0  # seconds within which an episode that has ended shows in the pool


def check(swarm_run: SwarmRun, services: HostServices, say: Say) -> None:
    """Run the check unless it has passed on the same inputs. Raises SwarmFault if it does not pass."""
    passed = Path(services.state_dir) / "gates" / f"{fingerprint(swarm_run, services)}.json"
    if passed.exists():
        say(f"{TAG}one episode has worked before on the same inputs: {passed}")
        return
    say(f"{TAG}one episode first: {swarm_run.swarm.debug}")
    before = swarm_run.server().poll()
    engine_watch = EngineWatch()
    pool = EpisodePool(before)
    took = _run(swarm_run, engine_watch, pool)
    lines = server_session.log_lines(swarm_run.gate_log)
    reward = reward_of(lines)
    if reward is None or not math.isfinite(reward):
        printed = "none" if reward is None else str(reward)
        text = f"the one-episode check printed no finite reward (it printed {printed}); it must print `reward: NUMBER`"
        raise SwarmFault("gate_failed", text, tuple(evidence(lines, "the check's output")))
    _await_pool(swarm_run, pool)
    if pool.grown:
        text = f"the one-episode check added {pool.grown} episodes to the batch; it must end in abort_episode"
        raise SwarmFault("gate_trained", text)
    passed.parent.mkdir(parents=True, exist_ok=True)
    write_json(passed, {"run": swarm_run.spec.run, "reward": reward, "seconds": round(took, 1), "t": time.time()})
    say(f"{TAG}one episode worked: reward {reward:g} in {took:.0f} s; it was aborted, nothing of it trains")


def _await_pool(swarm_run: SwarmRun, pool: EpisodePool) -> None:
    """Poll until the pool has grown, or would have: the trainer pushes it every few seconds only."""
    until = time.monotonic() + min(_PUSHED_S, 20 * swarm_run.swarm.poll_s)
    pool.update(swarm_run.server().poll())
    while not pool.grown and time.monotonic() < until:
        time.sleep(swarm_run.swarm.poll_s)
        pool.update(swarm_run.server().poll())


class EpisodePool:
    """Counts completed episodes while this engine collects; the counter of an engine that is off is an earlier
    run's.
    """

    def __init__(self, first_poll: EnginePoll) -> None:
        self._stale = first_poll.episodes[0]
        self._base: int | None = None
        self._now = 0

    def update(self, poll: EnginePoll) -> None:
        """Record one poll."""
        if poll.status != ROLLING:
            return
        self._now = poll.episodes[0]
        if self._base is None:
            self._base = self._now if self._now in (0, self._stale) else 0

    @property
    def grown(self) -> int:
        """Episodes added since."""
        return max(0, self._now - (self._base or 0))


def reward_of(lines: list[str]) -> float | None:
    """The last reward in an output; None without one."""
    found = [value for line in lines for text in _REWARD.findall(line) if (value := number(text)) is not None]
    return found[-1] if found else None


def _run(swarm_run: SwarmRun, engine_watch: EngineWatch, pool: EpisodePool) -> float:
    """Run the check; returns its seconds. SwarmFault for a failure, an engine that dies meanwhile, or a timeout."""
    url = swarm_run.url()
    env = {**os.environ, **url_variables(url)}
    out = os.open(swarm_run.gate_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        child = shell(swarm_run.swarm.debug, swarm_run.spec.cwd, env, out)
    finally:
        os.close(out)
    try:
        with listening_to_signals() as relay:
            relay.children.append(child)
            return _await(swarm_run, child, engine_watch, pool)
    finally:
        child.close()


def _await(swarm_run: SwarmRun, child: Child, engine_watch: EngineWatch, pool: EpisodePool) -> float:
    began = time.monotonic()
    offset = _size(swarm_run.server_dir.log)
    while not child.ended(swarm_run.swarm.poll_s):
        now = time.monotonic()
        poll = swarm_run.server().poll()
        pool.update(poll)
        engine_watch.update(now, poll)
        if engine_watch.boot_failed:
            raise boot_failed(swarm_run, offset, now - engine_watch.booting_since)
        if now - began >= swarm_run.swarm.debug_timeout_s:
            shown = tuple(evidence(server_session.log_lines(swarm_run.gate_log), "the check's output"))
            text = f"the one-episode check took longer than {swarm_run.swarm.debug_timeout_s:g} s"
            raise SwarmFault("gate_timeout", text, shown)
    if child.returncode:
        lines = server_session.log_lines(swarm_run.gate_log)
        cause = root_cause(lines)
        how = f"exited with {child.returncode}" if child.returncode > 0 else f"was ended by signal {-child.returncode}"
        text = f"the one-episode check {how}" + (f": {cause}" if cause else "")
        raise SwarmFault("gate_failed", text, tuple(evidence(lines, "the check's output")))
    return time.monotonic() - began


def boot_failed(swarm_run: SwarmRun, offset: int, seconds: float) -> SwarmFault:
    """The fault of BOOTING to OFFLINE, where the client would wait for ever; the server's log may hold the reason."""
    lines = server_session.log_lines(swarm_run.server_dir.log, offset)
    cause = root_cause(lines)
    text = f"the engine went from BOOTING to OFFLINE after {seconds:.0f} s" + (f": {cause}" if cause else "")
    return SwarmFault("boot_failed", text, tuple(evidence(lines, "the server's log")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def fingerprint(swarm_run: SwarmRun, services: HostServices) -> str:
    """A hash of commands, recipe, the files that they name, and the tree of the code."""
    spec, swarm = swarm_run.spec, swarm_run.swarm
    tree = services.tree_of(spec.cwd, spec.commit) if spec.commit else ""  # equal code has one, whatever the message
    inputs = [spec.command, swarm.debug, swarm.server, swarm.ssh, swarm.url, spec.interpreter, spec.cwd, tree]
    digest = hashlib.sha256("\0".join(inputs).encode("utf-8", "surrogateescape"))
    for name, value in sorted(spec.environment.items()):
        digest.update(f"\0{name}={value}".encode("utf-8", "surrogateescape"))
    for path in _files(swarm_run):
        try:
            with path.open("rb") as file:
                digest.update(b"\0" + hashlib.sha256(file.read(_LARGEST)).digest())
        except OSError:
            digest.update(b"\0-")
    return digest.hexdigest()[:32]


def _files(swarm_run: SwarmRun) -> Iterator[Path]:
    if swarm_run.spec.recipe:
        yield Path(swarm_run.spec.recipe)
    for command in (swarm_run.spec.command, swarm_run.swarm.debug, swarm_run.swarm.server):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        yield from (Path(swarm_run.spec.cwd) / word for word in words if _FILE.search(word))
