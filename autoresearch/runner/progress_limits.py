"""First-step and stall limits: the progress seen so far, and the deadlines of the next signal."""

from __future__ import annotations

from .basics import NEVER
from .spec import Spec

STALL_FLOOR_S = 60.0
STALL_FACTOR = 10.0


class ProgressLimits:
    """Steps, KL, and the deadlines that depend on them. All times are those of `clock`, in seconds."""

    def __init__(self, runner_spec: Spec) -> None:
        self.spec = runner_spec
        self.started = 0.0  # 0.0: the trainer has not started
        self.output_at = 0.0  # when the log last grew
        self.held = 0.0  # seconds for which the first-step clock was suspended, before the cap
        self.hold_until = 0.0
        self.first_s: float | None = None
        self.first_step: int | None = None
        self.kl: float | None = None
        self.last_step: int | None = None
        self.steps = 0
        self.validations = 0
        self.nan = False
        self.last_at = 0.0
        self.last_step_at = 0.0
        self.gaps: list[float] = []
        self.stalled = False

    def start(self, now: float) -> None:
        """Note that the trainer started."""
        self.started = self.last_at = self.output_at = now

    def printed(self, now: float) -> None:
        """Note that the log grew."""
        self.output_at = now

    def step(self, now: float, step: int | None, kl: float | None) -> bool:
        """Note a training step's metrics; True if it is the first step."""
        if kl is not None and not abs(kl) < NEVER:  # infinite, or NaN
            kl = None
        self.kl = kl if self.kl is None else self.kl
        self.last_at = now
        if step is None or step != self.last_step:  # `ray job submit` prints the log's tail twice
            if self.steps:
                self.gaps = [*self.gaps[-19:], now - self.last_step_at]
            self.steps += 1
            self.last_step_at = now
            self.last_step = self.steps if step is None else step
        if self.first_s is not None or (self.spec.needs_kl and kl is None):
            return False
        self.first_s = now - self.started
        self.first_step = self.last_step
        return True

    def moved(self, now: float, hold_s: float) -> None:
        """Note progress of boot or validation: suspends the first-step clock for `hold_s` from now."""
        self.last_at = now
        if self.first_s is None and not self.spec.strict_first_step:
            more = now + hold_s - max(now, self.hold_until)
            self.held += max(0.0, more)
            self.hold_until = max(self.hold_until, now + hold_s)

    def ready(self, now: float) -> None:
        """Note that the boot is over: what is left of the present suspension is taken back."""
        self.last_at = now
        self.held -= max(0.0, self.hold_until - now)
        self.hold_until = min(self.hold_until, now)

    def first_deadline(self) -> float:
        """When the first step is too late; `NEVER` after the first step."""
        if self.first_s is not None or self.spec.first_step_s is None:
            return NEVER
        if self.spec.first_step_since_output:
            return self.output_at + self.spec.first_step_s
        return self.started + self.spec.first_step_s + min(self.held, self.spec.first_step_cap_s)

    def stall_deadline(self) -> float:
        """When a lack of signals ends the run; `NEVER` before the first step, which has its own limit."""
        if self.first_s is None or self.spec.stall_s is None:
            return NEVER
        return self.last_at + self.spec.stall_s

    def report_deadline(self) -> float:
        """When a lack of signals is reported as a stall."""
        if self.steps < 3 or self.stalled:
            return NEVER
        return self.last_at + max(STALL_FLOOR_S, STALL_FACTOR * self.median_gap())

    def next_deadline(self) -> float:
        """The earliest of the three deadlines."""
        return min(self.first_deadline(), self.stall_deadline(), self.report_deadline())

    def median_gap(self) -> float:
        """The median of the last 20 intervals between steps in seconds; 0.0 if there are none."""
        return sorted(self.gaps)[len(self.gaps) // 2] if self.gaps else 0.0
