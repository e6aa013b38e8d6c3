"""Sentences about a campaign that its controller, its status and its report have in common."""

from __future__ import annotations

from pathlib import PurePath

from autoresearch.core.campaign.judgement import resolution_of
from autoresearch.core.campaign.state import CampaignState, Idea, as_measured, measured
from autoresearch.core.campaign.tip import worth_words
from autoresearch.core.controller.standing import Word, standing
from autoresearch.core.run.ending import (
    BREACHES,
    CONSTRAINT_BROKEN,
    CONSTRAINT_UNREAD,
    EVALUATION_FAILED,
    NO_NUMBER,
    NOT_SHOWN,
    Ending,
    Verdict,
)
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import DECLARE, Randomness
from autoresearch.core.text.numbers import number


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
    if run in idea.screens:
        behind = ": screened, clearly behind" if idea.screened else ""
        return f"{where}{idea.name}, cheap run {row.replicate}: {value}{failure}{behind}"
    if state.spec.prove:
        return f"{idea.name}, run {row.replicate}: {value}{failure}"
    status = (state.runs_once(idea) and worth_words(state, idea)) or row.shown_status
    return f"{where}{idea.name}, run {row.replicate}: {status}, {value}{noise}{failure}{top}"


def breach_words(row: LedgerRow) -> str:
    """`its run 2 broke a constraint: memory_gb is 41.2, and the constraint is memory_gb <= 40`."""
    broke = "broke a constraint" if row.failure == CONSTRAINT_BROKEN else "does not show whether it kept a constraint"
    return f"its run {row.replicate or 1} {broke}: {_breach_reason(row)}"


def _breach_reason(row: LedgerRow) -> str:
    return (row.failure in BREACHES and row.reason) or row.failure


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
    """`no run of the baseline printed loss: crashed (oom); see LOG`: how its runs ended, and the last one's log."""
    if idea.breach is not None:
        return breach_words(idea.breach)
    if not state.spec.objective.metric and any(NO_NUMBER not in row.reason for row in idea.unnamed):
        return "which of the numbers that its runs printed counts? `--metric NAME` says so"
    endings = sorted({f"{row.ending}{f' ({row.failure})' if row.failure else ''}" for row in idea.rows})
    last = idea.rows[-1] if idea.rows else None
    more = "" if last is None else f"; see {_log_of(last)}" if last.log_path else f": {last.description}"
    if last is not None and last.ending == Ending.LAUNCH_FAILED:
        why = last.reason.removeprefix("could not be launched: ") or last.failure
        return f"{name} could not be started: {why}{more if last.log_path else ''}"
    if last is not None and (last.status == Verdict.UNMEASURED or last.failure == NOT_SHOWN):  # with the line to type
        why = last.reason.removeprefix(f"{last.failure}: ")
        more = f": {why}{more}"
    what = state.spec.objective.metric or "a number"
    return f"no run of {name} printed {what}: {', '.join(endings) or 'it never ran'}{more}"


def _log_of(row: LedgerRow) -> str:
    """The log that tells why a run has no metric: its evaluation's own, if that failed."""
    own = PurePath(row.log_path)
    return str(own.with_name("evaluation.log") if row.failure == EVALUATION_FAILED else own)


def more_ideas(state: CampaignState, more: int = 10) -> str:
    """The command that lets a campaign go on that has ended; one whose space was exhausted ended below its count."""
    count = max(state.attempted, state.spec.rules.count or 0) + more
    return f"autoresearch campaign set {state.spec.name} count={count}"


def doubt_words(state: CampaignState, idea: Idea) -> str:
    """Why an idea waits for a person, and the command that lets it pass."""
    approve = f"autoresearch campaign approve {idea.slug} --campaign {state.spec.name}"
    return f"{idea.name} waits for a person: {state.distrusted(idea)}; if it is right, {approve}"


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
        alike = f"Runs with the same seed differ in {metric} about as much as runs with another"
        alike = f"Whether the seed changes {metric} cannot be told" if check.exact else alike
        return f"{alike} ({check.reason}). They may all be copies of one seed: {judged}; {DECLARE}."
    why = f" ({check.why})" if check.why else ""
    return f"Runs are {'copies' if check.values else 'equal'}, whatever their seed{why}: {judged}; {DECLARE}."
