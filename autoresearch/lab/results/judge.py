"""Judge a run: a single run is kept if it was measured; in a campaign the noise decides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.campaign.judgement import decision_of
from autoresearch.core.campaign.state import FLAT, SCREEN, CampaignState, Idea
from autoresearch.core.controller.runs_and_retries import screen_values
from autoresearch.core.run.ending import (
    CAMPAIGN_STOPPED,
    CPU_FALLBACK,
    Ending,
    Verdict,
    lone_verdict,
)
from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.statistics.comparable import NO_SIGNAL, why_not
from autoresearch.core.statistics.screening import worse
from autoresearch.lab.results.finished_run import ExaminedRun
from autoresearch.records import campaign_records, exit_record
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import locked
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir

FLAT_FROM = 5  # values of a curve
LONGER = 2  # times the steps of the baseline's longest run


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict for the row."""

    verdict: Verdict
    reason: str = ""
    noise: float | None = None
    judged: bool = True  # False: it counts neither for nor against the idea
    pending: bool = False  # the verdict is not final: more runs of the idea are owed
    flag: str = ""  # what a person has to know of the run: a flat objective, more steps than the baseline
    failure: str = ""  # the class of failure, where its campaign ended it


@contextlib.contextmanager
def judging(spec: RunSpec) -> Iterator[CampaignState | None]:
    """Lock the ledger until the row is written, so that two runs that end together see each other.

    Yields the campaign's state; None for a lone run, whatever else is in its directory.
    """
    campaign_dir = CampaignDir(Path(spec.ledger).parent)
    if not (spec.why and campaign_dir.spec.exists()):
        yield None
        return
    from autoresearch.lab.campaigns.campaign_history import history_of

    with locked(campaign_dir.judge_lock):
        yield history_of(campaign_dir).state()


def has_row(spec: RunSpec) -> bool:
    """Whether a run has its row: in the record of its campaign, else in the ledger."""
    campaign_dir = CampaignDir(Path(spec.ledger).parent)
    shown = Ledger(campaign_dir.ledger).holds(spec.run)
    return shown and (not (spec.why and campaign_dir.spec.exists()) or campaign_records.holds(campaign_dir, spec.run))


def judge(examined: ExaminedRun, state: CampaignState | None) -> Judgement:
    """The verdict on one finished run. `state`: of its campaign; None for a run of its own."""
    spec, end = examined.finished.spec, examined.judged_end
    idea = next((i for i in state.ideas if i.index == spec.index), None) if state else None
    if state is None or idea is None:
        verdict = lone_verdict(end.ending, measured=examined.value is not None, failed=examined.failed)
        if verdict is Verdict.KEEP and (breach := examined.breach):
            return Judgement(Verdict.CRASH, breach.reason, failure=breach.failure)
        return Judgement(verdict, f"stopped: {end.reason}" if end.ending is Ending.STOPPED else examined.unread)
    if examined.counted is not None and _fell_back(end, state):
        reason = f"{end.idle_gpus}, and the baseline used one: it measures nothing of the idea"
        return Judgement(Verdict.CRASH, reason, failure=CPU_FALLBACK)
    stopped = _stopped(examined, state)
    if spec.why == "confirm" and stopped:
        return replace(stopped, judged=False)
    if spec.why == "confirm":
        fresh = lone_verdict(end.ending, measured=examined.value is not None) is Verdict.KEEP
        if fresh and (breach := examined.breach):
            return Judgement(Verdict.CRASH, breach.reason, judged=False, failure=breach.failure)
        valueless = Verdict.UNMEASURED if examined.unmeasured else Verdict.CRASH
        verdict = Verdict(idea.status or Verdict.DISCARD) if fresh and examined.value is not None else valueless
        return Judgement(verdict, "confirmation run: it judges the claim, not the search", judged=False)
    if spec.why == SCREEN:
        return stopped or _screened(examined, state, idea)
    # its campaign ended it because it was judged; the Runner keeps the cause of the stop request
    if end.ending is Ending.STOPPED and end.cause == Verdict.SCREENED:
        return Judgement(Verdict.SCREENED, end.reason)
    if foreign := _foreign(spec, state):
        return Judgement(Verdict.DISCARD, f"not judged: {foreign}", judged=False)
    if examined.idle and examined.counted is not None and not idea.hypothesis.is_baseline:
        return Judgement(Verdict.DISCARD, f"{NO_SIGNAL}: {examined.idle}; it judges nothing", judged=False)
    if examined.counted is not None and not stopped and (breach := examined.breach):
        return Judgement(Verdict.CRASH, breach.reason, failure=breach.failure)
    values = [*idea.past_values, examined.counted]
    decision = decision_of(state, idea, values)
    if examined.unmeasured and decision.status is Verdict.CRASH:
        reason = "; ".join(filter(None, (decision.reason, examined.unread)))
        decision = replace(decision, status=Verdict.UNMEASURED, reason=reason)
    if idea.broken and not stopped:
        return Judgement(Verdict.CRASH, f"another run of it broke a constraint; {decision.reason}", decision.noise)
    owed = decision.retest and decision.status is not Verdict.KEEP  # a kept one is only measured better
    if stopped:
        return replace(stopped, noise=decision.noise, pending=owed)
    flag = "; ".join(filter(None, (_flat(examined, state, idea), _longer(examined, state, idea))))
    return Judgement(decision.status, decision.reason, decision.noise, pending=owed, flag=flag)


def _screened(examined: ExaminedRun, state: CampaignState, idea: Idea) -> Judgement:
    """Of a run with the settings of `screen`: whether the idea is clearly behind, or its first whole run is owed."""
    own, is_baseline = examined.value, idea.hypothesis.is_baseline
    if own is None or lone_verdict(examined.judged_end.ending, measured=True) is not Verdict.KEEP:
        # what does not run with these settings may do so with its own
        verdict = Verdict.UNMEASURED if examined.unmeasured else Verdict.CRASH
        return Judgement(verdict, examined.unread, pending=not is_baseline)
    values = screen_values(state.baseline) if state.baseline else []
    if not is_baseline and (why := worse(own, values, state.spec.objective)):
        return Judgement(Verdict.SCREENED, why)
    how = "ideas are held against it" if is_baseline else "not clearly behind the baseline"
    return Judgement(Verdict.SCREENED, f"with the settings of `screen`: {how}", pending=not is_baseline)


def _stopped(examined: ExaminedRun, state: CampaignState) -> Judgement | None:
    """The verdict on a run that somebody stopped, or that ended with its campaign; None for any other."""
    if examined.judged_end.ending is Ending.MAX_TIME and examined.finished.spec.timed_by == DEADLINE:
        return Judgement(Verdict.DISCARD, "stopped: the campaign's deadline had come", failure=CAMPAIGN_STOPPED)
    if examined.judged_end.ending is not Ending.STOPPED:
        return None
    with_campaign = CAMPAIGN_STOPPED if state.stop_mode == "stop" else ""
    return Judgement(Verdict.DISCARD, f"stopped: {examined.judged_end.reason}", failure=with_campaign)


def _flat(examined: ExaminedRun, state: CampaignState, idea: Idea) -> str:
    """The flag of an edited idea whose objective is the same at every step, while the baseline's is not; else ""."""
    values = [value for _, value in examined.measurement.series]
    if not (state.spec.self_reported and idea.edited) or len(values) < FLAT_FROM or len(set(values)) > 1:
        return ""
    from autoresearch.lab.campaigns.seeds_and_rounds import baseline_is_flat

    return "" if baseline_is_flat(state) else f"{FLAT}its objective is {values[0]:.4g} at all {len(values)} steps"


def _longer(examined: ExaminedRun, state: CampaignState, idea: Idea) -> str:
    """The flag of an edited idea that trains many more steps than the baseline, whose gain that may be; else ""."""
    usual = max((row.steps or 0 for row in state.baseline.rows), default=0) if state.baseline else 0
    if not (idea.edited and usual and examined.steps and examined.steps >= LONGER * usual):
        return ""
    return f"it trained {examined.steps} steps, and the baseline at most {usual}"


def _foreign(spec: RunSpec, state: CampaignState) -> str:
    """Why the value of this run must not be compared with the campaign's; "" if it may."""
    if spec.objective is None:
        return ""
    names = {name for idea in state.ideas for name in idea.metric_names if name}
    return next((why for name in sorted(names) if (why := why_not(spec.objective.metric, name))), "")


def _fell_back(end: ExitRecord, state: CampaignState) -> bool:
    """Whether a run used no GPU though a run of the baseline is known to have used one."""
    if not end.idle_gpus or state.baseline is None:
        return False
    ends = (exit_record.read(RunDir(Path(row.run_dir))) for row in state.baseline.rows if row.run_dir)
    return any(other is not None and other.gpu_used for other in ends)
