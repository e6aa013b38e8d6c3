"""`autoresearch wait NAME --for 100s`: a sleep that ends early."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.terminal_notice import ring
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.spec import RunState
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import UsageError
from autoresearch.lab.runs.settled import settled
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.campaign_records import CampaignDir

LINES = 5  # of the log
RECORD_S = 0.05  # between two looks for the record of a run that has just ended
# Whoever waits for hours is told "nothing new" many times, and each of them stays in the context of an agent.
ON_A_TICK = frozenset(
    ("run", "state", "event", "step", "metric_name", "metric_value", "elapsed_s", "deadline_s", "first_step_left_s")
) | {"seq", "next", "place", "job", "reason", "unreachable_since"}
STOOD_STILL = ("ended", "paused", "waiting", "dead")  # phases of a campaign in which a person is needed, or none
UNTIL_STEPS = ("tail", "newest_output")  # on a tick only where there is something in them


def wait(
    name: Annotated[
        str, typer.Argument(metavar="RUN|CAMPAIGN", show_default="a campaign that lives, else the last run")
    ] = "",
    seconds: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Return after so long at the latest.")
    ] = "100s",
    since: Annotated[int, typer.Option(help="Return at once for events, rows or records after this number.")] = -1,
    tail: Annotated[
        int | None, typer.Option(help="Lines of a run's log to add.", show_default="5, with --json none on a tick")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    as_exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 0: still running, 1: ended.")] = False,
) -> int:
    """Wait for a run or a campaign. Exits 0 whenever it could answer.

    A run returns early on its end, first step, error or limit; a campaign on its next row, on a pause and at the end.
    """
    from autoresearch.commands.name_lookup import resolve, unnamed

    try:
        limit = parse_duration(seconds)
    except ValueError as error:
        example = f"autoresearch wait {name} --for 100s".replace("  ", " ")
        raise UsageError(f"--for: {error}", hint="durations look like 3s, 20m or 1h30m", fix=example) from None
    parts = real_parts()
    named = resolve(name or unnamed(parts), parts)
    if isinstance(named, RunDir):
        return _wait_for_event(named, parts, seconds, since, tail, as_json=as_json, as_exit_code=as_exit_code)
    return _wait_for_row(named, limit, since, as_json=as_json, as_exit_code=as_exit_code)


def _wait_for_row(campaign_dir: CampaignDir, limit: float, since: int, *, as_json: bool, as_exit_code: bool) -> int:
    """Wait for the next row, a pause or the end of a campaign; `since` is a number of rows, -1 for as many as now."""
    from autoresearch.commands.campaign_status import (
        best_words,
        drawn,
        headlines,
        mark_of,
        payload_of,
        seed_lines,
        state_of,
    )

    rows, phase = mark_of(campaign_dir)
    before = (rows if since < 0 else since, phase)
    until = time.monotonic() + limit
    with drawn(as_json=as_json) as (_, show):
        while before == mark_of(campaign_dir) and campaign_dir.controlled and time.monotonic() < until:
            if show:
                show(state_of(campaign_dir))
            time.sleep(min(0.25, max(0.0, until - time.monotonic())))
    state = state_of(campaign_dir)
    payload = payload_of(campaign_dir, state)
    last = max(state.rows, key=lambda row: row.ended or 0.0, default=None)
    payload |= {"event": "tick" if before == mark_of(campaign_dir) else "news"}
    if campaign_dir.controlled:
        payload["next"] = [f"autoresearch wait {state.spec.name} --for 100s --since {len(state.rows)}"]
    lines = [*headlines(payload), f"best: {best_words(payload)}", *seed_lines(payload)]
    if last is not None:
        name = next((idea.name for idea in state.ideas if idea.index == last.index), f"#{last.index}")
        lines.insert(1, f"last: {name}: {last.shown_status}, {last.description}"[:300])
    output.emit("wait", payload, as_json=as_json, lines=lines)
    if payload["state"] in STOOD_STILL:
        ring(f"{payload['campaign']}: {payload['state']}")
    return 1 if as_exit_code and payload["state"] == "ended" else 0


def _wait_for_event(
    rundir: RunDir,
    parts: Parts,
    seconds: str,
    since: int,
    tail: int | None,
    *,
    as_json: bool,
    as_exit_code: bool,
) -> int:
    from autoresearch.commands.live import drawn, news_until
    from autoresearch.lab.runs import sessions
    from autoresearch.records.events import read as read_events

    recorded = RecordedRun(rundir, sessions.spec_of(rundir))
    spec = recorded.spec
    start = read_events(rundir.events)[1] if since < 0 else since
    until = time.monotonic() + parse_duration(seconds)
    if rundir.state() not in (RunState.ENDED, RunState.DEAD):
        with drawn(recorded, as_json=as_json) as draw:
            news, upto = news_until(rundir, parts, start, until, draw)
    else:
        news, upto = [], start
    state, outcome = settled(rundir, parts)
    while outcome is None and any(each.event == "ended" for each in news) and time.monotonic() < until:
        time.sleep(RECORD_S)  # the record comes after the event
        state, outcome = settled(rundir, parts)
    if outcome is not None:
        from autoresearch.commands.outcome import show_outcome

        show_outcome("wait", outcome, as_json=as_json)
        ring(f"{spec.slug}: {outcome.exit.ending.wording}")
        return 1 if as_exit_code else 0
    event = news[-1].event if news else "tick"
    brief = as_json and not news
    payload = _living(recorded, tail if tail is not None else 0 if brief else LINES)
    payload |= {
        "state": state.value,
        "event": event,
        "seq": upto,
        "next": [f"autoresearch wait {spec.run} --for {seconds} --since {upto}"],
    }
    where = elsewhere(payload, state)
    if brief:
        payload = {key: value for key, value in payload.items() if key in ON_A_TICK or (key in UNTIL_STEPS and value)}
    lines = [
        f"{spec.run}: {state.value}, {event.replace('_', ' ')}, step {payload['step']}, "
        f"elapsed {output.duration(payload['elapsed_s'])}, limit in {output.duration(payload['deadline_s'])}",
        *where,
        *(f"  | {line}" for line in payload.get("tail", ())),
    ]
    output.emit("wait", payload, as_json=as_json, lines=lines)
    return 0


def elsewhere(payload: dict[str, Any], run_state: RunState) -> list[str]:
    """A line about where a run is that is not here."""
    if not payload.get("place"):
        return []
    from autoresearch.lab.remote.remote_status import clause

    return [f"at {clause(payload, run_state)}"]


def _living(recorded: RecordedRun, tail: int) -> dict[str, Any]:
    from autoresearch.lab.runs.run_status import ReadBudget, RunWatch, as_payload, tail_lines

    return {
        **as_payload(recorded, RunWatch(recorded).status(ReadBudget(once=True))),
        "tail": tail_lines(recorded.rundir.log, max(0, min(tail, 20))),
    }
