"""How an idea stands: the one value that status, report, notices, prompts and JSON print.

The mean of the runs by which the search picked an idea looks too good, because the idea was picked for it. So one that
was put to the proof stands at its fresh runs; without a proof its mean is labelled. Whatever the number rests on, it
is compared with the baseline's runs of the same kind, and the two and their difference subtract as they are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from autoresearch.core.campaign import tip
from autoresearch.core.campaign.claim import OPEN, TESTED, Claim
from autoresearch.core.campaign.decision import compared, gain
from autoresearch.core.campaign.judgement import (
    noise_without,
    one_run_claim,
    resolution_of,
    rule_of,
    search_values,
    usual_sd,
)
from autoresearch.core.campaign.state import CampaignState, Idea, as_measured, measured
from autoresearch.core.controller.runs_and_retries import retest_owed
from autoresearch.core.run.ending import BREACHES, CONSTRAINT_BROKEN, Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.noise import collapsed, mean
from autoresearch.core.text.numbers import counted, number, subtracted

OF_ONE_RUN: dict[str, str] = {
    Claim.DETERMINISTIC: f"{Claim.DETERMINISTIC}: not confirmed on other data",
    Claim.ONE_SEED: f"{Claim.ONE_SEED}: not confirmed on others",
}


class Word(StrEnum):
    """What became of an idea, in the word that a reader needs."""

    BASELINE = "baseline"
    CONFIRMED = "confirmed"
    KEPT = "kept"  # the search built on it; nothing was claimed
    DEMOTED = "demoted"
    PENDING = "pending"  # looks better, and more runs of it are owed before it is kept or discarded
    IN_TIP = "in the tip"  # of ideas that run once (`core.campaign.tip`): what new ideas are edited on
    ASIDE = "set aside"
    OUT = "out"
    BETTER = "better than the baseline, not the best"
    DISCARDED = "discarded"
    NOT_JUDGED = "not judged"  # its runs measured something else, or had nothing to learn from
    CRASHED = "crashed"
    SCREENED = "screened"  # clearly behind the baseline early on: no whole run yet, and no verdict
    UNMEASURED = "unmeasured"  # its runs returned 0 and printed no value: nothing is known of it
    NOT_TRIED = "not tried"  # none of its runs began
    RUNNING = "running"
    PREPARED = "prepared"


KEPT = (Word.KEPT, Word.CONFIRMED)
PLACES = (Word.IN_TIP, Word.ASIDE, Word.OUT)
GIVEN_UP = (Word.DEMOTED, Word.OUT, Word.DISCARDED, Word.CRASHED)  # by their own runs


class Basis(StrEnum):
    """What the number rests on."""

    BASELINE = "baseline"  # the mean of all its runs, fresh ones included
    FRESH = "fresh runs"  # runs that played no part in picking the idea
    SEARCH = "search"  # the runs by which the search picked it, or did not
    ONE_RUN = "one run"  # further ones would be copies


@dataclass(frozen=True, slots=True)
class Standing:
    """How one idea stands. Values are in the metric's unit and direction; gains are positive where they are better."""

    index: int
    slug: str
    name: str
    word: Word
    claim: str  # one of CLAIMS, with its caveat; "" where nobody asked
    basis: Basis
    value: float | None  # None: no metric
    low: float | None  # the interval of `value`, where fresh runs gave one
    high: float | None
    baseline: float | None  # what `value` is compared with; None of the baseline itself, and where there is none
    gain: float | None  # the difference of these two
    gain_low: float | None
    gain_high: float | None
    coverage: float | None  # nominal, of the interval
    n: int  # runs behind `value`
    n_baseline: int | None
    failed: int  # runs of it that have no metric through their own fault, or collapsed
    failed_baseline: int | None
    search_mean: float | None
    note: str  # what has to be said beside its word; "" for nothing
    reason: str  # why it stands there, as it was said when it was decided
    words: str  # the number with what it rests on, without the name

    @property
    def sentence(self) -> str:
        """`#2 lr=3e-3: confirmed, pass@1 0.318, +0.041 against the baseline's 0.277 (...)`."""
        return f"{self.name}: {self.words}"

    def to_json(self) -> dict[str, Any]:
        """The same for programs, flat."""
        names = {"word": "standing", "low": "value_low", "high": "value_high"}
        known = {names.get(one.name, one.name): getattr(self, one.name) for one in fields(self) if one.name != "words"}
        return known | {"claim": self.claim or None, "sentence": self.sentence}


def shown_ideas(state: CampaignState) -> list[Idea]:
    """The ideas that are told of: all but merges that never ran."""
    return [idea for idea in state.ideas if _ran_to_be_judged(idea) or not idea.hypothesis.merges]


def _ran_to_be_judged(idea: Idea) -> bool:
    """Whether it ran, and not only beside a confirmed tip whose edits are measured."""
    return idea.attempted and any(run.round >= 0 for run in idea.runs)


def standings(state: CampaignState) -> list[Standing]:
    """How each of these stands, in the order in which they were begun."""
    return [standing(state, idea) for idea in shown_ideas(state)]


def tally(state: CampaignState, all_standings: Iterable[Standing]) -> str:
    """`10 of 12 ideas and 1 merge, 3 kept, 1 confirmed`: every attempt counts; the confirmed are among the kept."""
    found, count = counts(all_standings), state.spec.rules.count
    of = f" of {count}" if count and count != state.attempted else ""
    merges = sum(_ran_to_be_judged(idea) and bool(idea.hypothesis.merges) for idea in state.ideas)
    tried = f"{state.attempted}{of} {'idea' if state.attempted == 1 and not of else 'ideas'}"
    tried += f" and {counted(merges, 'merge')}" if merges else ""
    return f"{tried}, {sum(found[word] for word in KEPT)} kept, {found[Word.CONFIRMED]} confirmed"


def counts(all_standings: Iterable[Standing]) -> Counter[Word]:
    """How many ideas stand under each word."""
    return Counter(one.word for one in all_standings)


def standing(state: CampaignState, idea: Idea) -> Standing:
    """How an idea of a campaign stands."""
    objective, estimate = state.spec.objective, idea.claim
    word, basis = _word(state, idea), _basis(state, idea)
    ours, theirs = search_values(state, idea), search_values(state, state.baseline) if state.baseline else []
    picked = mean(ours) if ours else None
    if word is Word.NOT_JUDGED:  # its runs judge nothing, and are shown all the same
        ours = [value for row in idea.rows if (value := measured(row)) is not None]
    value, baseline = mean(ours) if ours else None, mean(theirs) if theirs else None
    n = len(ours)
    n_baseline: int | None = len(theirs)
    failed, failed_baseline = _failed(state, idea), _failed(state, state.baseline) if state.baseline else None
    low = high = gain_low = gain_high = coverage = None
    if basis is Basis.BASELINE:
        every = all_values(idea)
        value, n, baseline, n_baseline, failed_baseline = mean(every) if every else None, len(every), None, None, None
    elif basis is Basis.FRESH:
        value, baseline = estimate.means(objective)
        n, n_baseline = estimate.n or 0, estimate.n_baseline
        failed, failed_baseline = estimate.failed or 0, estimate.failed_baseline
        gain_low, gain_high, coverage = estimate.gain_low, estimate.gain_high, estimate.coverage
        if baseline is not None and (ends := estimate.interval(objective)) is not None:
            low, high = (baseline + end for end in ends)
    ahead = gain(objective, [value], [baseline]) if value is not None and baseline is not None else None
    built = state.by_slug(idea.marked)
    measure = f"{objective.metric} {estimate.words(objective)}" if basis is Basis.FRESH else ""
    return Standing(
        *(idea.index, idea.slug, idea.name, word, estimate.label, basis, value, low, high, baseline),
        *(ahead, gain_low, gain_high, coverage, n, n_baseline, failed, failed_baseline, picked),
        note=f"built on demoted {built.name if built else idea.marked}" if idea.marked else "",
        reason=_reason(state, idea, word),
        words=_words(state, idea, word, basis, measure or _measure(state, idea, value, baseline)),
    )


def _word(state: CampaignState, idea: Idea) -> Word:
    if idea.hypothesis.is_baseline:
        return Word.BASELINE
    if not idea.judged and idea.live:
        return Word.RUNNING
    if not idea.rows:
        return Word.PREPARED
    if not idea.judged and idea.unjudged - idea.screens:
        return Word.NOT_JUDGED
    if idea.confirmed in (Claim.CONFIRMED, Claim.DEMOTED):  # the first also of a discarded one, named for a proof
        return Word(idea.confirmed)
    if idea.status == Verdict.KEEP:
        return Word.KEPT
    if retest_owed(state, idea):
        return Word.PENDING
    if idea.status in (Verdict.SCREENED, Verdict.UNMEASURED):
        return Word(idea.status)
    if idea.status == Verdict.CRASH:
        never = all(row.ending == Ending.LAUNCH_FAILED for row in idea.rows)
        return Word.NOT_TRIED if never else Word.CRASHED
    if not state.runs_once(idea):
        return Word.BETTER if _beats(state, idea, state.baseline) else Word.DISCARDED
    return Word(tip.place_of(state, idea))


def _beats(state: CampaignState, idea: Idea, rival: Idea | None) -> bool:
    """Whether its runs are better than the rival's by more than chance, or the resolution, explains."""
    if rival is None or not idea.values or not rival.values:
        return False
    ours, theirs, rule = search_values(state, idea), search_values(state, rival), rule_of(state)
    ahead = gain(state.spec.objective, ours, theirs)
    if ahead <= 0 or state.unseeded or idea.copies:
        return state.unseeded and resolution_of(state).exceeded_by(ahead)
    found = compared(state.spec.objective, ours, theirs, noise_without(state, idea), rule)
    return found.delta > found.bar(rule.alpha)


def _basis(state: CampaignState, idea: Idea) -> Basis:
    if idea.hypothesis.is_baseline:
        return Basis.BASELINE
    if idea.confirmed in TESTED and None not in (idea.claim.gain, idea.claim.value):
        return Basis.FRESH
    once = state.unseeded and idea.kept and idea.confirmed in ("", Claim.ONE_SEED)
    return Basis.ONE_RUN if once or idea.confirmed == Claim.DETERMINISTIC else Basis.SEARCH


def _reason(state: CampaignState, idea: Idea, idea_word: Word) -> str:
    """Why it stands where it stands: as its verdict, or else the decision on its last run that counts, says."""
    if idea_word in (Word.RUNNING, Word.PREPARED):
        return "its first run goes on" if idea.live else "not begun"
    if idea_word is Word.BASELINE:
        return ""
    if idea_word is Word.PENDING:
        return "more runs of it are needed to tell"
    if idea_word is Word.DEMOTED or idea.confirmed in OPEN:
        return idea.claim.reason
    rows = idea.judged or idea.rows
    row = idea.breach or next((one for one in reversed(rows) if one.status == idea.status), rows[-1])
    why = row.reason or row.failure
    if idea_word not in PLACES:
        return why
    return f"{'; '.join(filter(None, (tip.worth_words(state, idea), why)))}{tip.beside_words(state, idea)}"


def _measure(state: CampaignState, idea: Idea, value: float | None, baseline: float | None) -> str:
    """`pass@1 0.4, +0.1 against the baseline's 0.3`."""
    if value is None:
        if idea.breach is None or (known := as_measured(idea.breach)) is None:
            return "no whole run" if idea.screened else "no metric"
        broke = "broke" if idea.breach.failure == CONSTRAINT_BROKEN else "may have broken"
        return f"{broke} a constraint, {state.spec.objective.metric} {number(known)}"
    if baseline is None:
        return f"{state.spec.objective.metric} {number(value)}"
    ours, theirs, change = subtracted(value, baseline)
    return f"{state.spec.objective.metric} {ours}, {change} against the baseline's {theirs}"


def _words(state: CampaignState, idea: Idea, idea_word: Word, basis: Basis, measure: str) -> str:
    runs = runs_of(state, idea, fresh=basis is Basis.BASELINE)
    counted_runs = f"{measure} ({runs})" if runs else measure
    match basis:
        case Basis.FRESH:
            return f"{idea.claim.label}, {measure}"
        case Basis.ONE_RUN:
            claim, resolution = idea.confirmed or one_run_claim(state), resolution_of(state)
            beats = claim == Claim.DETERMINISTIC and _beats(state, idea, state.baseline)
            size = f" (resolution {resolution.size:.3g})" if "against" in measure else ""
            return f"{'better, ' if beats else ''}{OF_ONE_RUN[claim]}; {measure}{size}"
        case Basis.SEARCH if idea.kept:
            how = f", picked because it was {state.spec.objective.good}"
            known = f"{measure} (search mean{how}; {runs})" if runs else f"{measure} (search mean{how})"
            open_words = f"; {idea.claim.reason}" if idea.confirmed in OPEN and idea.claim.reason else ""
            return f"kept, {idea.claim.label or 'not confirmed'}: {known}{open_words}"
    if basis is Basis.BASELINE or not (idea.rows or runs):
        return counted_runs if basis is Basis.BASELINE else str(idea_word)
    return f"{idea_word}: {counted_runs}"


# -- the runs behind a mean -------------------------------------------------------------------------------------------


def all_values(idea: Idea) -> list[float]:
    """The objective of each run that measured it, fresh runs of confirmations included; no copies, none unjudged."""
    return [value for row in _telling(idea, fresh=True) if (value := measured(row)) is not None]


def _telling(idea: Idea, *, fresh: bool) -> list[LedgerRow]:
    """Its rows but for copies, unjudged ones and excused failures; without `fresh` also without those of a proof."""
    apart = idea.copies | idea.unjudged
    rows: Sequence[LedgerRow] = [row for row in idea.rows if not idea.excused(row)] if fresh else idea.judged
    return [row for row in rows if row.run_id not in apart]


def _failed(state: CampaignState, idea: Idea) -> int:
    return len(_telling(idea, fresh=False)) - len(search_values(state, idea))


def runs_of(state: CampaignState, idea: Idea, *, fresh: bool = False) -> str:
    """`mean of 4; 2 of 6 runs have no metric`: the runs behind its mean (`fresh`: of all runs), and those missing.

    Runs that collapsed count in the mean of all runs, and not in that of the search.
    """
    rows = _telling(idea, fresh=fresh)
    known = sum(measured(row) is not None for row in rows)
    if not fresh:
        fallen = len(idea.values) - len(search_values(state, idea))
    else:
        fallen = 0 if state.unseeded else len(collapsed(state.spec.objective, all_values(idea), usual_sd(state)))
    n = known if fresh else known - fallen
    every = "all " if fresh and n > len(idea.values) and not idea.copies else ""
    ran = sum(row.ending != Ending.LAUNCH_FAILED for row in rows)
    total = counted(len(rows), "run")
    words = [f"mean of {every}{n}" if n > 1 else "one run"] if n else [counted(ran, "run")] if ran else []
    if fallen:
        words.append(f"{fallen} of {'them' if fresh else total} collapsed")
    if same := sum(row.run_id in idea.copies for row in idea.rows):
        whole = counted(len(rows) + same, "run")
        words.append(f"{same} of {whole} {'repeats' if same == 1 else 'repeat'} a seed")
    broke = sum(row.failure in BREACHES for row in rows)
    if n and broke:
        words.append(f"{broke} of {total} failed a constraint")
    if n and (without := len(rows) - known - broke):
        words.append(f"{without} of {total} {'has' if without == 1 else 'have'} no metric")
    apart = idea.unjudged | (set() if fresh else {run.run for run in idea.runs if run.why == "confirm"})
    if lost := sum(idea.excused(row) and row.run_id not in apart for row in idea.rows):
        words.append(f"{counted(lost, 'run')} lost through no fault of its own")
    return "; ".join(words)
