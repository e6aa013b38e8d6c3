"""Follow a run until its records are written: live on a terminal, at the report cadence elsewhere."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autoresearch.commands import output
from autoresearch.commands.live_line import Part, live_line, progress_bar, sparkline
from autoresearch.core.run.limits import nap
from autoresearch.core.run.spec import RunState
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import adopt
from autoresearch.lab.runs.outcome import Outcome
from autoresearch.lab.runs.run_status import ReadBudget, RunStatus, RunWatch, tail
from autoresearch.lab.runs.settled import ATTEND_S, attend
from autoresearch.lab.runs.watch import WAKING, Watcher, wait_for_news
from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

REFRESH_S = 1.0
SHOWN = 100  # characters of the newest output


class LiveView:
    """What one terminal knows about one run: events read so far, reports given, the metric's history."""

    def __init__(self, recorded: RecordedRun, attend: Callable[[], None] = lambda: None) -> None:
        self.recorded, self.attend, self.watch = recorded, attend, RunWatch(recorded)
        self.seq = 0
        self.looks = 0
        self.history: list[tuple[int, float]] = []
        self.total: int | None = None  # steps, once its log has said so
        self._pace: tuple[int, float] | None = None  # the first step that was seen, and when

    def news(self) -> list[Event]:
        """Events since the last look that are worth a line."""
        self.attend()  # of a run elsewhere: whoever tells of it may have been killed
        fresh, self.seq = read_events(self.recorded.rundir.events, self.seq)
        return [e for e in fresh if e.event in WAKING or e.event in ("started", "prepared", "cleaned")]

    def stand(self) -> RunStatus:
        """Where the run is now; remembers the metric for the sparkline."""
        now = self.watch.status(ReadBudget())
        objective = self.recorded.spec.objective
        name = objective.metric if objective else ""
        for reading in (now.last_validation, now.last_step):
            if reading and name in reading.metrics:
                point = (reading.step, reading.metrics[name])
                if not self.history or self.history[-1] != point:
                    self.history.append(point)
        return now

    def line(self, now: RunStatus) -> list[Part]:
        """The live line: bar, step of total, metric and its sparkline, time left, or to the limit, what is awaited."""
        spec, step = self.recorded.spec, now.last_step
        parts: list[Part] = []
        left = f"limit in {output.duration(now.left_s)}"
        if step and step.step >= 0:
            total = self.total or total_of(self.recorded.rundir.log, step.step)
            self.total = total
            if total:
                parts.append((progress_bar(step.step / total), "green"))
                left = self._eta(step.step, total) or left
            parts.append((f"step {step.step}{f'/{total}' if total else ''}", "bold"))
        else:
            awaited = "a step or new output" if spec.limits.first_step_since_output else "first step"
            within = f", {awaited} within {output.duration(now.first_step_left_s)}" if now.first_step_left_s else ""
            parts.append((f"{now.state.value}{within}", "yellow" if within else "bold"))
        if spec.objective and self.history:
            parts.append((f"{spec.objective.metric} {output.number(self.history[-1][1])}", ""))
            parts.append((sparkline([v for _, v in self.history]), "cyan"))
        parts += [(left, ""), (f"{output.duration(now.elapsed_s)} so far", "dim")]
        return [*parts, (now.newest_output[:SHOWN], "dim")] if now.newest_output else parts

    def _eta(self, step: int, total: int) -> str:
        """The time left by the pace since the first look; "" before a second step was seen."""
        first, since = self._pace = self._pace or (step, time.monotonic())
        if step <= first:
            return ""
        return f"about {output.duration((total - step) * (time.monotonic() - since) / (step - first))} left"


def total_of(log: Path, step: int) -> int | None:
    """The number of steps in all, where the newest lines print it beside this step (`12/40`); None otherwise."""
    text = tail(log, 16_384).decode("utf-8", "replace")
    found = re.findall(rf"(?<![\d./])(?:{step}|{step + 1})/(\d+)(?![\d./])", text)
    total = int(found[-1]) if found else 0
    return total if total >= max(2, step) else None


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


@contextlib.contextmanager
def drawn(recorded: RecordedRun, *, as_json: bool) -> Iterator[Callable[[], None] | None]:
    """What draws the live line of a run; None where nobody looks."""
    if as_json or not output.at_terminal():
        yield None
        return
    view = LiveView(recorded)
    view.news()
    with live_line() as display:
        yield lambda: display.show(view.line(view.stand()))


def news_until(
    rundir: RunDir, parts: Parts, since: int, until: float, draw: Callable[[], None] | None
) -> tuple[list[Event], int]:
    """What happens until then; a run elsewhere is looked after meanwhile."""
    while True:
        attend(rundir, parts)
        left = max(0.0, until - time.monotonic())
        slice_s = min(left, ATTEND_S) if rundir.order.exists() else left
        if draw:
            draw()
            slice_s = min(slice_s, REFRESH_S)
        news, since = wait_for_news(rundir, since=since, seconds=slice_s)
        if news or slice_s == left or rundir.state() in (RunState.ENDED, RunState.DEAD):
            return news, since


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
    began = time.monotonic()
    with live_line() as display:
        while True:
            for event in follower.news():
                display.say(event_line(event))
            if over(follower.recorded.rundir):
                return
            display.show(follower.line(follower.stand()))
            watcher.wait(REFRESH_S if time.monotonic() - began < 600 else 5 * REFRESH_S)


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
        f"limit in {output.duration(now.left_s)}, next look in {output.duration(pause)}"
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
