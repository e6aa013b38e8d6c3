"""Which run comes next: the baseline first, then re-tests that are owed, then new ideas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from autoresearch.core.agents.agent import NotMade
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.stop_rules import StopFacts
from autoresearch.core.run.ending import Ending
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaigns.idea_run import CHECKED, RunRequest
from autoresearch.lab.results.judge import pending

MOST_RETRIES = 2  # of one replicate that was lost through no fault of its own
MOST_TRIES = 3  # additional baseline runs, if failed runs left the seed check undecided
BREAKER = 3  # ideas in a row that fail with the same signature
MARGIN = 1.25  # over the longest run so far
MENDABLE = (Ending.CRASHED, Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.LAUNCH_FAILED)


def owed(state: CampaignState) -> RunRequest | None:
    """The next run that an existing idea needs: baseline replicate, retry or re-test; None if there is none."""
    baseline = state.baseline
    if baseline is not None:
        if retry := _retry(baseline):
            return retry
        if begun(baseline) < replicates(state):
            if state.seed_check is None and begun(baseline) >= CHECKED and waits(baseline):
                return None  # first check whether a further run would be a copy
            return RunRequest(baseline, _next_replicate(baseline), "baseline")
        if baseline.live and len(baseline.judged) < replicates(state):
            return None
    for idea in state.ideas:
        if idea.hypothesis.is_baseline or idea.slug in state.unwanted or waits(idea):
            continue
        if retry := _repaired(idea) or _retry(idea):
            return retry
        decision = pending(state, idea)
        if decision is not None and decision.retest:
            return RunRequest(idea, _next_replicate(idea), "retest")
    return None


def unbegun(state: CampaignState) -> RunRequest | None:
    """An idea that has its branch but never ran: its run was withdrawn, or a crash came between."""
    for idea in state.ideas:
        if not idea.runs and not idea.rows and idea.index > 1 and idea.slug not in state.unwanted:
            return RunRequest(idea, 1, "first")
    return None


def replicates(state: CampaignState) -> int:
    """Number of baseline runs; as many again for each `resume` after the baseline failed.

    If further runs would be copies, no more than exist already.
    """
    if state.seed_check is not None and state.unseeded:
        return min(state.spec.replicates, state.seed_check.runs)
    return state.spec.replicates * (1 + state.again)


def owed_to_check(state: CampaignState) -> RunRequest | None:
    """A further baseline run, if a claim depends on the effect of the seed and no check has shown it yet."""
    baseline = state.baseline
    if baseline is None or state.seed_check is not None or waits(baseline):
        return None
    if begun(baseline) >= MOST_TRIES + max(CHECKED, replicates(state)):
        return None
    return RunRequest(baseline, _next_replicate(baseline), "baseline")


def baseline_done(state: CampaignState) -> bool:
    """Whether every replicate of the baseline is over."""
    baseline = state.baseline
    return baseline is not None and not waits(baseline) and len(baseline.judged) >= replicates(state)


def baseline_failed(state: CampaignState) -> bool:
    """Whether all baseline runs are over and none yielded the metric."""
    baseline = state.baseline
    return baseline_done(state) and baseline is not None and not baseline.values


def begun(idea: Idea) -> int:
    """Runs that count, without confirmations: prepared, live, or over and not excused."""
    excused = {row.run_id for row in idea.rows if idea.excused(row)}
    return sum(run.why != "confirm" and run.run not in excused for run in idea.runs)


def waits(idea: Idea) -> bool:
    """Whether a run of the idea is prepared or live, confirmations excluded."""
    done = idea.done
    return any(run.run not in done and run.why != "confirm" for run in idea.runs)


def _next_replicate(idea: Idea) -> int:
    return 1 + max((run.replicate for run in idea.runs), default=0)


def _repaired(idea: Idea) -> RunRequest | None:
    """The rerun of an idea whose code was repaired since its last run."""
    if idea.repaired < 0 or idea.repaired < len(idea.runs):
        return None
    return RunRequest(idea, max((run.replicate for run in idea.runs), default=1), "fix")


def _retry(idea: Idea) -> RunRequest | None:
    """Repeat a replicate whose last run was lost or found its lease taken, at most MOST_RETRIES times."""
    if waits(idea):
        return None
    last = idea.rows[-1] if idea.rows else None
    if last is None or not idea.excused(last):
        return None
    again = [row for row in idea.rows if row.replicate == last.replicate and idea.excused(row)]
    why = next((run.why for run in idea.runs if run.run == last.run_id), "retry")
    if len(again) > MOST_RETRIES or why == "confirm":
        return None
    return RunRequest(idea, last.replicate or 1, "retry")


def fixable(state: CampaignState, idea: Idea) -> bool:
    """Whether an agent may still fix it: its last run crashed or missed its first step, and attempts are left.

    Never the baseline, which is the user's own, and never a run that was measured: a bad metric is a result.
    """
    research = state.research
    if idea.index in research.fixing:
        return True
    if not state.spec.research.agent or idea.hypothesis.is_baseline or waits(idea) or idea.slug in state.unwanted:
        return False
    last = idea.rows[-1] if idea.rows else None
    if last is None or last.ending not in MENDABLE or idea.excused(last) or idea.hypothesis.unmade:
        return False
    if idea.values or research.fixes.get(idea.index, 0) >= state.spec.research.max_fixes:
        return False
    return idea.repaired < len(idea.runs)  # otherwise its rerun is already owed


def facts(state: CampaignState, now: float, *, conceived: int = 0) -> StopFacts:
    """The inputs of the stop rules."""
    best = state.best
    run_s = expected_run_s(state)
    spent = state.research.usage
    return StopFacts(
        attempted=state.attempted + conceived,
        best=best.value if best and best.kept else None,
        gpu_hours=state.gpu_hours,
        now=now,
        run_s=run_s,
        reserve_s=reserve_s(state, run_s),
        run_gpu_hours=run_s / 3600 * state.spec.gpus_per_run,
        usd=spent.usd or 0.0,
        tokens=spent.tokens or 0,
    )


def expected_run_s(state: CampaignState) -> float:
    """Expected duration of one more run, in seconds: the longest so far times MARGIN, at most the run's time limit."""
    limit = state.spec.timeout_s
    longest = MARGIN * state.memo("longest", lambda: _longest_s(state.rows))
    if not longest:
        return limit or 0.0
    return min(limit, longest) if limit else longest


def _longest_s(rows: Iterable[LedgerRow]) -> float:
    spans = (row.elapsed_min or 0.0 for row in rows if row.ending != Ending.LAUNCH_FAILED)
    return 60 * max(spans, default=0.0)


def reserve_s(state: CampaignState, run_s: float) -> float:
    """Seconds to reserve for the confirmation of kept ideas."""
    if not state.spec.confirm or not any(idea.kept and idea.index > 1 for idea in state.keeps):
        return 0.0
    return run_s * state.spec.confirm_runs / state.spec.parallel


def tripped(state: CampaignState, since: float) -> str:
    """Why the circuit breaker trips: the last ideas failed quickly and with the same signature; "" if it does not."""
    refused = {idea.index for idea in state.ideas if idea.hypothesis.unmade not in ("", NotMade.RESEARCHER)}
    counted = (r for r in state.rows if r.index > 1 and r.index not in refused and (r.ended or 0.0) > since)
    rows = sorted(counted, key=lambda r: r.ended or 0.0)
    last = rows[-BREAKER:]
    if len(last) < BREAKER or len({row.index for row in last}) < BREAKER:
        return ""
    signatures = {row.failure for row in last}
    good = [r.elapsed_min for r in state.rows if r.status != "crash" and r.elapsed_min]
    if len(signatures) != 1 or not all(row.status == "crash" and row.failure for row in last):
        return ""
    fast = 0.5 * median(good) if good else 10.0
    if not all((row.elapsed_min or 0.0) <= fast for row in last):
        return ""
    return f"the last {BREAKER} ideas died alike within {fast:.1f} min: {signatures.pop()}"


def attempts(state: CampaignState) -> list[Attempt]:
    """All attempts as proposers should see them: one that is still being re-tested has no status yet."""
    open_ones = {idea.index for idea in state.ideas if not decided(state, idea)}
    return [replace(a, status="") if a.index in open_ones else a for a in state.attempts()]


def decided(state: CampaignState, idea: Idea) -> bool:
    """Whether an idea's outcome is final: its runs are over, and no re-test or fix is owed."""
    if waits(idea) or not idea.rows or fixable(state, idea) or _repaired(idea):
        return False
    if idea.hypothesis.is_baseline:
        return baseline_done(state)
    if idea.slug in state.unwanted:
        return True
    decision = pending(state, idea)
    return decision is None or not decision.retest


def without(state: CampaignState, run: str) -> CampaignState:
    """The state as if a run had never been prepared."""

    def slim(idea: Idea) -> Idea:
        runs = [one for one in idea.runs if one.run != run]
        return idea if len(runs) == len(idea.runs) else replace(idea, runs=runs)

    return replace(state, ideas=[slim(idea) for idea in state.ideas])
