"""The time limits of a run, in seconds.

The cadence of reports: how long to wait before the next one. Nothing sleeps here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoresearch.core.text.durations import spoken

FIRST_STEP_S = 20 * 60.0
MAX_TIME_S = 24 * 3600.0
GRACE_S = 30.0
FIRST_STEP_CAP_S = 2 * 3600.0
EVALUATE_S = 30 * 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds; `stall_s` None means that a stall is only reported, never ends the run."""

    first_step_s: float = FIRST_STEP_S
    max_s: float = MAX_TIME_S
    stall_s: float | None = None
    grace_s: float = GRACE_S
    first_step_cap_s: float = FIRST_STEP_CAP_S  # most that boot and validation may suspend the first-step clock
    strict_first_step: bool = False  # an explicit --first-step-timeout: nothing suspends the clock
    first_step_since_output: bool = False  # each output restarts the first-step clock

    def first_step_rule(self, *, steps_known: bool) -> str:
        """The effect of the first-step limit, as a sentence without its full stop.

        steps_known: whether the trainer is a named one, or the blueprint declares the format of its step lines.
        """
        limit = spoken(self.first_step_s)
        if self.first_step_since_output:
            return f"recognised from the output; before it, a run that prints nothing new for {limit} is ended"
        if not steps_known:
            return f"ended {limit} after the start if no step is recognised from the output, whatever is printed"
        if self.strict_first_step:
            return f"ended {limit} after the start if there is no first step, whatever the run is doing"
        cap = spoken(self.first_step_cap_s)
        return f"ended {limit} after the start if there is no first step; boot and validation may add {cap}"

    def override(self, *, first_step_s: float | None = None, max_s: float | None = None) -> Limits:
        """The limits with those given on the command line; None keeps a limit."""
        new = self if max_s is None else replace(self, max_s=max_s)
        if first_step_s is None:
            return new
        return replace(new, first_step_s=first_step_s, strict_first_step=True, first_step_since_output=False)


NAPS_S = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0)


def nap(looks: int, *, until_limit_s: float | None = None) -> float:
    """Seconds until the next report after `looks` reports: 30 s, 1, 2, 4, 8, 16 min, then always 16 min.

    The wait is cut to `until_limit_s`, the seconds to the nearest limit (plain backoff would notice a 20-minute limit
    11.5 minutes late).
    """
    plain = NAPS_S[min(looks, len(NAPS_S) - 1)]
    return plain if until_limit_s is None else max(0.0, min(plain, until_limit_s))
