"""What fresh runs show of an idea: the estimate behind a claim, as its verdict records it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.numbers import subtracted


class Claim(StrEnum):
    """The verdicts that are claims about an idea."""

    CONFIRMED = "confirmed"
    DEMOTED = "demoted"  # it did not pass, and had been kept
    UNCONFIRMED = "unconfirmed"  # as demoted, of one that was never kept: nothing was built on it by the search
    UNDECIDED = "undecided"  # too few fresh runs for any test to pass
    ONE_SEED = "differs for this seed"  # its runs or the baseline's are copies: another seed may say the opposite
    DETERMINISTIC = "deterministic"  # better, by a program that is declared to have no randomness


FAILED = (Claim.DEMOTED, Claim.UNCONFIRMED)
TESTED = (Claim.CONFIRMED, *FAILED)
ONE_RUN = (Claim.ONE_SEED, Claim.DETERMINISTIC)
OPEN = (Claim.UNDECIDED, Claim.ONE_SEED)
CLAIMS = tuple(Claim)


@dataclass(frozen=True, slots=True)
class ClaimEstimate:
    """What fresh runs say of an idea, and how it compares with the baseline by them alone.

    Differences are in the metric's unit; positive is better.
    """

    claim: str = ""  # a Claim
    reason: str = ""  # of it, in words: one sentence with the numbers
    gain: float | None = None  # adjusted for the looks; None: not estimated
    gain_low: float | None = None  # ends of its interval
    gain_high: float | None = None
    coverage: float | None = None  # nominal, of that interval
    value: float | None = None  # the mean of the idea's fresh runs
    n: int | None = None  # fresh runs with the metric; None in records that do not say so
    n_baseline: int | None = None
    failed: int | None = None  # fresh runs without it, through their own fault
    failed_baseline: int | None = None
    baseline: float | None = None  # the mean of the baseline's fresh runs; None in records that do not say so
    p: float | None = None  # one-sided
    alpha: float | None = None  # the level that p had to reach
    caveat: str = ""  # what has to be said with every mention of it

    @classmethod
    def of_verdict(cls, verdict: Mapping[str, Any]) -> ClaimEstimate:
        """That of a recorded verdict."""
        known = {name: value for name, value in verdict.items() if not isinstance(value, float) or math.isfinite(value)}
        return from_record(cls, {**known, "claim": verdict["do"]})

    @property
    def label(self) -> str:
        """The claim with its caveat."""
        return f"{self.claim} ({self.caveat})" if self.caveat else self.claim

    @property
    def fails_more(self) -> bool:
        """Whether the claim failed because too many runs did, though the values passed."""
        return self.claim in FAILED and self.p is not None and self.alpha is not None and self.p <= self.alpha

    def means(self, objective: Objective) -> tuple[float | None, float | None]:
        """The means of the fresh runs of the idea and of the baseline."""
        if self.baseline is None and self.value is not None and self.gain is not None:
            return self.value, self.value - objective.change(self.gain)
        return self.value, self.baseline

    def words(self, objective: Objective) -> str:
        """`2.1, -0.12 against the baseline's 2.22 (90 % interval -0.2 to -0.04; 6 fresh runs against 6, none failed)`.

        Signs are the metric's own: a better loss is lower. "" without a gain.
        """
        if self.gain is None:
            return ""
        value, baseline = self.means(objective)
        change = f"{objective.change(self.gain):+.3g}"
        compared, corrected = f"{change} against the baseline", ""
        if value is not None and baseline is not None:
            ours, theirs, difference = subtracted(value, baseline)
            compared = f"{ours}, {difference} against the baseline's {theirs}"
            if f"{value - baseline:+.3g}" != change:
                corrected = f"corrected for the looks {change}"
        about = "; ".join(filter(None, (corrected, self._interval_words(objective), self._runs())))
        return f"{compared}{f' ({about})' if about else ''}"

    def interval(self, objective: Objective) -> tuple[float, float] | None:
        """The ends of the gain's interval with the metric's own sign, the lower one first; None without one."""
        if self.gain_low is None or self.gain_high is None:
            return None
        low, high = sorted((objective.change(self.gain_low), objective.change(self.gain_high)))
        return low, high

    def _interval_words(self, objective: Objective) -> str:
        if (ends := self.interval(objective)) is None:
            return ""
        cover = "" if self.coverage is None else f"{100 * self.coverage:.3g} % "
        return f"{cover}interval {ends[0]:+.3g} to {ends[1]:+.3g}"

    def _runs(self) -> str:
        if not self.n or self.n_baseline is None:
            return ""
        failed, theirs = self.failed or 0, self.failed_baseline or 0
        ours = f"{self.n} fresh {'run' if self.n == 1 else 'runs'} against {self.n_baseline}"
        if failed or theirs:
            own = f"{failed or 'none'} of its {self.n + failed}"
            too_many = ", too many for a claim" if self.fails_more else ""
            return f"{ours}; {own} and {theirs or 'none'} of the baseline's {self.n_baseline + theirs} failed{too_many}"
        return ours if self.failed is None or self.failed_baseline is None else f"{ours}, none failed"
