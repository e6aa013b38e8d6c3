"""Metrics of a swarm client's own evaluation, by step and data set.

In swarm mode the client validates, not the trainer. It counts a task as passed when its reward is above 0, whereas
the trainer's own validation requires 1 or more. So every name begins with `swarm/`, to mark a different metric.

    swarm/<data set>/task_pass_rate@1     of one data set
    swarm/task_pass_rate@1                the mean over the data sets, once all known ones were evaluated at this step
"""

from __future__ import annotations

from collections.abc import Mapping

from autoresearch.runner.metric_lines import value_of

PREFIX = "swarm/"
COLLECTED_REWARD = f"{PREFIX}collected_reward/mean"
"""Mean reward of the episodes in a server's pool; not the `critic/rewards/mean` that its trainer logs."""


def share(text: str) -> float | None:
    """Parse a number: `21.67%` as 0.2167, others unchanged; None if it is not a number."""
    text = text.strip()
    if text.endswith("%"):
        percent = value_of(text[:-1].strip())
        return None if percent is None else percent / 100.0
    return value_of(text)


class Evaluations:
    """Accumulates evaluations in the order in which they were written."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}  # data sets, in order
        self._step: int | None = None
        self._of_step: dict[str, Mapping[str, float]] = {}

    def add(self, step: int, dataset: str, metrics: Mapping[str, float]) -> dict[str, float]:
        """Add an evaluation; returns the metrics that it adds to its step, by their full names."""
        if step != self._step:
            self._step, self._of_step = step, {}
        self._known[dataset] = None
        self._of_step[dataset] = metrics
        named = {f"{PREFIX}{dataset}/{key}": value for key, value in metrics.items()} if dataset else {}
        if self._of_step.keys() >= self._known.keys():
            named |= {PREFIX + key: mean for key, mean in self._means()}
        return named

    def _means(self) -> list[tuple[str, float]]:
        own = list(self._of_step.values())
        keys = [key for key in own[0] if all(key in metrics for metrics in own)]
        return [(key, sum(metrics[key] for metrics in own) / len(own)) for key in keys]
