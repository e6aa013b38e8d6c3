"""The status of a swarm engine, and what one poll of its server says.

Statuses and the format of both responses: modelscope/AgentJet, ajet/tuner_lib/experimental/swarm_server.py and
interchange_utils.py (at c0ef49bb). A step is valid only with its status: the server keeps old steps and counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OFFLINE = "ENGINE.OFFLINE"
BOOTING = "ENGINE.BOOTING"
ROLLING = "ENGINE.ROLLING"
SYNCING = "ENGINE.WEIGHT_SYNCING"
STEPPING = (ROLLING, "ENGINE.ROLLING_POST", SYNCING, "ENGINE.WEIGHT_EXPORTING")
"""Statuses of an engine that trains; only with them is its global_step its own."""


Rewards = Mapping[str, tuple[float, ...]]
"""Task -> the rewards of its finished episodes, in the order in which they ended."""


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


def parse_poll(status: Mapping[str, object], pool: Mapping[str, object]) -> EnginePoll:
    """Parse /get_engine_status and /get_current_batch_rollout_pool_information responses, dropping bad values."""
    name = status.get("engine_status")
    step = status.get("global_step")
    running = pool.get("running_episode_details")
    return EnginePoll(
        status=name if isinstance(name, str) else "",
        step=step if isinstance(step, int) and not isinstance(step, bool) else None,
        episodes=(_count(pool, "completed_episodes"), _count(pool, "completed_episode_target")),
        tasks=(_count(pool, "completed_tasks"), _count(pool, "completed_task_target")),
        running=len(running) if isinstance(running, Mapping) else 0,
        rewards=_rewards(pool.get("completed_tasks_rewards")),
        trouble="" if isinstance(name, str) else f"no engine status in its answer: {str(dict(status))[:120]}",
    )


def _rewards(tasks: object) -> Rewards:
    if not isinstance(tasks, Mapping):
        return {}
    numbers = {
        str(task): tuple(float(one) for one in rewards if isinstance(one, int | float))
        for task, rewards in tasks.items()
        if isinstance(rewards, list)
    }
    return {task: rewards for task, rewards in numbers.items() if rewards}


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
            if self._batch and _grown(self._batch, poll.rewards):
                self._batch = poll.rewards
            values = [value for rewards in self._batch.values() for value in rewards]
            over = (self._step, sum(values) / len(values)) if self._step is not None and values else None
            self._step, self._stale, self._batch = step, self._batch or self._stale, {}
        if step is None:
            self._stale = poll.rewards
        elif poll.rewards != self._stale:
            self._batch = poll.rewards
        return over


def _grown(before: Rewards, now: Rewards) -> bool:
    """Whether this is the same batch with further episodes."""
    return all(now.get(task, ())[: len(rewards)] == rewards for task, rewards in before.items())


def _count(pool: Mapping[str, object], key: str) -> int:
    value = pool.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
