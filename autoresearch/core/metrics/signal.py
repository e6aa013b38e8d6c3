"""Signals: events and metrics recognised in a line of a trainer's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SignalKind(StrEnum):
    """What kind of event a line reports, for the limits and the monitor."""

    STEP = "step"  # a training-metric event; the first one is the first step
    VALIDATION = "validation"  # a validation result
    PROGRESS = "progress"  # boot or initial validation makes progress: suspends the first-step clock
    READY = "ready"  # the boot is over: the first-step clock runs again
    ERROR = "error"  # the first line of a traceback, or a known fatal message
    NAN = "nan"  # a metric has become NaN


@dataclass(frozen=True, slots=True)
class SignalPattern:
    """One bytes regex for the Runner, written as text (latin-1 safe), multi-line mode, no leading `.*`.

    Named groups with a meaning: `step` (integer), `kl` (number), `text` (shown to users), `kind` (for an ERROR: the
    stable code written to the exit record if nothing more specific is found).
    `hold_s`: seconds for which a PROGRESS signal suspends the first-step clock.
    `needles`: every matching line contains at least one of these texts, in the same case; to save time, the regex is
    applied only to such lines. () applies it to every line.
    `metrics`: a regex of names; the pairs behind the match are read, and it counts only if one of them has such a name.
    `whole`: the pairs of the whole line are read, and the named groups without a meaning are metrics.
    The regex may begin at any place of a line without colours and labels of processes.
    """

    kind: SignalKind
    pattern: str
    hold_s: float = 0.0
    needles: tuple[str, ...] = ()
    metrics: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Metrics that were printed or written for one step.

    `step` is the trainer's own step; if it prints none, the ordinal, and `ordinal` is true. NaN and infinite values are
    kept.
    """

    kind: SignalKind  # STEP or VALIDATION
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    ordinal: bool = False
