"""Follow a run until its records are written: live on a terminal, at the report cadence elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.commands import output
from autoresearch.commands.wait import ATTEND_S
from autoresearch.core.run.report_cadence import nap
from autoresearch.core.run.spec import RunState
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import adopt
from autoresearch.lab.runs.outcome import Outcome
from autoresearch.lab.runs.run_status import RunStatus, standing
from autoresearch.lab.runs.settled import attend
from autoresearch.lab.runs.watch import WAKING, Watcher
from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS = "▁▂▃▄▅▆▇█"
REFRESH_S = 1.0
SHOWN = 100  # characters of the newest output


class LiveView:
    """What one terminal knows about one run: events read so far, reports given, the metric's history."""

    def __init__(self, recorded: RecordedRun, attend: Callable[[], None] = lambda: None) -> None:
        self.recorded, self.attend = recorded, attend
        self.seq = 0
        self.looks = 0
        self.first_step_seen = False
        self.history: list[tuple[int, float]] = []

    def news(self) -> list[Event]:
        """Events since the last look that are worth a line."""
        self.attend()  # of a run elsewhere: whoever tells of it may have been killed
        fresh, self.seq = read_events(self.recorded.rundir.events, self.seq)
        self.first_step_seen = self.first_step_seen or any(e.event == "first_step" for e in fresh)
        return [e for e in fresh if e.event in WAKING or e.event in ("started", "prepared", "cleaned")]

    def stand(self) -> RunStatus:
        """Where the run is now; remembers the metric for the sparkline."""
        now = standing(self.recorded, first_step_seen=self.first_step_seen)
        objective = self.recorded.spec.objective
        name = objective.metric if objective else ""
        for reading in (now.last_validation, now.last_step):
            if reading and name in reading.metrics:
                point = (reading.step, reading.metrics[name])
                if not self.history or self.history[-1] != point:
                    self.history.append(point)
        return now


def follow(recorded: RecordedRun, parts: Parts, *, live: bool) -> Outcome:
    """Watch until the run is over and collected. Ctrl-C leaves the run alone."""
    rundir = recorded.rundir
    follower = LiveView(recorded, lambda: attend(rundir, parts))
    with Watcher([rundir]) as watcher:
        if live:
            _live(follower, watcher)
        else:
            _plain(follower, watcher)
    state, outcome = adopt(rundir, parts)
    assert outcome is not None, state
    return outcome


def over(rundir: RunDir) -> bool:
    """Whether there is nothing left to watch."""
    return rundir.state() in (RunState.ENDED, RunState.DEAD)


def _plain(follower: LiveView, watcher: Watcher) -> None:
    next_report = time.monotonic() + nap(0)
    while True:
        for event in follower.news():
            output.remark(event_line(event))
        if over(follower.recorded.rundir):
            return
        if time.monotonic() >= next_report:
            now = follower.stand()
            follower.looks += 1
            pause = nap(follower.looks, until_limit_s=now.nearest_limit_s + 1.0)
            next_report = time.monotonic() + pause
            output.remark(report_line(follower, now, pause))
        watcher.wait(min(max(0.05, next_report - time.monotonic()), ATTEND_S))


def _live(follower: LiveView, watcher: Watcher) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    began = time.monotonic()
    with Live(console=console, refresh_per_second=4, transient=True) as display:
        while True:
            for event in follower.news():
                console.print(event_line(event), highlight=False, markup=False)
            if over(follower.recorded.rundir):
                return
            now = follower.stand()
            pause = REFRESH_S if time.monotonic() - began < 600 else 5 * REFRESH_S
            display.update(panel(follower, now, pause))
            watcher.wait(pause)


def panel(follower: LiveView, now: RunStatus, pause: float) -> RenderableType:
    """The live picture: step, KL, metric with a sparkline, elapsed, time left, next look."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    spec = follower.recorded.spec
    grid.add_row("run", spec.run, now.state.value)
    step = now.last_step
    kl = next((v for k, v in step.metrics.items() if "kl_loss" in k or k == "kl"), None) if step else None
    grid.add_row("step", str(step.step) if step and step.step >= 0 else "none yet", f"KL {output.number(kl)}")
    if now.newest_output:
        grid.add_row("output", Text(now.newest_output[:SHOWN], overflow="ellipsis", no_wrap=True), "")
    if spec.objective:
        last = follower.history[-1][1] if follower.history else None
        grid.add_row(spec.objective.metric, output.number(last), sparkline([v for _, v in follower.history]))
    reward = step.metrics.get("critic/rewards/mean", step.metrics.get("reward")) if step else None
    if reward is not None:
        grid.add_row("reward", output.number(reward), "")
    awaited = "a step or new output" if spec.limits.first_step_since_output else "first step"
    first = "" if not now.first_step_left_s else f"{awaited} within {output.duration(now.first_step_left_s)}"
    grid.add_row("elapsed", output.duration(now.elapsed_s), f"{output.duration(now.left_s)} left  {first}")
    grid.add_row("next look", f"in {output.duration(pause)}", "")
    return grid


def sparkline(values: list[float], width: int = 32) -> str:
    """A line of bars, lowest to highest of what is shown; gaps where a value is not finite."""
    shown = values[-width:]
    finite = [v for v in shown if v == v and abs(v) != float("inf")]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(BARS[int((v - low) / span * (len(BARS) - 1))] if v in finite else " " for v in shown)


def report_line(follower: LiveView, now: RunStatus, pause: float) -> str:
    """One line for logs and agents."""
    step = f"step {now.last_step.step}" if now.last_step and now.last_step.step >= 0 else "no step number yet"
    if now.newest_output:
        step = f"no step known yet, newest output `{now.newest_output[:SHOWN]}`"
    metric = ""
    if follower.recorded.spec.objective and follower.history:
        metric = f", {follower.recorded.spec.objective.metric} {output.number(follower.history[-1][1])}"
    return (
        f"[{output.duration(now.elapsed_s)}] {follower.recorded.spec.run}: {now.state.value}, {step}{metric}, "
        f"{output.duration(now.left_s)} left, next look in {output.duration(pause)}"
    )


def event_line(event: Event) -> str:
    """An event as one line."""
    text = event.get("text")
    fields = ", ".join(
        f"{k} {output.number(v) if isinstance(v, float) else v}" for k, v in event.fields.items() if v not in (None, "")
    )
    stamp = "" if event.s is None else f"[{output.duration(event.s)}] "
    words = text or f"{event.event.replace('_', ' ')}{': ' + fields if fields else ''}"
    return f"{stamp}{words}"[:300]


def log_path(rundir: RunDir) -> Path:
    """Where the whole output is."""
    return rundir.log
