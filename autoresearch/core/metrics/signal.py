"""Signals: what one line of a trainer's output says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SignalKind(StrEnum):
    """What a line says, as far as limits and the monitor care."""

    STEP = "step"  # a training-metric event; the first one is the first step
    VALIDATION = "validation"  # a validation result
    PROGRESS = "progress"  # boot or initial validation moves on: holds the first-step clock
    ERROR = "error"  # the first line of a traceback, or a known fatal message
    NAN = "nan"  # a metric is not a number any more


@dataclass(frozen=True, slots=True)
class SignalPattern:
    """One bytes regex for the Runner, written as text (latin-1 safe), multi-line mode, no leading `.*`.

    Named groups that mean something: `step` (integer), `kl` (number), `text` (shown to people), `kind` (of an
    ERROR: the stable word that stands in the exit record where nothing says more).
    `hold_s`: a PROGRESS signal suspends the first-step clock for so many seconds after it.
    `needles`: texts of which every line with a match holds at least one, in the same case: only such lines are
    shown to the regex, which makes it cheap. () shows it every line.
    """

    kind: SignalKind
    pattern: str
    hold_s: float = 0.0
    needles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Metrics that were printed or written for one step.

    `step` is the trainer's own step, or the ordinal where it prints none. Values are finite or not:
    NaN and infinities are kept, never dropped.
    """

    kind: SignalKind  # STEP or VALIDATION
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
