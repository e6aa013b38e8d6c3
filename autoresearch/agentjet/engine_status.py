"""The status of a swarm engine, and what one poll of its server says.

Statuses and the format of both responses: modelscope/AgentJet, ajet/tuner_lib/experimental/swarm_server.py and
interchange_utils.py (at c0ef49bb). A step is valid only with its status: the server keeps old steps and counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OFFLINE = "ENGINE.OFFLINE"
BOOTING = "ENGINE.BOOTING"
ROLLING = "ENGINE.ROLLING"
SYNCING = "ENGINE.WEIGHT_SYNCING"
STEPPING = (ROLLING, "ENGINE.ROLLING_POST", SYNCING, "ENGINE.WEIGHT_EXPORTING")
"""Statuses of an engine that trains; only with them is its global_step its own."""


@dataclass(frozen=True, slots=True)
class EnginePoll:
    """One poll of the server. `status` is "" if it did not answer; `trouble` then has the reason."""

    status: str = ""
    step: int | None = None
    episodes: tuple[int, int] = (0, 0)  # completed, required for this step
    tasks: tuple[int, int] = (0, 0)
    running: int = 0  # episodes that a client has claimed
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
        trouble="" if isinstance(name, str) else f"no engine status in its answer: {str(dict(status))[:120]}",
    )


def _count(pool: Mapping[str, object], key: str) -> int:
    value = pool.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
