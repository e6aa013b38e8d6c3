"""The watch on a swarm engine: turns polls of its status into state and log lines.

Every line begins with `[swarm] `; the trainer's Signals match them. Pure: callers pass the time, in seconds.

The engine goes OFFLINE -> BOOTING -> ROLLING(step 1) -> ROLLING_POST -> WEIGHT_SYNCING -> ROLLING(2) ... and back to
OFFLINE at its end, by a crash or by a stop. ROLLING with step N means that N is being collected and N-1 is done. The
server keeps step and counters of the previous run, so nothing counts until this run's own boot was seen.
(modelscope/AgentJet, ajet/tuner_lib/experimental/swarm_server.py at c0ef49bb.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autoresearch.agentjet.engine_status import BOOTING, OFFLINE, ROLLING, STEPPING, SYNCING, BatchReward, EnginePoll

TAG = "[swarm] "
HEARTBEAT_S = 30.0  # while it boots: each line suspends the first-step clock for a while
COUNTERS_S = 10.0  # shortest interval between lines about the filling of the pool
UNREACHABLE_S = 60.0
CONFIRMED = 2  # consecutive polls that must report OFFLINE: a client may restart an engine


class EngineWatch:
    """The observed state of one engine since its client was started. pool_rewards: tell each step's reward as well."""

    def __init__(self, *, pool_rewards: bool = False) -> None:
        self._batch_reward = BatchReward() if pool_rewards else None
        self.own = False  # the engine left OFFLINE: its status is about this run
        self.trained = False  # it was seen in a status after BOOTING
        self.first_step: int | None = None  # the first step that it collected
        self.done = 0  # the last optimizer step known to be done
        self.offline = 0  # consecutive polls that reported OFFLINE after another status
        self.last_collected: tuple[int, float | None] | None = None  # step and reward: it went off with a whole batch
        self.last = EnginePoll(OFFLINE)
        self.moved_at = 0.0  # time of the last change of status, step or counters
        self.booting_since = 0.0
        self._reported_at = -1e9
        self._lost_at: float | None = None
        self._lost_reported_at = 0.0
        self._kl_of = 0

    @property
    def boot_failed(self) -> bool:
        """Whether it went OFFLINE while booting."""
        return self.own and not self.trained and self.offline >= CONFIRMED

    @property
    def gone(self) -> bool:
        """Whether it went OFFLINE after it had trained: finished or crashed."""
        return self.trained and self.offline >= CONFIRMED

    @property
    def answers(self) -> bool:
        """Whether the server answered the last poll."""
        return self._lost_at is None

    def boot_logged(self, now: float) -> None:
        """The server's log reports a boot, which may be over before the next poll."""
        if not self.own:
            self.own, self.booting_since = True, now

    def update(self, now: float, poll: EnginePoll) -> list[str]:
        """Take in one poll; returns the log lines to print for it."""
        if not poll.status:
            return [TAG + line for line in self._unreachable(now, poll)]
        lines = list(self._reached(now))
        previous, self.last = self.last, poll
        lines += self._status(now, previous, poll)
        return [TAG + line for line in lines]

    def step_done(self, step: int, kl: float | None = None, reward: float | None = None) -> list[str]:
        """An optimizer step is done, by status or server log; returns its log line, but each only once."""
        news = step > self.done or (step == self.done and kl is not None and self._kl_of < step)
        if step <= 0 or not news:
            return []
        self.done = max(self.done, step)
        if kl is None:
            return [f"{TAG}step {step}" + ("" if reward is None else f" reward {reward!r}")]
        self._kl_of = step
        return [f"{TAG}step {step} kl {kl!r}"]

    def _unreachable(self, now: float, poll: EnginePoll) -> Iterator[str]:
        if self._lost_at is None:
            self._lost_at, self._lost_reported_at = now, now
            yield f"the server does not answer: {poll.trouble}"
        elif now - self._lost_reported_at >= UNREACHABLE_S:
            self._lost_reported_at = now
            yield f"the server does not answer for {now - self._lost_at:.0f} s: {poll.trouble}"

    def _reached(self, now: float) -> Iterator[str]:
        if self._lost_at is not None:
            yield f"the server answers again after {now - self._lost_at:.0f} s"
        self._lost_at = None

    def _status(self, now: float, previous: EnginePoll, poll: EnginePoll) -> Iterator[str]:
        if poll.status == OFFLINE:
            self.offline += self.own
            over = self._batch_reward.update(poll) if self._batch_reward else None
            if previous.status != OFFLINE:
                if previous.step is not None and _has_collected(previous):
                    reward = over[1] if over and over[0] == previous.step else None
                    self.last_collected = previous.step, reward
                self.moved_at = self._reported_at = now
                yield f"engine {OFFLINE}"
            return
        self.offline, self.last_collected = 0, None
        if poll.status == BOOTING and (not self.own or previous.status != BOOTING):
            self.booting_since = now
        if previous.status == BOOTING and poll.status in STEPPING:
            yield f"the engine has booted, in {now - self.booting_since:.0f} s"
        self.own = True
        for line in self._steps(previous, poll):
            yield line.removeprefix(TAG)
        changed = poll.status != previous.status or (poll.status in STEPPING and poll.step != previous.step)
        counted = replace(poll, step=None) != replace(previous, step=None)
        if changed or (poll.episodes, poll.tasks) != (previous.episodes, previous.tasks):  # a claim is not progress
            self.moved_at = now
        pause = HEARTBEAT_S if poll.status == BOOTING else COUNTERS_S
        if changed or (now - self._reported_at >= pause and (counted or poll.status == BOOTING)):
            self._reported_at = now
            yield self._words(now, poll)

    def _steps(self, previous: EnginePoll, poll: EnginePoll) -> list[str]:
        over = self._batch_reward.update(poll) if self._batch_reward else None
        if poll.status not in STEPPING:
            return []
        self.trained = True
        if self.first_step is None and poll.step is not None:
            self.first_step = poll.step
        if poll.step is not None and self.first_step is not None and poll.step > self.first_step:
            reward = over[1] if over and over[0] == poll.step - 1 else None
            return self.step_done(poll.step - 1, reward=reward)  # ROLLING itself may be over between two polls
        if poll.step is None and (previous.status, poll.status) == (SYNCING, ROLLING):
            return self.step_done(self.done + 1)
        return []

    def _words(self, now: float, poll: EnginePoll) -> str:
        if poll.status == BOOTING:
            return f"engine {BOOTING} for {now - self.booting_since:.0f} s"
        step = "" if poll.step is None or poll.status not in STEPPING else f" global_step {poll.step}"
        return f"engine {poll.status}{step}" + (f" {poll.counters}" if poll.counters else "")


def _has_collected(poll: EnginePoll) -> bool:
    """Whether the batch of this step was complete: the engine trains on it, or is about to."""
    (done, wanted) = poll.episodes
    return poll.status in STEPPING and (poll.status != ROLLING or done >= wanted > 0)
