"""Sentences about a campaign that its controller, its status and its report have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoresearch.core.campaign.judgement import resolution_of
from autoresearch.core.campaign.state import CampaignState, Idea, as_measured, measured
from autoresearch.core.campaign.tip import change_by, worth_words
from autoresearch.core.controller.standing import Word, standing
from autoresearch.core.run.ending import (
    BREACHES,
    CONSTRAINT_BROKEN,
    CONSTRAINT_UNREAD,
    NO_NUMBER,
    NOT_SHOWN,
    Verdict,
)
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.noise import mean
from autoresearch.core.statistics.seeding import DECLARE, Randomness
from autoresearch.core.statistics.student_t import t_cdf
from autoresearch.core.text.numbers import number

LEVEL = 0.05
FEWEST = 6  # runs


def row_line(state: CampaignState, idea: Idea, run: str, *, alone: bool = False) -> str:
    """`[3/24] #3 lr=3e-3, run 1: discard, pass@1 0.312; best 0.35 (#2 lr=1e-3, confirmed)`: one row in words.

    `alone`: without the count and the best idea of now.

    Of a proof, nothing but its value: what it shows is not told before its end.
    """
    row = next((r for r in idea.rows if r.run_id == run), None)
    count = state.spec.rules.count
    where = "" if state.spec.prove or alone else f"[{state.attempted}{f'/{count}' if count else ''}] "
    if row is None:
        return f"{where}{idea.name}: no row"
    metric = measured(row)
    known = as_measured(row)
    value = "no metric" if known is None else f"{row.metric_name} {number(known)}"
    noise = "" if row.metric_noise is None else f" (noise {row.metric_noise:.2g})"
    failure = f" [{_breach_reason(row)}]" if row.failure else ""
    best, top = standing(state, state.best) if state.best and not alone else None, ""
    if best and best.value is not None and not (best.index == idea.index and best.value == metric):
        label = "" if best.word is Word.BASELINE else f", {best.word}"
        top = f"; best {number(best.value)} ({best.name}{label})"
    if any(one.run == run and one.why == "confirm" for one in idea.runs):  # it judges neither idea nor baseline
        return f"{where}{idea.name}, fresh run {row.replicate}: {value}{failure}"
    if state.spec.prove:
        return f"{idea.name}, run {row.replicate}: {value}{failure}"
    status = row.shown_status
    if state.runs_once(idea) and (worth := change_by(state, idea)):
        status = worth_words(worth)
    return f"{where}{idea.name}, run {row.replicate}: {status}, {value}{noise}{failure}{top}"


def breach_words(row: LedgerRow) -> str:
    """`its run 2 broke a constraint: memory_gb is 41.2, and the constraint is memory_gb <= 40`."""
    broke = "broke a constraint" if row.failure == CONSTRAINT_BROKEN else "does not show whether it kept a constraint"
    return f"its run {row.replicate or 1} {broke}: {_breach_reason(row)}"


def _breach_reason(row: LedgerRow) -> str:
    return (row.failure in BREACHES and row.reason) or row.failure


def launch_fault(row: LedgerRow) -> str:
    """Why a run could not be launched, as its row says, and its log."""
    why = row.reason.removeprefix("could not be launched: ") or row.failure
    return f"{why}; see {row.log_path}" if row.log_path else why


def unseen_path(state: CampaignState, since: float) -> str:
    """What a run that ended since then needs of the checkout and has not; "" if it has all.

    Of a proof, a run of either side; else of the baseline, as an idea may be at fault itself.
    """
    ideas = [idea for idea in state.ideas if idea is state.baseline or state.spec.prove]
    rows = [row for idea in ideas for row in idea.rows if row.failure == NOT_SHOWN and (row.ended or 0.0) > since]
    return f"{rows[0].run_id}: {rows[0].reason}" if rows else ""


def baseline_breach(state: CampaignState, since: float = 0.0) -> str:
    """That the baseline breaks a constraint, by a run that ended since then, and what to do; "" if it does not."""
    row = state.baseline.breach if state.baseline else None
    if row is None or (row.ended or 0.0) <= since:
        return ""
    mend = "log that metric, or name it as it is logged" if row.failure == CONSTRAINT_UNREAD else "change the baseline"
    return (
        f"the baseline breaks its own constraints: {breach_words(row)}; {mend}, or change `constraints` "
        "(`--set constraints='METRIC <= X'` begins another campaign)"
    )


def without_metric(state: CampaignState, idea: Idea, name: str) -> str:
    """`no run of the baseline printed loss: crashed (oom); see LOG`: how its runs ended, and the last one's log.

    Of one without a log, which could not be launched, its row says why.
    """
    if idea.breach is not None:
        return breach_words(idea.breach)
    if not state.spec.objective.metric and any(NO_NUMBER not in row.reason for row in idea.unnamed):
        return "which of the numbers that its runs printed counts? `--metric NAME` says so"
    endings = sorted({f"{row.ending}{f' ({row.failure})' if row.failure else ''}" for row in idea.rows})
    last = idea.rows[-1] if idea.rows else None
    more = "" if last is None else f"; see {last.log_path}" if last.log_path else f": {last.description}"
    if last is not None and (last.status == Verdict.UNMEASURED or last.failure == NOT_SHOWN):  # with the line to type
        why = last.reason.removeprefix(f"{last.failure}: ")
        more = f": {why}{more}"
    what = state.spec.objective.metric or "a number"
    return f"no run of {name} printed {what}: {', '.join(endings) or 'it never ran'}{more}"


def more_ideas(state: CampaignState, more: int = 10) -> str:
    """The command that lets a campaign go on that has ended; one whose space was exhausted ended below its count."""
    count = max(state.attempted, state.spec.rules.count or 0) + more
    return f"autoresearch campaign set {state.spec.name} count={count}"


def doubt_words(state: CampaignState, idea: Idea) -> str:
    """Why an idea waits for a person, and the command that lets it pass."""
    approve = f"autoresearch campaign approve {idea.slug} --campaign {state.spec.name}"
    return f"{idea.name} waits for a person: {state.distrusted(idea)}; if it is right, {approve}"


def drift_words(state: CampaignState) -> str:
    """That the baseline's results drift over the campaign, and what it means; "" if nothing of the kind is seen.

    Where runs with the same seed agree to the last digit, results depend on nothing that could drift.
    """
    baseline, check, objective = state.baseline, state.seed_check, state.spec.objective
    if baseline is None or state.unseeded or (check is not None and check.exact):
        return ""
    rows = [row for row in baseline.rows if row.run_id not in baseline.copies and row.ended is not None]
    found = drift([(row.ended or 0.0, value) for row in rows if (value := measured(row)) is not None])
    if found is None:
        return ""
    look = "better" if objective.better(found.change, 0.0) else "worse"
    return (
        f"The baseline drifts: {objective.metric} changed by {found.change:+.3g} from its first run to its last "
        f"({found.runs} runs, p = {found.p:.2g}). Ideas that were tried later look {look} than they are; "
        "a confirmation runs both sides in turn, so what it claims holds."
    )


def seed_words(state: CampaignState) -> str:
    """One line on where the differences between runs come from, and what to declare if nothing can be claimed."""
    check, metric = state.seed_check, state.spec.objective.metric
    if check is None:
        return ""
    if state.replicated:
        return f"Every run is a replicate, whatever its seed: {check.why or 'runs differ from their first values on'}."
    if check.seen:
        return f"The seed{f' ({check.by})' if check.by else ''} works: it changes {metric}."
    judged = f"one run judges an idea, to within {resolution_of(state).size:.3g}, and nothing can be confirmed"
    if state.deterministic:
        return f"Runs are equal, and nothing in them is random ({check.why}): one run tells all there is to know."
    if check.randomness == Randomness.UNKNOWN:
        return f"Whether the seed changes {metric} cannot be told: {check.reason}. So {judged}; {DECLARE}."
    why = f" ({check.why})" if check.why else ""
    return f"Runs are {'copies' if check.values else 'equal'}, whatever their seed{why}: {judged}; {DECLARE}."


@dataclass(frozen=True, slots=True)
class Drift:
    """A slope that chance does not explain."""

    change: float  # between the first run and the last, in the metric's unit
    p: float
    runs: int


def drift(points: Sequence[tuple[float, float]]) -> Drift | None:
    """The drift of results, given as (time in seconds, value); None if none is seen, or too little is known."""
    if len(points) < FEWEST:
        return None
    hours = [t / 3600 for t, _ in points]
    values = [value for _, value in points]
    middle, level = mean(hours), mean(values)
    wide = math.fsum((h - middle) ** 2 for h in hours)
    if not wide:
        return None
    slope = math.fsum((h - middle) * (v - level) for h, v in zip(hours, values, strict=True)) / wide
    rest = math.fsum((v - level - slope * (h - middle)) ** 2 for h, v in zip(hours, values, strict=True))
    df = len(points) - 2
    se = math.sqrt(rest / df / wide)
    p = 2 * t_cdf(-abs(slope) / se, df) if se else 0.0 if slope else 1.0
    if not p <= LEVEL:
        return None
    return Drift(slope * (max(hours) - min(hours)), p, len(points))
