"""Pruner: stops runs early whose validation curve has fallen behind.

The rule itself is a pure function (`core.statistics.pruning`). This module reads the curves as the trainer writes
them, and sends stop requests. A pruned run gets a row with status `discard` and reason `pruned: ...`, and its idea
counts as attempted. Only the first run of an idea can be pruned: the baseline, re-tests and confirmations are
measurements and need complete runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.controller.actions import ControllerAction
from autoresearch.core.controller.confirmation_rounds import check_seeds, judge_round, measured_rows, round_rows
from autoresearch.core.run.ending import WITHOUT_VALUE, Ending
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.pruning import PRUNED, Curve, MedianRule, Stop
from autoresearch.core.statistics.seeding import SeededRun
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report.curves_and_diffs import measured_again
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.context import stop_run
from autoresearch.lab.results.measure import RunFiles
from autoresearch.records import events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

# Judges seeds and rounds with the curves of runs, read again from what the runs left.


def check_baseline_seeds(state: CampaignState) -> tuple[ControllerAction, ...]:
    """Make the seed check with the curves of the baseline's measured runs."""
    baseline = state.baseline
    return check_seeds(state, _curves(baseline, measured_rows(baseline))) if baseline else ()


def judge_open_round(state: CampaignState) -> tuple[ControllerAction, ...]:
    """Judge the open round with the curves of the baseline, and of the fresh runs of both sides."""
    ongoing, baseline = state.open_round, state.baseline
    assert ongoing is not None and baseline is not None
    curves = _curves(baseline, [*measured_rows(baseline), *round_rows(baseline, ongoing.number)])
    for idea in state.ideas:
        if idea.index in ongoing.candidates:
            curves |= _curves(idea, round_rows(idea, ongoing.number))
    return judge_round(state, curves)


def baseline_is_flat(state: CampaignState) -> bool:
    """Whether the baseline's objective is the same at every step, as far as its first measured run shows."""
    rows = measured_rows(state.baseline)[:1] if state.baseline else []
    return all(len({value for _, value in measured_again(row).series}) < 2 for row in rows)


def _curves(idea: Idea, rows: Iterable[LedgerRow]) -> dict[str, SeededRun]:
    """By run ID; a run whose seed is not known is left out."""
    seeds = {run.run: run.seed for run in idea.runs}
    known = [(row, seeds.get(row.run_id)) for row in rows]
    return {row.run_id: _curve(row, seed) for row, seed in known if seed is not None}


def _curve(row: LedgerRow, seed: int) -> SeededRun:
    measurement, others = measured_again(row), dict[str, list[tuple[int, float]]]()
    for reading in measurement.readings:
        for key, value in reading.metrics.items():
            others.setdefault(key, []).append((reading.step, value))
    return SeededRun(seed, tuple(measurement.series) or _last(row), others)


def _last(row: LedgerRow) -> tuple[tuple[int, float], ...]:
    """The last value that the ledger has, as a series of one point; () if there is none."""
    return () if row.metric_value is None else ((row.metric_step or 0, row.metric_value),)


def _may_end(idea: Idea, idea_run: IdeaRun) -> bool:
    """Whether this run can be pruned: only the first run of an idea that is judged by a complete run."""
    first = idea_run.why in ("first", "retry", "fix") and idea_run.replicate == 1
    return first and not idea.hypothesis.is_baseline and not idea.hypothesis.smoke


def _read_curve(rundir: RunDir) -> Curve:
    """The validations of a run so far; () if they cannot be read."""
    try:
        return RunFiles.of(RecordedRun.read(rundir)).validations()
    except (OSError, ValueError, AutoresearchError):
        return ()


@dataclass(slots=True)
class _CurveState:
    """What has been read of a live run so far."""

    events: int = 0  # number of the last event read
    due: bool = False  # a validation was reported that is not in the curve yet
    judged: int = 0  # number of points already judged
    curve: Curve = ()


class Pruner:
    """Watches the live runs of one campaign; does nothing unless pruning is enabled."""

    def __init__(self, campaign_spec: CampaignSpec, say: Callable[[str], None]) -> None:
        self.spec, self.say = campaign_spec, say
        self.rule = MedianRule(campaign_spec.warmup) if campaign_spec.prune else None
        self._seen: dict[str, _CurveState] = {}
        self._ended: dict[str, Curve] = {}  # curve of each finished run, by run id; read once

    def look(self, history: CampaignHistory, live: Mapping[str, RunDir]) -> None:
        """Judge every live run that has new validations since the last call."""
        if self.rule is None:
            return
        for gone in self._seen.keys() - live.keys():
            del self._seen[gone]
        for run in [run for run, rundir in live.items() if self._validated(run, rundir)]:
            state = history.state()
            idea, one = next((idea, one) for idea in state.ideas for one in idea.runs if one.run == run)
            if _may_end(idea, one) and not live[run].stop.exists() and (stop := self._judge(state, run)):
                self.say(f"{run}: {PRUNED}: {stop}")
                stop_run(live[run], f"{PRUNED}: {stop}", cause=PRUNED)

    def _validated(self, run: str, rundir: RunDir) -> bool:
        """Whether the curve of a live run has grown; the curve is read only after a validation event."""
        seen = self._seen.setdefault(run, _CurveState())
        found, seen.events = events.read(rundir.events, seen.events)
        seen.due = seen.due or any(event.event == "validation" for event in found)
        if not seen.due:
            return False
        seen.curve = _read_curve(rundir)
        seen.due = len(seen.curve) <= seen.judged  # the trainer prints a validation before it writes the file
        return not seen.due

    def _judge(self, state: CampaignState, run: str) -> Stop | None:
        """Why a run is to be stopped at one of its new points, compared with all other runs: over, or so far."""
        assert self.rule is not None
        past = _compared(state)
        for other, run_dir in past.items():
            if other not in self._ended:
                self._ended[other] = _read_curve(RunDir(Path(run_dir)))
        known = {one.run for idea in state.ideas for one in idea.runs if _compares(idea, one)} - {run}
        curves = self._ended | {other: seen.curve for other, seen in self._seen.items()}
        others = [curve for other, curve in curves.items() if curve and other in known]
        finished = {row.run_id for row in state.rows if row.ending == Ending.FINISHED}
        ends = [curve[-1][0] for other, curve in self._ended.items() if curve and other in finished]
        usual_end = median(ends) if ends else float("inf")
        seen, stop = self._seen[run], None
        while seen.judged < len(seen.curve) and stop is None:
            seen.judged += 1
            shown = seen.curve[: seen.judged]
            if shown[-1][0] < usual_end:  # otherwise stopping would save nothing
                stop = self.rule.judge(shown, others, self.spec.objective)
        return stop


def _compares(idea: Idea, idea_run: IdeaRun) -> bool:
    """Whether other runs are compared with this one: one run per idea, so that re-tests do not count an idea twice.

    All replicates of the baseline count: without them the first ideas would have nothing to be compared with.
    """
    return _may_end(idea, idea_run) or idea_run.why == "baseline"


def _compared(state: CampaignState) -> dict[str, str]:
    """Run id -> run directory of the finished runs that are compared with, oldest first."""
    rows = {row.run_id: row for row in state.rows if row.status not in WITHOUT_VALUE}
    found = [
        (rows[run.run].started or 0.0, run)
        for idea in state.ideas
        for run in idea.runs
        if run.run in rows and _compares(idea, run) and run.run not in idea.smoke
    ]
    return {run.run: run.run_dir for _, run in sorted(found, key=lambda pair: pair[0])}
