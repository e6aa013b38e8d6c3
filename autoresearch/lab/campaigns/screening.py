"""Ends the first run of an idea that is clearly behind the baseline after the time that `screen` says.

The rule itself is a pure function (`core.statistics.screening`). This module reads the curves as the trainer writes
them, and sends stop requests. Only the first run of an idea can be screened: the baseline, re-tests and confirmations
are measurements and need complete runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
from autoresearch.core.run.ending import WITHOUT_VALUE, Verdict
from autoresearch.core.statistics.screening import Curve, behind
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.context import stop_run
from autoresearch.lab.results.measure import RunFiles
from autoresearch.records import events
from autoresearch.records.files import write_json
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


class Screen:
    """Watches the live runs of one campaign; does nothing unless screening is enabled."""

    def __init__(self, campaign_spec: CampaignSpec, say: Callable[[str], None]) -> None:
        self.spec, self.say = campaign_spec, say
        self._events: dict[str, int] = {}  # number of the last event read, of each live run
        self._due: set[str] = set()  # those that reported a validation after the time
        self._began: dict[str, float] = {}  # when, of those that reported none
        self._baseline: dict[str, Curve] = {}  # curve of each finished run of the baseline, by run id; read once

    def look(self, history: CampaignHistory, live: Mapping[str, RunDir]) -> None:
        """Judge every live run whose first validation after the time has come, or whose time, where none ever came."""
        if not self.spec.screen_s:
            return
        self._events = {run: self._events.get(run, 0) for run in live}
        for run, rundir in live.items():
            found, self._events[run] = events.read(rundir.events, self._events[run])
            for one in found:
                if one.event == "started":
                    self._began[run] = one.t
                elif one.event == "validation":
                    self._began[run] = math.inf
                    self._due |= {run} if (one.s or 0.0) >= self.spec.screen_s else set()
            unseen = time.time() - self._began.get(run, math.inf) >= self.spec.screen_s
            if (unseen or run in self._due) and not rundir.screened.exists():
                self._judge(history.state(), run, rundir)

    def _judge(self, state: CampaignState, run: str, rundir: RunDir) -> None:
        idea, one = next((idea, one) for idea in state.ideas for one in idea.runs if one.run == run)
        curve = _read_curve(rundir) if _may_end(idea, one) and not rundir.stop.exists() else ()
        if not curve or not curve[-1][0]:  # before training, or printed and not written to its file yet
            return
        if why := behind(curve, self._of_baseline(state), self.spec.objective):
            self.say(f"{run}: {Verdict.SCREENED}: {why}")
            stop_run(rundir, f"{Verdict.SCREENED}: {why}", cause=Verdict.SCREENED)
        write_json(rundir.screened, {"why": why})  # a controller that is killed must not look a second time

    def _of_baseline(self, state: CampaignState) -> list[Curve]:
        """The curves of the baseline's measured runs."""
        rows, copies = (state.baseline.judged, state.baseline.copies) if state.baseline else ((), set[str]())
        for row in rows:
            if row.run_id not in self._baseline and row.status not in WITHOUT_VALUE and row.run_id not in copies:
                self._baseline[row.run_id] = _read_curve(RunDir(Path(row.run_dir)))
        return list(self._baseline.values())


def _may_end(idea: Idea, idea_run: IdeaRun) -> bool:
    """Whether this is the first run of an idea."""
    first = idea_run.why in ("first", "retry", "fix") and idea_run.replicate == 1
    return first and not idea.hypothesis.is_baseline


def _read_curve(rundir: RunDir) -> Curve:
    """The validations of a run so far; () if they cannot be read."""
    try:
        return RunFiles.of(RecordedRun.read(rundir)).validations()
    except (OSError, ValueError, AutoresearchError):
        return ()
