"""Pruner: stops runs early whose validation curve has fallen behind.

The rules themselves are pure functions (`core.statistics.pruning`). This module reads the curves as the trainer writes
them, and sends stop requests. A pruned run gets a row with status `discard` and reason `pruned: ...`, and its idea
counts as attempted. Only the first run of an idea can be pruned: the baseline, re-tests and confirmations are
measurements and need complete runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.run.ending import Ending, Verdict
from autoresearch.core.statistics.pruning import PRUNED, Curve, HalvingRule, MedianRule, Stop
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.requests import stop_run
from autoresearch.lab.results.measure import RunFiles
from autoresearch.records import events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


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
        rule = MedianRule if campaign_spec.prune == "median" else HalvingRule
        self.rule = rule(campaign_spec.warmup) if campaign_spec.prune else None
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
    rows = {row.run_id: row for row in state.rows if row.status != Verdict.CRASH}
    found = [
        (rows[run.run].started or 0.0, run)
        for idea in state.ideas
        for run in idea.runs
        if run.run in rows and _compares(idea, run) and run.run not in idea.smoke
    ]
    return {run.run: run.run_dir for _, run in sorted(found, key=lambda pair: pair[0])}
