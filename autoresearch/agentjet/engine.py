"""A swarm engine: what one poll of its server says, and what polls mean one after another.

The engine goes OFFLINE -> BOOTING -> ROLLING(step 1) -> ROLLING_POST -> WEIGHT_SYNCING -> ROLLING(2) ... and back to
OFFLINE at its end, by a crash or by a stop. ROLLING with step N means that N is being collected and N-1 is done. The
server keeps step and counters of the previous run, so nothing counts until this run's own boot was seen.

Statuses and the format of both responses: modelscope/AgentJet, ajet/tuner_lib/experimental/swarm_server.py and
interchange_utils.py (at c0ef49bb). All of this is pure: callers pass the time, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

OFFLINE = "ENGINE.OFFLINE"
BOOTING = "ENGINE.BOOTING"
ROLLING = "ENGINE.ROLLING"
SYNCING = "ENGINE.WEIGHT_SYNCING"
STEPPING = (ROLLING, "ENGINE.ROLLING_POST", SYNCING, "ENGINE.WEIGHT_EXPORTING")
"""Statuses of an engine that trains; only with them is its global_step its own."""

TAG = "[swarm] "
"""Begins every line that is printed for the Runner; the trainer's Signals match them."""

HEARTBEAT_S = 30.0  # while it boots: each line suspends the first-step clock for a while
COUNTERS_S = 10.0  # shortest interval between lines about the filling of the pool
UNREACHABLE_S = 60.0
CONFIRMED = 2  # consecutive polls that must report OFFLINE: a client may restart an engine

Rewards = Mapping[str, tuple[float, ...]]
"""Task -> the rewards of its finished episodes, in the order in which they ended."""


class SwarmFault(Exception):  # noqa: N818 - it names what happened to the run
    """The run cannot go on. `kind` is the stable name: port_taken, server_died, engine_busy, boot_failed ..."""

    def __init__(self, kind: str, text: str, evidence: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.evidence = evidence

    def lines(self) -> list[str]:
        """Lines for the log: the fault first, which the Runner parses, then its evidence."""
        return [f"{TAG}error {self.kind}: {' '.join(str(self).split())}", *self.evidence]


@dataclass(frozen=True, slots=True)
class EnginePoll:
    """One poll of the server. `status` is "" if it did not answer; `trouble` then has the reason."""

    status: str = ""
    step: int | None = None
    episodes: tuple[int, int] = (0, 0)  # completed, required for this step
    tasks: tuple[int, int] = (0, 0)
    running: int = 0  # episodes that a client has claimed
    rewards: Rewards = field(default_factory=dict)  # of the finished episodes in the pool
    trouble: str = ""

    @property
    def counters(self) -> str:
        """The counters of the rollout pool as text; "" if all are 0."""
        if self.episodes == self.tasks == (0, 0) and not self.running:
            return ""
        (done, target), (tasks, whole) = self.episodes, self.tasks
        return f"completed {done}/{target} episodes {tasks}/{whole} tasks running {self.running}"

    @property
    def has_collected(self) -> bool:
        """Whether the batch of this step was complete: the engine trains on it, or is about to."""
        done, target = self.episodes
        return self.status in STEPPING and (self.status != ROLLING or done >= target > 0)


def parse_poll(status: Mapping[str, object], pool: Mapping[str, object]) -> EnginePoll:
    """Parse /get_engine_status and /get_current_batch_rollout_pool_information responses, dropping bad values."""

    def whole(answer: Mapping[str, object], key: str) -> int | None:
        value = answer.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    name, running, tasks = status.get("engine_status"), pool.get("running_episode_details"), {}
    if isinstance(answered := pool.get("completed_tasks_rewards"), Mapping):
        tasks = {str(task): rewards for task, rewards in answered.items() if isinstance(rewards, list)}
    numbers = {
        task: tuple(float(one) for one in rewards if isinstance(one, int | float)) for task, rewards in tasks.items()
    }
    return EnginePoll(
        status=name if isinstance(name, str) else "",
        step=whole(status, "global_step"),
        episodes=(whole(pool, "completed_episodes") or 0, whole(pool, "completed_episode_target") or 0),
        tasks=(whole(pool, "completed_tasks") or 0, whole(pool, "completed_task_target") or 0),
        running=len(running) if isinstance(running, Mapping) else 0,
        rewards={task: rewards for task, rewards in numbers.items() if rewards},
        trouble="" if isinstance(name, str) else f"no engine status in its answer: {str(dict(status))[:120]}",
    )


class BatchReward:
    """The mean reward of the episodes collected for each step, from the pool of a server whose log is elsewhere.

    It is not what the trainer logs as `critic/rewards/mean`: the trainer pushes the pool every few seconds, with more
    episodes than it then trains on, and it shows a batch for a while after the next one has begun.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._batch: Rewards = {}
        self._stale: Rewards = {}  # the last pool of the batch before, or of an earlier run

    def update(self, poll: EnginePoll) -> tuple[int, float] | None:
        """Take in one poll; the step that was collected before this one, and its mean reward, once it is over.

        The last step is over when the engine has gone off: until it boots again, its pool stays as it was.
        """
        step = poll.step if poll.status in STEPPING else None
        over = None
        if step != self._step:
            same = all(poll.rewards.get(task, ())[: len(these)] == these for task, these in self._batch.items())
            if self._batch and same:  # the same batch with further episodes
                self._batch = poll.rewards
            values = [value for rewards in self._batch.values() for value in rewards]
            over = (self._step, sum(values) / len(values)) if self._step is not None and values else None
            self._step, self._stale, self._batch = step, self._batch or self._stale, {}
        if step is None:
            self._stale = poll.rewards
        elif poll.rewards != self._stale:
            self._batch = poll.rewards
        return over


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
        return [TAG + line for line in (self._status(now, poll) if poll.status else self._unreachable(now, poll))]

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
            self._lost_at = self._lost_reported_at = now
            yield f"the server does not answer: {poll.trouble}"
        elif now - self._lost_reported_at >= UNREACHABLE_S:
            self._lost_reported_at = now
            yield f"the server does not answer for {now - self._lost_at:.0f} s: {poll.trouble}"

    def _status(self, now: float, poll: EnginePoll) -> Iterator[str]:
        if self._lost_at is not None:
            yield f"the server answers again after {now - self._lost_at:.0f} s"
            self._lost_at = None
        previous, self.last = self.last, poll
        over = self._batch_reward.update(poll) if self._batch_reward else None
        rewards = dict([over] if over else [])
        if poll.status == OFFLINE:
            self.offline += self.own
            if previous.status != OFFLINE:
                if previous.step is not None and previous.has_collected:
                    self.last_collected = previous.step, rewards.get(previous.step)
                self.moved_at = self._reported_at = now
                yield f"engine {OFFLINE}"
            return
        self.offline, self.last_collected = 0, None
        if poll.status == BOOTING and (not self.own or previous.status != BOOTING):
            self.booting_since = now
        if previous.status == BOOTING and poll.status in STEPPING:
            yield f"the engine has booted, in {now - self.booting_since:.0f} s"
        self.own = True
        yield from (line.removeprefix(TAG) for line in self._steps(previous, poll, rewards))
        changed = poll.status != previous.status or (poll.status in STEPPING and poll.step != previous.step)
        if changed or (poll.episodes, poll.tasks) != (previous.episodes, previous.tasks):  # a claim is not progress
            self.moved_at = now
        news = poll.status == BOOTING or replace(poll, step=None) != replace(previous, step=None)
        pause = HEARTBEAT_S if poll.status == BOOTING else COUNTERS_S
        if changed or (now - self._reported_at >= pause and news):
            self._reported_at = now
            yield self._words(now, poll)

    def _steps(self, previous: EnginePoll, poll: EnginePoll, rewards: Mapping[int, float]) -> list[str]:
        if poll.status not in STEPPING:
            return []
        self.trained = True
        if self.first_step is None and poll.step is not None:
            self.first_step = poll.step
        if poll.step is not None and self.first_step is not None and poll.step > self.first_step:
            # ROLLING itself may be over between two polls.
            return self.step_done(poll.step - 1, reward=rewards.get(poll.step - 1))
        if poll.step is None and (previous.status, poll.status) == (SYNCING, ROLLING):
            return self.step_done(self.done + 1)
        return []

    def _words(self, now: float, poll: EnginePoll) -> str:
        if poll.status == BOOTING:
            return f"engine {BOOTING} for {now - self.booting_since:.0f} s"
        step = "" if poll.step is None or poll.status not in STEPPING else f" global_step {poll.step}"
        return f"engine {poll.status}{step}" + (f" {poll.counters}" if poll.counters else "")
