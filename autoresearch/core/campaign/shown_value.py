"""The number that people are shown for an idea, and the sentence around it, the same in every display.

The mean of the runs by which the search picked an idea looks too good, because the idea was picked for it. So one that
was put to the proof is shown at the estimate from its fresh runs; without a proof its mean is labelled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from autoresearch.core.campaign.claim import OPEN, TESTED, Claim, ClaimEstimate
from autoresearch.core.campaign.decision import gain
from autoresearch.core.campaign.judgement import one_run_claim, resolution_of, search_mean, search_values, usual_sd
from autoresearch.core.campaign.state import CampaignState, Idea, measured
from autoresearch.core.run.ending import BREACHES, Ending
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.noise import collapsed, mean
from autoresearch.core.text.numbers import number

OF_ONE_RUN: dict[str, str] = {
    Claim.DETERMINISTIC: f"{Claim.DETERMINISTIC}: not confirmed on other data",
    Claim.ONE_SEED: f"{Claim.ONE_SEED}: not confirmed on others",
}
PICKED = "search mean, by which it was picked"  # of an idea that may have been kept for being simpler


class Basis(StrEnum):
    """What the number rests on."""

    BASELINE = "baseline"  # the mean of all its runs, fresh ones included
    FRESH = "fresh runs"  # the estimate from runs that played no part in picking the idea
    SELECTED = "selected"  # the mean of the runs for which the idea was picked
    ONE_RUN = "one run"  # further ones would be copies
    SEARCH = "search"  # the mean of an idea that was not picked


@dataclass(frozen=True, slots=True)
class ShownValue:
    """The number of one idea. Values are in the metric's unit and direction."""

    slug: str
    name: str
    basis: Basis
    value: float | None  # None: no metric
    low: float | None  # the interval of an estimate
    high: float | None
    search_mean: float | None
    runs: str  # those of the search mean: `mean of 4; 2 of 6 runs have no metric`
    claim: str  # one of CLAIMS, with its caveat; "" where nobody asked
    estimate: ClaimEstimate | None
    change: float | None  # of an estimate: the difference from the baseline, signed as the metric is
    proof: str  # the same in words, with its interval and its runs; "" without one
    words: str  # all of it, without the name

    @property
    def sentence(self) -> str:
        """`#2 lr=3e-3: confirmed, pass@1 0.318, +0.041 against the baseline (...)`."""
        return f"{self.name}: {self.words}"

    @property
    def label(self) -> str:
        """What kind of number it is, in one or two words; "" for the baseline."""
        kinds = {Basis.BASELINE: "", Basis.FRESH: self.claim, Basis.ONE_RUN: self.claim or "one run"}
        return kinds.get(self.basis, "search mean")

    def to_json(self) -> dict[str, Any]:
        """The same for programs; a gain is positive where it is better, whatever the metric's direction."""
        numbers = {"value": self.value, "value_low": self.low, "value_high": self.high, "search_mean": self.search_mean}
        estimate = asdict(self.estimate or ClaimEstimate(adjusted=False)) | numbers
        who = {"slug": self.slug, "name": self.name, "claim": self.claim or None, "basis": str(self.basis)}
        return who | estimate | {"sentence": self.sentence}


def shown_value(state: CampaignState, idea: Idea) -> ShownValue:
    """What to show for an idea of a campaign."""
    basis, objective = _basis(state, idea), state.spec.objective
    estimate = idea.claim or ClaimEstimate()
    claim = f"{idea.confirmed} ({idea.caveat})" if idea.caveat else idea.confirmed
    picked = search_mean(state, idea)
    value, change, low, high = baseline_value(idea) if basis is Basis.BASELINE else picked, None, None, None
    if basis is Basis.FRESH and estimate.gain is not None:
        base = baseline_value(state.baseline) if state.baseline else None
        change = objective.change(estimate.gain)
        value = base + change if estimate.value is None and base is not None else estimate.value  # in older records
        if value is not None and (ends := estimate.interval(objective)) is not None:
            low, high = (value + end - change for end in ends)
    runs, proof = runs_of(state, idea), _proof(state, idea, basis)
    behind = runs_of(state, idea, fresh=True) if basis is Basis.BASELINE else runs
    words = _words(state, idea, basis, claim, value, behind, proof)
    return ShownValue(
        idea.slug, idea.name, basis, value, low, high, picked, runs, claim, idea.claim, change, proof, words
    )


def baseline_value(idea: Idea) -> float | None:
    """The mean of all its runs, by which the baseline is shown; None without a metric."""
    return mean(values) if (values := all_values(idea)) else None


def all_values(idea: Idea) -> list[float]:
    """The objective of each run that measured it, fresh runs of confirmations included; no copies and no smoke runs."""
    return [value for row in _telling(idea, fresh=True) if (value := measured(row)) is not None]


def runs_of(state: CampaignState, idea: Idea, *, fresh: bool = False) -> str:
    """`runs_words`, with the runs that collapsed: they count in the mean of all runs, not in that of the search."""
    if not fresh:
        return runs_words(idea, collapses=len(idea.values) - len(search_values(state, idea)))
    fallen = [] if state.unseeded else collapsed(state.spec.objective, all_values(idea), usual_sd(state))
    return runs_words(idea, fresh=True, collapses=len(fallen))


def runs_words(idea: Idea, *, fresh: bool = False, collapses: int = 0) -> str:
    """`mean of 4; 2 of 6 runs have no metric`: the runs behind its mean (`fresh`: of all runs), and those missing."""
    rows = _telling(idea, fresh=fresh)
    known = sum(measured(row) is not None for row in rows)
    n = known if fresh else known - collapses
    every = "all " if fresh and n > len(idea.values) and not idea.copies else ""
    ran = sum(row.ending != Ending.LAUNCH_FAILED for row in rows)
    words = [f"mean of {every}{n}" if n > 1 else "one run"] if n else [_runs(ran)] if ran else []
    if collapses and fresh:
        words.append(f"{collapses} of them collapsed")
    elif collapses:
        words.append(f"{collapses} of {_runs(len(rows))} collapsed")
    if same := sum(row.run_id in idea.copies for row in idea.rows):
        words.append(f"{same} of {_runs(len(rows) + same)} {'repeats' if same == 1 else 'repeat'} a seed")
    broke = sum(row.failure in BREACHES for row in rows)
    if n and broke:
        words.append(f"{broke} of {_runs(len(rows))} failed a constraint")
    if n and (without := len(rows) - known - broke):
        words.append(f"{without} of {_runs(len(rows))} {'has' if without == 1 else 'have'} no metric")
    apart = idea.smoke | (set() if fresh else {run.run for run in idea.runs if run.why == "confirm"})
    if lost := sum(idea.excused(row) and row.run_id not in apart for row in idea.rows):
        words.append(f"{_runs(lost)} lost through no fault of its own")
    return "; ".join(words)


def _telling(idea: Idea, *, fresh: bool) -> list[LedgerRow]:
    """Its rows but for copies, smoke runs and excused failures; without `fresh` also without those of a proof."""
    apart = idea.copies | idea.smoke
    rows = (row for row in idea.rows if not idea.excused(row)) if fresh else idea.judged
    return [row for row in rows if row.run_id not in apart]


def _basis(state: CampaignState, idea: Idea) -> Basis:
    if idea.hypothesis.is_baseline:
        return Basis.BASELINE
    if idea.confirmed in TESTED and idea.claim is not None and idea.claim.gain is not None:
        return Basis.FRESH
    once = state.unseeded and idea.kept and idea.confirmed in ("", Claim.ONE_SEED)
    if once or idea.confirmed == Claim.DETERMINISTIC:
        return Basis.ONE_RUN
    return Basis.SELECTED if idea.kept else Basis.SEARCH


def _proof(state: CampaignState, idea: Idea, basis: Basis) -> str:
    objective = state.spec.objective
    if basis is not Basis.ONE_RUN:
        return idea.claim.words(objective) if idea.claim is not None else ""
    if (ahead := _ahead(state, idea)) is None:
        return ""
    return f"{objective.change(ahead):+.3g} against the baseline (resolution {resolution_of(state).size:.3g})"


def _ahead(state: CampaignState, idea: Idea) -> float | None:
    """The gain over the baseline of an idea that one run judges: as its verdict says, if it has one yet."""
    if idea.confirmed or state.baseline is None or not (state.baseline.values and idea.values):
        return idea.claim.gain if idea.claim else None
    return gain(state.spec.objective, idea.values, state.baseline.values)


def _words(
    state: CampaignState, idea: Idea, basis: Basis, claim: str, value: float | None, runs: str, proof: str
) -> str:
    objective = state.spec.objective
    measure = "no metric" if value is None else f"{objective.metric} {number(value)}"
    match basis:
        case Basis.FRESH:
            return f"{claim}, {measure}, {proof}"
        case Basis.ONE_RUN:
            ahead, word = _ahead(state, idea), idea.confirmed or one_run_claim(state)
            sure = word == Claim.DETERMINISTIC and ahead is not None and resolution_of(state).exceeded_by(ahead)
            words = f"{'better, ' if sure else ''}{OF_ONE_RUN[word]}{claim.removeprefix(idea.confirmed)}"
            return f"{words}; {measure}{f', {proof}' if proof else ''}"
        case Basis.SELECTED:
            how = PICKED if idea.simpler else f"search mean, picked because it was {objective.good}"
            about = f"{how}; {runs}" if runs else how
            return f"kept, {claim or 'not confirmed'}: {measure} ({about}){_refused(idea, proof)}"
    counted = f"{measure} ({runs})" if runs else measure
    return f"{claim}, {counted}{_refused(idea, proof)}" if claim else counted


def _refused(idea: Idea, proof: str) -> str:
    """What its fresh runs show, where nothing was decided, and why not."""
    why = idea.claim.reason if idea.claim and idea.confirmed in OPEN else ""
    return "".join(f"; {words}" for words in (f"in fresh runs {proof}" if proof else "", why) if words)


def _runs(n: int) -> str:
    return f"{n} {'run' if n == 1 else 'runs'}"
