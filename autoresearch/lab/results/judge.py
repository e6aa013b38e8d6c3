"""Judge a run: a single run is kept if it was measured; in a campaign the noise decides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.campaign.judgement import decision_of, noise_without, past_values
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.trust import FLAT
from autoresearch.core.run.ending import (
    CAMPAIGN_STOPPED,
    COPY,
    CPU_FALLBACK,
    NOTHING_MEASURED,
    Ending,
    Verdict,
    lone_verdict,
)
from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.statistics.comparable import Measured, why_not
from autoresearch.core.statistics.no_signal import NO_SIGNAL
from autoresearch.core.statistics.pruning import PRUNED
from autoresearch.core.statistics.seeding import NEARLY, SeededRun
from autoresearch.records import campaign_records, exit_record
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.rundir import RunDir, locked

FLAT_FROM = 5  # values of a curve


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict for the row."""

    verdict: Verdict
    reason: str = ""
    noise: float | None = None
    judged: bool = True  # False: it counts neither for nor against the idea
    pending: bool = False  # the verdict is not final: more runs of the idea are owed
    copy: str = ""  # the flag of a run that repeats an earlier one of its idea
    failure: str = ""  # the class of failure, where its campaign ended it


@contextlib.contextmanager
def judging(spec: RunSpec) -> Iterator[CampaignState | None]:
    """Lock the ledger until the row is written, so that two runs that end together see each other.

    Yields the campaign's state; None for a lone run, whatever else is in its directory.
    """
    campaign_dir = CampaignDir(Path(spec.ledger).parent)
    campaign_records.restore(campaign_dir)
    if not (spec.why and campaign_dir.spec.exists()):
        yield None
        return
    from autoresearch.lab.campaigns.campaign_history import history_of

    with locked(campaign_dir.judge_lock):
        yield history_of(campaign_dir).state()


def judge(
    spec: RunSpec,
    end: ExitRecord,
    value: float | None,
    steps: int | None,
    state: CampaignState | None,
    idle: str = "",
    needs_metric: bool = True,
    series: Sequence[tuple[int, float]] = (),
) -> Judgement:
    """The verdict on one finished run. `idle`: why it had nothing to learn from, "" if it had.

    `needs_metric`: False for a run without a named metric that did not fail. `series`: (step, value) of the objective.
    """
    idea = next((i for i in state.ideas if i.index == spec.index), None) if state else None
    if state is None or idea is None:
        verdict = lone_verdict(end.ending, measured=value is not None, needs_metric=needs_metric)
        reason = NOTHING_MEASURED if verdict is Verdict.KEEP and value is None else ""
        return Judgement(verdict, f"stopped: {end.reason}" if end.ending is Ending.STOPPED else reason)
    if value is not None and _counts(spec, end) and _fell_back(end, state):
        reason = f"{end.idle_gpus}, and the baseline used one: it measures nothing of the idea"
        return Judgement(Verdict.CRASH, reason, failure=CPU_FALLBACK)
    stopped = _stopped(spec, end, state)
    if spec.why == "confirm" and stopped:
        return replace(stopped, judged=False)
    if spec.why == "confirm":
        fresh = value if lone_verdict(end.ending, measured=value is not None) is Verdict.KEEP else None
        verdict = Verdict.CRASH if fresh is None else Verdict(idea.status or Verdict.DISCARD)
        return Judgement(verdict, "confirmation run: it judges the claim, not the search", judged=False)
    if is_pruned(end):  # before the smoke rule: it was ended because it was judged
        return Judgement(Verdict.DISCARD, end.reason, failure=PRUNED)
    if foreign := _foreign(spec, state):
        return Judgement(Verdict.DISCARD, f"not judged: {foreign}", judged=False)
    counted = value if _counts(spec, end) else None
    if idle and counted is not None and not idea.hypothesis.is_baseline:
        return Judgement(Verdict.DISCARD, f"{NO_SIGNAL}: {idle}; it judges nothing", judged=False)
    smoke = "smoke" in spec.claims or (steps is not None and steps < state.spec.min_steps)
    copied = "" if counted is None or smoke else _copied(spec, counted, series, state, idea)
    values = past_values(idea) if copied else [*past_values(idea), counted]
    decision = decision_of(state, idea, values, simpler="simpler" in spec.claims, smoke=smoke, copied=bool(copied))
    copy = "a copy of its first run, as it fixes a seed itself; counted as one: " if copied else ""
    reason, flag = f"{copy}{decision.reason}", f"{COPY}it fixes a seed itself: {copied}" if copied else ""
    owed = decision.retest and decision.status is not Verdict.KEEP  # a kept one is only measured better
    if stopped:
        return replace(stopped, noise=decision.noise, judged=decision.judged, pending=owed)
    flag = "; ".join(filter(None, (flag, _flat(series, state, idea))))
    return Judgement(decision.status, reason, decision.noise, decision.judged, owed, flag)


def _stopped(spec: RunSpec, end: ExitRecord, state: CampaignState) -> Judgement | None:
    """The verdict on a run that somebody stopped, or that ended with its campaign; None for any other."""
    if end.ending is Ending.MAX_TIME and spec.timed_by == DEADLINE:
        return Judgement(Verdict.DISCARD, "stopped: the campaign's deadline had come", failure=CAMPAIGN_STOPPED)
    if end.ending is not Ending.STOPPED:
        return None
    with_campaign = CAMPAIGN_STOPPED if state.stop_mode == "stop" else ""
    return Judgement(Verdict.DISCARD, f"stopped: {end.reason}", failure=with_campaign)


def _copied(
    spec: RunSpec, value: float, series: Sequence[tuple[int, float]], state: CampaignState, idea: Idea
) -> str:
    """What shows that a first re-test repeats the first run, as a clause; "" if it does not, or if it is not certain.

    Curves are read only if the two values are closer than those of different seeds usually are.
    """
    seed = next((run.seed for run in idea.runs if run.run == spec.run), None)
    sd = noise_without(state, idea).sd
    if spec.why != "retest" or seed is None or state.seed_check is None or len(idea.values) != 1 or sd is None:
        return ""
    if abs(value - idea.values[0]) > sd / NEARLY:
        return ""
    from autoresearch.lab.campaigns.seed_curves import copy_of_first

    return copy_of_first(state, idea, SeededRun(seed, tuple(series)))


def _flat(series: Sequence[tuple[int, float]], state: CampaignState, idea: Idea) -> str:
    """The flag of an edited idea whose objective is the same at every step, while the baseline's is not; else ""."""
    if not (state.spec.self_reported and idea.edited) or len(series) < FLAT_FROM or len({v for _, v in series}) > 1:
        return ""
    from autoresearch.lab.campaigns.seed_curves import baseline_is_flat

    return "" if baseline_is_flat(state) else f"{FLAT}its objective is {series[0][1]:.4g} at all {len(series)} steps"


def _foreign(spec: RunSpec, state: CampaignState) -> str:
    """Why the value of this run must not be compared with the campaign's; "" if it may."""
    if spec.objective is None:
        return ""
    ours = Measured(spec.trainer, spec.objective.metric)
    judged = (row for idea in state.ideas for row in idea.judged if row.run_id != spec.run)
    theirs = {Measured.of(row) for row in judged if row.metric_value is not None}
    return next((why for other in sorted(theirs, key=str) if other.metric and (why := why_not(ours, other))), "")


def _fell_back(end: ExitRecord, state: CampaignState) -> bool:
    """Whether a run used no GPU though a run of the baseline is known to have used one."""
    if not end.idle_gpus or state.baseline is None:
        return False
    ends = (exit_record.read(RunDir(Path(row.run_dir))) for row in state.baseline.rows if row.run_dir)
    return any(other is not None and other.gpu_used for other in ends)


def is_pruned(end: ExitRecord) -> bool:
    """Whether a campaign ended the run because of its curve: the Runner keeps the cause of the stop request."""
    return end.ending is Ending.STOPPED and end.cause == PRUNED


def _counts(spec: RunSpec, end: ExitRecord) -> bool:
    """Whether the metric counts after this ending: a campaign's --timeout is a failure, exp_max_time is not."""
    if end.ending is Ending.MAX_TIME:
        return spec.timed_by not in ("timeout", DEADLINE)
    return lone_verdict(end.ending, measured=True) is Verdict.KEEP
