"""Which run comes next (the baseline first, then re-tests that are owed, then new ideas), and with which seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from autoresearch.core.campaign.judgement import pending, promised, search_goes_on
from autoresearch.core.campaign.proposer import Attempt
from autoresearch.core.campaign.spec import BASELINE_RUNS, CHECKED, MOST_REPEATS, REFRESH
from autoresearch.core.campaign.state import SCREEN, CampaignState, Idea, IdeaRun, measured
from autoresearch.core.run.ending import CAMPAIGN_STOPPED, Ending, Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.screening import LEAST
from autoresearch.core.statistics.seeding import copies
from autoresearch.core.text.session_and_branch_names import slugify

FRESH_SEEDS = 1000  # confirmations use seeds that played no part in the selection
REOPEN = 1.5  # times what re-tests it the first time, for an idea that was discarded
MOST_TRIES = 3  # additional baseline runs, if failed runs left the seed check undecided
_APART = ("confirm", SCREEN)  # runs that are no part of the search
MENDABLE = (Ending.CRASHED, Ending.FIRST_STEP_TIMEOUT, Ending.STALLED, Ending.LAUNCH_FAILED)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that should be made."""

    idea: Idea
    replicate: int
    why: str  # baseline, first, retest, repeat (of a kept idea), retry, fix, confirm, screen

    @property
    def interrupted(self) -> IdeaRun | None:
        """Of a retry: the run of this replicate that the machine ended."""
        if self.why != "retry":
            return None
        return next((run for run in reversed(self.idea.runs) if run.replicate == self.replicate), None)

    @property
    def experiment(self) -> str:
        """The name of the run's directories."""
        slug = slugify(self.idea.slug)
        return slug if self.replicate == 1 else f"{slug}-{self.replicate}"


def owed(state: CampaignState) -> RunRequest | None:
    """The next run that an existing idea needs: baseline replicate, retry or re-test; None if there is none."""
    baseline = state.baseline
    if baseline is not None:
        if retry := _retry(state, baseline):
            return retry
        if begun(state, baseline) < replicates(state) + refreshes(state):
            if state.seed_check is None and begun(state, baseline) >= CHECKED and baseline.waits:
                return None  # first check whether a further run would be a copy
            return RunRequest(baseline, next_replicate(baseline), "baseline")
        if baseline.live and len(baseline.judged) < replicates(state):
            return None
        if _screens(state) and len(_screened_as(baseline)) < LEAST:
            return RunRequest(baseline, next_replicate(baseline), SCREEN)
    for idea in state.ideas:
        if idea.hypothesis.is_baseline or idea.slug in state.unwanted or idea.waits:
            continue
        if retry := _repaired(idea) or _retry(state, idea):
            return retry
        if retest_owed(state, idea):
            why = "first" if idea.passed else "repeat" if idea.status == Verdict.KEEP else "retest"
            return RunRequest(idea, next_replicate(idea), why)
    return None


def _screens(state: CampaignState) -> bool:
    """Whether ideas have a run with cheaper settings first: not where it would be a copy of the baseline's."""
    baseline = state.baseline
    return bool(state.spec.screen_overrides and baseline and baseline.values and not state.unseeded)


def _screened_as(idea: Idea) -> set[int]:
    """The replicates that are such runs; one that was mended and ran again is whole."""
    cheap = {run.replicate for run in idea.runs if run.why == SCREEN}
    return cheap.difference(run.replicate for run in idea.runs if run.why != SCREEN)


def screen_values(idea: Idea) -> list[float]:
    """What such runs of it measured."""
    found = (measured(row) for row in idea.rows if row.run_id in idea.screens and not idea.excused(row))
    return [value for value in found if value is not None]


def refreshes(state: CampaignState) -> int:
    """Runs of the baseline that are due by now beside its first ones: one after every so many ideas.

    Not of a baseline that has fewer runs than usual, as the budget is small, and not where they would be copies.
    """
    if state.spec.replicates < BASELINE_RUNS or state.unseeded or state.again or not search_goes_on(state):
        return 0
    return max(0, state.attempted - 1) // REFRESH


def unbegun(state: CampaignState) -> RunRequest | None:
    """An idea that has its branch but never ran: its run was withdrawn, or a crash came between."""
    merged = {idea.slug for idea in state.ideas if idea.hypothesis.merges}  # run when they are put to the proof
    for idea in state.ideas:
        if not idea.runs and not idea.rows and idea.index > 1 and idea.slug not in state.unwanted | merged:
            known = _screens(state) and state.baseline and len(screen_values(state.baseline)) >= LEAST
            own = idea.hypothesis.unmade or idea.hypothesis.blueprint  # whose settings may have other names
            return RunRequest(idea, 1, SCREEN if known and not own else "first")
    return None


def replicates(state: CampaignState) -> int:
    """Number of baseline runs, beside those that failed before somebody resumed the campaign.

    If further runs would be copies, no more than exist already.
    """
    if state.seed_check is not None and state.unseeded:
        return min(state.spec.replicates, state.seed_check.runs)
    return state.spec.replicates + state.again


def owed_to_check(state: CampaignState) -> RunRequest | None:
    """A further baseline run, if a claim depends on the effect of the seed and no check has shown it yet."""
    baseline = state.baseline
    if baseline is None or state.seed_check is not None or baseline.waits:
        return None
    if begun(state, baseline) >= MOST_TRIES + max(CHECKED, replicates(state)):
        return None
    return RunRequest(baseline, next_replicate(baseline), "baseline")


def baseline_measured(state: CampaignState) -> bool:
    """Whether ideas may take the slots that are left: all runs of the baseline have begun, and one was measured.

    Those that screen are over: each idea is held against them.
    """
    baseline = state.baseline
    if baseline is None or not baseline.values or begun(state, baseline) < replicates(state):
        return False
    if _screens(state) and len(_screened_as(baseline)) < LEAST:
        return False
    return all(run.run in baseline.done for run in baseline.runs if run.why == SCREEN)


def baseline_done(state: CampaignState) -> bool:
    """Whether every replicate of the baseline is over."""
    return state.baseline is not None and baseline_over(state) >= replicates(state)


def baseline_over(state: CampaignState) -> int:
    """How many replicates of the baseline are over."""
    baseline = state.baseline
    if baseline is None:
        return 0
    over = {row.run_id for row in baseline.judged} | (baseline.unjudged & baseline.done) - baseline.screens
    return len(over) + given_up(state, baseline)


def baseline_failed(state: CampaignState) -> bool:
    """Whether all baseline runs are over and none yielded the metric."""
    baseline = state.baseline
    return baseline_done(state) and baseline is not None and not baseline.values


def begun(state: CampaignState, idea: Idea) -> int:
    """Runs that count, without confirmations: prepared, live, over and not excused, or given up."""
    return len(_counting(idea)) + given_up(state, idea)


def given_up(state: CampaignState, idea: Idea) -> int:
    """Replicates that the machine ended each time, so often that they are not tried again."""
    apart = {run.run for run in idea.runs if run.why in _APART}
    lost = Counter(row.replicate for row in idea.rows if _lost(idea, row) and row.run_id not in apart)
    alive = {run.replicate for run in _counting(idea)}
    return sum(times > state.spec.max_machine_retries for replicate, times in lost.items() if replicate not in alive)


def _counting(idea: Idea) -> list[IdeaRun]:
    excused = {row.run_id for row in idea.rows if idea.excused(row)}
    return [run for run in idea.runs if run.why not in _APART and run.run not in excused]


def next_replicate(idea: Idea) -> int:
    """The number of a further run."""
    return 1 + max((run.replicate for run in idea.runs), default=0)


def _repaired(idea: Idea) -> RunRequest | None:
    """The rerun of an idea whose code was repaired since its last run."""
    if idea.repaired < 0 or idea.repaired < len(idea.runs):
        return None
    return RunRequest(idea, max((run.replicate for run in idea.runs), default=1), "fix")


def _retry(state: CampaignState, idea: Idea) -> RunRequest | None:
    """Repeat a replicate whose last run was lost: `max_machine_retries` times at most, and after a `campaign stop`."""
    if idea.waits:
        return None
    last = idea.rows[-1] if idea.rows else None
    if last is None or not tried_again(state, idea, last):
        return None
    return RunRequest(idea, last.replicate or 1, SCREEN if last.replicate in _screened_as(idea) else "retry")


def tried_again(state: CampaignState, idea: Idea, row: LedgerRow) -> bool:
    """Whether the run of a row, the last one of its idea, is owed another try: the machine or a stop ended it."""
    if not idea.excused(row) or idea.slug in state.unwanted:
        return False
    if any(run.run == row.run_id and run.why == "confirm" for run in idea.runs):
        return False
    lost = {one.run_id for one in (*idea.rows, row) if one.replicate == row.replicate and _lost(idea, one)}
    return len(lost) <= state.spec.max_machine_retries


def _lost(idea: Idea, row: LedgerRow) -> bool:
    """Whether the machine ended the run, which happens `max_machine_retries` times at most."""
    return idea.excused(row) and row.failure != CAMPAIGN_STOPPED


def fixable(state: CampaignState, idea: Idea) -> bool:
    """Whether an agent may still fix it: its last run crashed or missed its first step, and attempts are left.

    Never the baseline, which is the user's own, and never a run that was measured: a bad metric is a result.
    """
    research = state.research
    if idea.index in research.fixing:
        return True
    if not state.spec.research.agent or idea.hypothesis.is_baseline or idea.waits or idea.slug in state.unwanted:
        return False
    last = idea.rows[-1] if idea.rows else None
    if last is None or last.ending not in MENDABLE or idea.excused(last) or idea.hypothesis.unmade:
        return False
    if idea.values or idea.passed or research.fixes.get(idea.index, 0) >= state.spec.research.max_fixes:
        return False
    return idea.repaired < len(idea.runs)  # otherwise its rerun is already owed


def attempts(state: CampaignState) -> list[Attempt]:
    """All attempts as proposers should see them: one that is still being re-tested has no status yet."""
    open_ones = {idea.index for idea in state.ideas if not decided(state, idea)}
    return [replace(a, status="") if a.index in open_ones else a for a in state.attempts()]


def decided(state: CampaignState, idea: Idea) -> bool:
    """Whether an idea's outcome is final: its runs are over, and no re-test or fix is owed."""
    if idea.waits or not idea.rows or fixable(state, idea) or _repaired(idea):
        return False
    if idea.hypothesis.is_baseline:
        return baseline_done(state)
    return not retest_owed(state, idea)


def retest_owed(state: CampaignState, idea: Idea) -> bool:
    """Whether another run of the idea is to come, or to be made first: until then, nothing is decided of it."""
    if idea.hypothesis.is_baseline or idea.slug in state.unwanted:
        return False
    if idea.passed or (idea.rows and tried_again(state, idea, idea.rows[-1])):
        return True
    if promised(state, idea):
        return given_up(state, idea) == 0
    decision = pending(state, idea)
    if decision is None or given_up(state, idea) > 0:
        return False
    if idea.status == Verdict.KEEP:
        return decision.retest and _repeats(state) < MOST_REPEATS
    if idea.judged[-1].standing != Verdict.DISCARD:
        return decision.retest
    # It was discarded. Now that the noise is known better, or its rival was demoted, it may be good enough after all.
    clearly = decision.threshold is not None and (decision.delta or 0.0) > REOPEN * decision.threshold
    return decision.status is Verdict.KEEP or (decision.retest and clearly)


def _repeats(state: CampaignState) -> int:
    return sum(run.why == "repeat" for idea in state.ideas for run in idea.runs)


def without(state: CampaignState, run: str) -> CampaignState:
    """The state as if a run had never been prepared."""

    ideas = list(state.ideas)
    for n, idea in enumerate(ideas):
        if any(one.run == run for one in idea.runs):
            ideas[n] = replace(idea, runs=[one for one in idea.runs if one.run != run])
    return replace(state, ideas=ideas)


def seed_of(run_request: RunRequest, first: int, *, repeats: bool = True) -> int:
    """The seed of a run: the first run of an idea has the first seed, each further one the next; confirmations fresh
    ones. A tip has none of the first seed: by runs of that one, its edits were picked.

    The baseline's second run repeats the first one's seed (`core.statistics.seeding`) as soon as three baseline runs
    are planned (`repeats`), or a third is needed to support a claim.
    """
    idea, n = run_request.idea, run_request.replicate
    if run_request.why == "confirm":
        return first + n - 1 + FRESH_SEEDS
    screens = sum(replicate < n for replicate in _screened_as(idea))
    if run_request.why == SCREEN:
        return first + screens
    if not idea.hypothesis.is_baseline:
        return first + n - 1 - screens + bool(idea.hypothesis.merges)
    again = next((run.seed for run in idea.runs if run.replicate == n and run.seed is not None), None)
    if again is not None:
        return again
    counted = [(run.run, run.seed) for run in idea.runs if run.seed is not None and run.run in _counted(idea)]
    if counted and not copies(counted) and (repeats or len(counted) >= CHECKED - 1):
        return counted[0][1]
    return max((run.seed for run in idea.runs if run.seed is not None and run.why not in _APART), default=first - 1) + 1


def _counted(idea: Idea) -> set[str]:
    """The runs outside confirmation that have a result, or may still get one."""
    over = idea.done
    judged = {row.run_id for row in idea.judged if measured(row) is not None or row in idea.unnamed}
    return {run.run for run in idea.runs if run.why not in _APART and (run.run in judged or run.run not in over)}
