"""Comparable: whether two numbers with one name measure the same thing.

A metric's name is its trainer's. Where two trainers give one name to different measurements, what is measured is
written here, and numbers of different meaning are never compared: not by `compare`, not in a ledger, not by the
decision of a campaign. What is not written here means the same wherever it has the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from autoresearch.core.metrics.expression_parser import ExpressionError
from autoresearch.core.metrics.objective import Objective, same_metric
from autoresearch.core.run.ledger_row import LedgerRow

_SOLVED = ("task_pass_rate@*", "num_all_success_tasks", "num_pass_n_tasks*", "TGC@*", "val/pass@*", "pass@*")

MEANINGS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # AgentJet's own trainer counts a rollout as a success at reward >= 1; the client of its swarm tutorial, which
    # validates instead of the trainer, at reward > 0
    ("agentjet", _SOLVED, "solved is reward >= 1"),
    ("agentjet_swarm", _SOLVED, "solved is reward > 0"),
)
"""(trainer, patterns of its metrics, what they measure)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a number is: the metric's name, and who counted."""

    trainer: str
    metric: str

    @classmethod
    def of(cls, row: LedgerRow) -> Measured:
        """What the metric of a row is."""
        return cls(row.trainer, row.metric_name)

    @property
    def meaning(self) -> str:
        """What is counted in it, where that differs from trainer to trainer; "" elsewhere."""
        found: dict[str, None] = {}
        for key in (self.metric, *Objective(self.metric).keys):
            for trainer, patterns, meaning in MEANINGS:
                if trainer == self.trainer and any(fnmatchcase(key, pattern) for pattern in patterns):
                    found[meaning] = None
        return ", ".join(found)

    def __str__(self) -> str:
        return f"{self.metric} of {self.trainer or 'an unknown trainer'}{f' ({self.meaning})' if self.meaning else ''}"


def why_not(a: Measured, b: Measured) -> str:
    """Why the two numbers must not be compared; "" where they may be."""
    if a.metric != b.metric and not _same(a.metric, b.metric):
        return f"{a.metric or 'no metric'} and {b.metric or 'no metric'} are different metrics"
    if a.meaning != b.meaning:
        return f"{a} and {b} measure different things"
    return ""


def mixed(rows: Iterable[LedgerRow]) -> str:
    """What a reader of these rows must not do; "" where all of them that were measured may be compared.

    Rows of differently named metrics show it themselves; here it is about equal names.
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
