"""Comparability: whether two metrics with the same name measure the same thing.

A metric's name is chosen by its trainer. Where two trainers give one name to different measurements, MEANINGS lists
what each of them measures, and values with different meanings are never compared: not by `compare`, not in a ledger,
not by the decision of a campaign. A metric that is not listed means the same wherever it has the same name.

No signal: detects runs that could not learn anything; their metric is evidence neither for nor against an idea.

If all answers get the same reward, the advantages of GRPO and related methods are zero, and so is the gradient.
Causes: a data set that is too hard or too easy, a verifier that always returns the same, a group size of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from autoresearch.core.metrics.expression import ExpressionError
from autoresearch.core.metrics.objective import Objective, same_metric
from autoresearch.core.metrics.signal import GRADIENT_KEYS, REWARD_KEYS, Reading
from autoresearch.core.run.ledger_row import LedgerRow

_SOLVED = ("task_pass_rate@*", "num_all_success_tasks", "num_pass_n_tasks*", "val/pass@*", "pass@*")

MEANINGS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # AgentJet's own trainer counts a rollout as a success at reward >= 1; the client of its swarm tutorial, which
    # validates instead of the trainer, at reward > 0
    ("agentjet", _SOLVED, "solved is reward >= 1"),
    ("agentjet_swarm", _SOLVED, "solved is reward > 0"),
)
"""(trainer, patterns of its metrics, what they measure)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The identity of a measurement: the metric's name and the trainer that computed it."""

    trainer: str
    metric: str

    @classmethod
    def of(cls, row: LedgerRow) -> Measured:
        return cls(row.trainer, row.metric_name)

    @property
    def meaning(self) -> str:
        """What the metric counts, if this differs between trainers; "" otherwise."""
        meanings: dict[str, None] = {}
        for key in (self.metric, *Objective(self.metric).keys):
            for trainer, patterns, meaning in MEANINGS:
                if trainer == self.trainer and any(fnmatchcase(key, pattern) for pattern in patterns):
                    meanings[meaning] = None
        return ", ".join(meanings)

    def __str__(self) -> str:
        return f"{self.metric} of {self.trainer or 'an unknown trainer'}{f' ({self.meaning})' if self.meaning else ''}"


def why_not(first: Measured, second: Measured) -> str:
    """Why the two numbers must not be compared; "" if they may be."""
    if first.metric != second.metric and not _same(first.metric, second.metric):
        return f"{first.metric or 'no metric'} and {second.metric or 'no metric'} are different metrics"
    if first.meaning != second.meaning:
        return f"{first} and {second} measure different things"
    return ""


def mixed(rows: Iterable[LedgerRow]) -> str:
    """A warning against comparing these rows; "" if all rows with a metric are comparable.

    Only equal metric names are checked: a difference in name is visible to the reader.
    """
    seen: dict[str, Measured] = {}
    for row in rows:
        if row.metric_value is None:
            continue
        this = Measured.of(row)
        first = seen.setdefault(row.metric_name, this)
        if first.trainer != this.trainer and first.meaning != this.meaning:
            return f"not to be compared: {first} and {this} measure different things"
    return ""


def _same(a: str, b: str) -> bool:
    try:
        return same_metric(a, b)
    except ExpressionError:
        return False


NO_SIGNAL = "no_signal"
LEAST_REWARDS = 5  # steps: the mean rewards of a few small groups may agree by chance
LEAST_GRADIENTS = 3


def no_signal(steps: Sequence[Reading]) -> str:
    """Why nothing could be learnt in these training steps; "" if something could, or if there are too few steps.

    steps: of one source, in order. Rewards printed with few digits are compared as printed.
    """
    for key in GRADIENT_KEYS:
        norms = _finite(steps, key)
        if len(norms) >= LEAST_GRADIENTS and not any(norms):
            return f"{key} is 0 in all {len(norms)} steps: nothing could be learnt"
    for key in REWARD_KEYS:
        rewards = _finite(steps, key)
        if len(rewards) >= LEAST_REWARDS:
            same = all(reward == rewards[0] for reward in rewards)
            return f"{key} is {rewards[0]:g} in all {len(rewards)} steps: nothing could be learnt" if same else ""
    return ""


def _finite(steps: Sequence[Reading], key: str) -> list[float]:
    return [value for reading in steps if math.isfinite(value := reading.metrics.get(key, math.nan))]
