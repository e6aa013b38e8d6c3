"""What commands show of a run: while it lives, live on a terminal; and when it is over."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.commands import REPAIRED, output
from autoresearch.commands.live_line import Part, live_line, new_lines, progress_bar, sparkline
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.core.run.limits import nap
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.text.numbers import span
from autoresearch.errors import AutoresearchError
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.events import Event
from autoresearch.records.events import read as read_events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.log_follower import LogFollower

if TYPE_CHECKING:
    from autoresearch.lab.launch.launch import Launched
    from autoresearch.lab.parts import Parts
    from autoresearch.lab.runs.run_status import RunStatus
    from autoresearch.records.recorded_run import Outcome

REFRESH_S = 1.0
SHOWN = 100  # characters of the newest output


# ------------------------------------------------------------------------------------------ while it lives


def living_payload(recorded: RecordedRun, tail: int | None = None) -> dict[str, Any]:
    """The flat object about a run that is not over, with so many lines of its log; without, its log is not read."""
    from autoresearch.lab.runs import run_status

    payload = run_status.as_payload(run_status.RunWatch(recorded), log=tail is not None)
    lines = run_status.tail_lines(recorded.rundir.log, max(0, min(tail or 0, 20)))
    return payload if tail is None else payload | {"tail": lines}


def living_lines(payload: Mapping[str, Any], run_state: RunState, *, event: str = "", more: list[str]) -> list[str]:
    """The same for people: where it stands, and the end of its log."""
    spans = [span(payload[key]) for key in ("elapsed_s", "deadline_s")]
    return [
        f"{payload['run']}: {run_state.value}, {event}step {payload['step']}, elapsed {spans[0]}, limit in {spans[1]}",
        *elsewhere_line(payload, run_state),
        *more,
        *(f"  | {line}" for line in payload.get("tail", ())),
    ]


def use_line(use: Mapping[str, Any]) -> str:
    """What a run uses of this machine (`lab.runs.processes.use_of`)."""
    from autoresearch.lab.disk.usage import gb

    words = [f"CPU {use['cpu_percent']:.0f} % of a core", f"memory {gb(use['memory_bytes'])}"]
    for gpu in use["gpu_use"]:
        load, used = gpu["load_percent"], gpu["used_mib"]
        known = [f"{load} %"] * (load is not None) + [gb(used << 20)] * (used is not None)
        words.append(f"GPU {gpu['index']} {', '.join(known) or 'unknown'}")
    return f"uses: {'; '.join(words)}"


def elsewhere_line(payload: Mapping[str, Any], run_state: RunState) -> list[str]:
    """A line about where a run is that is not here."""
    if not payload.get("place"):
        return []
    from autoresearch.lab.remote.reconcile import clause

    return [f"at {clause(dict(payload), run_state)}"]


class LiveView:
    """What one terminal knows about one run: events read so far, reports given, the metric's history."""

    def __init__(self, recorded: RecordedRun) -> None:
        from autoresearch.lab.runs.run_status import RunWatch

        self.recorded, self.watch = recorded, RunWatch(recorded)
        self.seq = 0
        self.looks = 0
        self.history: list[tuple[int, float]] = []
        self.total: int | None = None  # steps, once its log has said so
        self._pace: tuple[int, float] | None = None  # the first step that was seen, and when

    def news(self) -> list[Event]:
        """Events since the last look that are worth a line."""
        from autoresearch.lab.runs.run_status import WAKING

        fresh, self.seq = read_events(self.recorded.rundir.events, self.seq)
        return [e for e in fresh if e.event in WAKING or e.event in ("started", "prepared", "cleaned")]

    def stand(self) -> RunStatus:
        """Where the run is now; remembers the metric for the sparkline."""
        now = self.watch.status()
        objective = self.recorded.spec.objective
        name = objective.metric if objective else ""
        for reading in (now.last_validation, now.last_step):
            if reading and name in reading.metrics:
                point = (reading.step, reading.metrics[name])
                if not self.history or self.history[-1] != point:
                    self.history.append(point)
        return now

    def line(self) -> list[Part]:
        """The live line: bar, step of total, metric and its sparkline, time left, or to the limit, what is awaited."""
        from autoresearch.lab.runs.run_status import total_of

        now, spec = self.stand(), self.recorded.spec
        parts: list[Part] = []
        left = f"limit in {span(now.left_s)}"
        if now.step is not None:
            total = self.total = self.total or total_of(self.recorded.rundir.log, now.step)
            if total:
                parts.append((progress_bar(now.step / total), "green"))
                left = self._eta(now.step, total) or left
            parts.append((f"step {now.step}{f'/{total}' if total else ''}", "bold"))
        else:
            awaited = "a step or new output" if spec.limits.first_step_since_output else "first step"
            within = f", {awaited} within {span(now.first_step_left_s)}" if now.first_step_left_s else ""
            parts.append((f"{now.state.value}{within}", "yellow" if within else "bold"))
        if spec.objective and self.history:
            parts.append((f"{spec.objective.metric} {output.number(self.history[-1][1])}", ""))
            parts.append((sparkline([v for _, v in self.history]), "cyan"))
        parts += [(left, ""), (f"{span(now.elapsed_s)} so far", "dim")]
        return [*parts, (now.newest_output[:SHOWN], "dim")] if now.newest_output else parts

    def _eta(self, step: int, total: int) -> str:
        """The time left by the pace since the first look; "" before a second step was seen."""
        first, since = self._pace = self._pace or (step, time.monotonic())
        if step <= first:
            return ""
        return f"about {span((total - step) * (time.monotonic() - since) / (step - first))} left"

    def report(self) -> tuple[str, float]:
        """One line for logs and agents, and the seconds until the next."""
        now, spec = self.stand(), self.recorded.spec
        self.looks += 1
        pause = nap(self.looks, until_limit_s=now.nearest_limit_s + 1.0)
        step = "no step number yet" if now.step is None else f"step {now.step}"
        if now.newest_output:
            step = f"no step known yet, newest output `{now.newest_output[:SHOWN]}`"
        if spec.objective and self.history:
            step += f", {spec.objective.metric} {output.number(self.history[-1][1])}"
        line = (
            f"[{span(now.elapsed_s)}] {spec.run}: {now.state.value}, {step}, "
            f"limit in {span(now.left_s)}, next look in {span(pause)}"
        )
        return line, pause


def follow(recorded: RecordedRun, parts: Parts) -> Outcome:
    """Watch until the run is over and collected, live or with a report now and then. Ctrl-C leaves the run alone."""
    from autoresearch.lab.runs.adopt import adopt, kept_fresh
    from autoresearch.lab.runs.run_status import Watcher

    rundir, view = recorded.rundir, LiveView(recorded)
    began = time.monotonic()
    report_at = began + nap(0)
    watcher = Watcher([rundir])
    with live_line() as display, kept_fresh(rundir, parts):
        while True:
            for event in view.news():
                display.say(event_line(event))
            if not rundir.state().lives:
                break
            if display.display:
                display.show(view.line())
                watcher.wait(REFRESH_S if time.monotonic() - began < 600 else 5 * REFRESH_S)
                continue
            if time.monotonic() >= report_at:
                line, pause = view.report()
                report_at = time.monotonic() + pause
                display.say(line)
            watcher.wait(max(0.05, report_at - time.monotonic()))
    state, outcome = adopt(rundir, parts)
    assert outcome is not None, state
    return outcome


def grown(recorded: RecordedRun, parts: Parts, *, offset: int) -> Iterator[str]:
    """What comes until the run is over, in whole lines, which alone can be looked through for secrets; live.

    offset: of the first, in bytes.
    """
    from autoresearch.lab.runs.adopt import kept_fresh

    rundir, view = recorded.rundir, LiveView(recorded)
    grows = LogFollower(str(rundir.log), offset)
    with live_line(beside=sys.stdout.isatty()) as display, kept_fresh(rundir, parts):
        while True:
            ended = not rundir.state().lives
            yield from new_lines(grows)
            if ended:
                if rest := grows.partial():
                    yield rest.decode("utf-8", "replace")
                return
            if display.display:
                display.show(view.line())
            time.sleep(0.2)


def event_line(event: Event) -> str:
    """An event as one line."""
    text = event.get("text")
    fields = ", ".join(
        f"{k} {output.number(v) if isinstance(v, float) else v}" for k, v in event.fields.items() if v not in (None, "")
    )
    stamp = "" if event.s is None else f"[{span(event.s)}] "
    words = text or f"{event.event.replace('_', ' ')}{': ' + fields if fields else ''}"
    return f"{stamp}{words}"[:300]


# ------------------------------------------------------------------------------------------ just started


def _already(launched: Launched) -> str:
    """That it lives, and where: another target may have been asked for. "" for a run that has just been started."""
    from autoresearch.lab.runs.run_status import elsewhere

    if not launched.already:
        return ""
    place = elsewhere(RunDir(Path(launched.spec.run_dir))).get("place")
    return f"is already running at {place}" if place else "is already running"


def living_result(launched: Launched, more: Mapping[str, Any]) -> CommandResult:
    """That it lives, and where everything of it is."""
    spec = launched.spec
    payload = living_payload(RecordedRun(RunDir(Path(spec.run_dir)), spec)) | {
        "already_running": launched.already,
        "attach": launched.attach,
        "next": [f"autoresearch wait {spec.run} --for 100s", f"autoresearch status {spec.run}"],
        **more,
    }
    lines = [
        f"{spec.run} {_already(launched) or 'runs'} in {spec.session}",
        f"records: {spec.run_dir}",
        f"attach: {launched.attach}",
        f"log: {payload['log_path']}",
    ]
    return CommandResult(payload, lines)


def follow_to_end(launched: Launched, parts: Parts, *, more: Mapping[str, Any]) -> CommandResult:
    """Watch a run until it is recorded; what came of it, with `more` keys. It exits as the run ended."""
    recorded = RecordedRun(RunDir(Path(launched.spec.run_dir)), launched.spec)
    output.remark(f"{launched.spec.run} {_already(launched) or 'started'}; {launched.attach}")
    try:
        outcome = follow(recorded, parts)
    except KeyboardInterrupt:
        message = f"the run goes on without this terminal: autoresearch wait {launched.spec.run}"
        raise KeyboardInterrupt(message) from None
    return outcome_result(outcome, exit_code=outcome.exit_code, more=more)


# ------------------------------------------------------------------------------------------ when it is over


def outcome_result(
    outcome: Outcome, *, exit_code: int = 0, more: Mapping[str, Any] | None = None
) -> CommandResult:
    """What happened and where the records are, with `more` keys."""
    payload = outcome.payload() | {"exit_code": outcome.exit_code, "next": _next(outcome)}
    rows = [TableRows(_outcome_rows(outcome))]
    return CommandResult(payload | dict(more or {}), rows, exit_code=exit_code)


def _outcome_rows(outcome: Outcome) -> list[list[str]]:
    spec, end, rundir, row = outcome.spec, outcome.exit, outcome.rundir, outcome.row
    code = "unknown" if end.returncode is None else end.returncode
    never = "" if outcome.steps_read else "never"  # a Runner that was killed left no time of it
    first = never if end.first_step_s is None else f"after {span(end.first_step_s)}"
    metric = "" if row.failure else row.reason
    if row.metric_name:
        better = row.best_value is not None and row.best_value != row.metric_value
        best = f" (best {output.number(row.best_value)})" if better else ""
        value = output.number(row.metric_value) if outcome.measured else "could not be read"
        metric = f"{row.metric_name} = {value}{best}"
    failure = f"{row.failure}: {outcome.failure_line or end.reason}"[:800] if row.failure else ""
    log = outcome.where_now(Path(spec.result_dir) / "experiment_log.md")
    rows = [
        ["run", f"{spec.run} in {rundir.path}"],
        ["ended", f"{end.ending.wording}, return code {code}, after {span(end.duration_s)}"],
        ["verdict", row.shown_status],
        ["first step", first],
        ["metric", metric],
        ["steps", outcome.steps_read],
        ["failure", failure],
        ["branch", f"{spec.branch} at {spec.commit[:12]}" if spec.commit else f"none: {spec.no_snapshot}".rstrip(": ")],
        ["results", str(outcome.results)],
        ["records", str(log)],
        ["log", str(rundir.log)],
        ["ledger", spec.ledger],
        *(["tracker", url] for url in outcome.run_urls),
        *(["warning", text] for text in outcome.warnings[:3] if not spec.no_snapshot or text != spec.unkept),
    ]
    return [row for row in rows if row[1]]


def repair_line(spec: RunSpec) -> str:
    """What is typed to run it once more when its trouble is repaired: where it was, or by its campaign."""
    campaign_dir = CampaignDir(Path(spec.run_dir).parent)
    if campaign_dir.spec.is_file():
        return _repair_in_campaign(campaign_dir, spec)
    target = spec.launcher.replace("/", ":")
    where = "" if target in ("", "tmux") else f" --launcher {shlex.quote(target)}"
    return f"autoresearch run {shlex.quote(spec.blueprint)}{where} --fix-of {spec.run} --note {shlex.quote(REPAIRED)}"


def _repair_in_campaign(campaign_dir: CampaignDir, spec: RunSpec) -> str:
    """Its worktree is another idea's by now: the campaign makes the repair a commit on the idea's branch."""
    from autoresearch.commands.campaign_view import state_of
    from autoresearch.core.campaign.spec import CampaignPhase

    status = f"autoresearch campaign status {campaign_dir.path.name} --full"
    try:
        state = state_of(campaign_dir)
    except AutoresearchError:
        return status
    idea = next((one for one in state.ideas if one.index == spec.index), None)
    if idea is None or idea.hypothesis.is_baseline:
        return status
    if state.phase is CampaignPhase.ENDED:
        return f"autoresearch campaign set {state.spec.name} count={state.attempted + 1}"
    return f"autoresearch campaign fix {idea.slug} --set KEY=VALUE --campaign {state.spec.name}"


def _next(outcome: Outcome) -> list[str]:
    run = outcome.spec.run
    log = f"autoresearch logs {run} --tail 40"
    if outcome.row.status == "unmeasured":
        return [f"autoresearch metrics {run}", log, f"autoresearch blueprint check {outcome.spec.blueprint}"]
    if outcome.row.status == "crash":
        return [f"autoresearch explain {run}", log, repair_line(outcome.spec)]
    return [f"autoresearch ledger show {run}", f"autoresearch metrics {run}"]
