"""`autoresearch status|wait`: what is going on, from files alone, and a sleep that ends early."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.live_line import live_line
from autoresearch.commands.output import CommandResult
from autoresearch.commands.run_view import (
    REFRESH_S,
    LiveView,
    living_lines,
    living_payload,
    outcome_result,
    use_line,
)
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.lab.runs import lookup, sessions
from autoresearch.lab.runs.adopt import adopt, kept_fresh
from autoresearch.records.events import read as read_events
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.campaign_records import CampaignDir
    from autoresearch.records.events import Event

LINES = 5  # of the log
SETTLED_S = 2.0  # without a command in a session: it is over
RECORD_S = 0.05  # between two looks for the record of a run that has just ended
# Whoever waits for hours is told "nothing new" many times, and each of them stays in the context of an agent.
ON_A_TICK = frozenset(
    ("run", "state", "event", "step", "metric_name", "metric_value", "elapsed_s", "deadline_s", "first_step_left_s")
) | {"seq", "next", "place", "job", "reason", "unreachable_since"}
UNTIL_STEPS = ("tail", "newest_output")  # on a tick only where there is something in them


def status(
    run: Annotated[str, Positional(metavar="RUN", show_default=False)] = "",
    last: Annotated[int, Option(metavar="N", help="With so many of the last runs that ended.")] = 0,
    limit: Annotated[int, Option(metavar="N", help="Rows of the table; 0: all.")] = output.MAX_LINES,
) -> CommandResult:
    """What a run is doing, or a table of all at all targets; after a crash or a reboot, the dead are recorded first."""
    parts = real_parts()
    if run:
        return _one(run, parts)
    from autoresearch.commands.overview import overview_of

    if last < 0 or limit < 0:
        raise UsageError("--last and --limit are numbers of rows, from 0")
    return overview_of(parts, ended=last, limit=limit)


def _one(run: str, parts: Parts) -> CommandResult:
    from autoresearch.lab.runs.processes import use_of

    recorded = lookup.recorded(run, parts, instead="campaign status")
    rundir = recorded.rundir
    state, outcome = adopt(rundir, parts)
    if outcome is not None:
        return outcome_result(outcome)
    info, server = sessions.session_info(rundir), sessions.server_session_info(rundir)
    payload = living_payload(recorded, LINES) | {
        "attach": info.attach if info else None,
        **({"server_session": server.session, "server_attach": server.attach} if server else {}),
        **(use := use_of(recorded)),
        "next": [f"autoresearch wait {recorded.spec.run} --for 100s"],
    }
    more = [use_line(use)] if use else []
    more += [f"python: {recorded.spec.interpreter_words}", f"attach: {payload['attach']}"]
    more += [f"server: {server.attach}"] if server else []
    return CommandResult(payload, living_lines(payload, state, more=more))


# ------------------------------------------------------------------------------------------ wait


def wait(
    name: Annotated[
        str, Positional(metavar="RUN|CAMPAIGN|SESSION", show_default="a campaign that lives, else the last run")
    ] = "",
    at_most: Annotated[str, Positional(metavar="SECONDS", show_default=False)] = "",
    seconds: Annotated[
        str, Option("--for", metavar="DURATION", help="Return after so long at the latest.")
    ] = "100s",
    since: Annotated[int, Option(help="Return at once for events, rows or records after this number.")] = -1,
    tail: Annotated[
        int | None, Option(help="Lines of a run's log to add.", show_default="5, with --json none on a tick")
    ] = None,
    as_exit_code: Annotated[bool, Option("--exit-code", help="Exit 0: still running, 1: ended.")] = False,
) -> CommandResult:
    """Wait for a run, a campaign or any tmux session. Exits 0 whenever it could answer.

    `wait NAME SECONDS` exits with 0 if it is still there then, and with 1 if it ended or there is none.
    A run returns early on its end, first step, error or limit; a campaign on its next row, on a pause and at the end.
    """
    seconds, as_exit_code = at_most or seconds, as_exit_code or bool(at_most)
    try:
        limit = parse_duration(seconds)
    except ValueError as error:
        example = f"autoresearch wait {name} --for 100s".replace("  ", " ")
        raise UsageError(f"--for: {error}", hint="durations look like 3s, 20m or 1h30m", fix=example) from None
    parts, until = real_parts(), time.monotonic() + limit
    try:
        named = lookup.resolve(name or lookup.unnamed(parts), parts)
    except NotFoundError:
        if not at_most:
            raise
        return _wait_for_session(name, until, parts)
    if not isinstance(named, RunDir):
        return _wait_for_row(named, until, since, as_exit_code=as_exit_code)
    recorded = RecordedRun.read(named)
    start = read_events(named.events)[1] if since < 0 else since
    news, upto = _news_until(recorded, parts, start, until)
    state, outcome = adopt(named, parts)
    pause = RECORD_S / 16
    while outcome is None and any(each.event == "ended" for each in news) and time.monotonic() < until:
        time.sleep(pause)  # the record comes after the event
        pause = min(2 * pause, RECORD_S)
        state, outcome = adopt(named, parts)
    if outcome is not None:
        return outcome_result(outcome, exit_code=1 if as_exit_code else 0)
    brief = output.typed.as_json and not news
    event = news[-1].event if news else "tick"
    payload = living_payload(recorded, tail if tail is not None else 0 if brief else LINES) | {
        "state": state.value,
        "event": event,
        "seq": upto,
        "next": [f"autoresearch wait {recorded.spec.run} --for {seconds} --since {upto}"],
    }
    lines = living_lines(payload, state, event=f"{event.replace('_', ' ')}, ", more=[])
    if brief:
        payload = {key: value for key, value in payload.items() if key in ON_A_TICK or (key in UNTIL_STEPS and value)}
    return CommandResult(payload, lines)


def _wait_for_session(name: str, until: float, parts: Parts) -> CommandResult:
    """Wait until nothing runs in a tmux session; what is typed into a fresh one takes a moment to begin."""
    works, since, there = sessions.works(name, parts), time.monotonic(), False
    while works is not None and time.monotonic() < until:
        there, since = True, time.monotonic() if works else since
        if not works and time.monotonic() - since >= SETTLED_S:
            break
        time.sleep(min(REFRESH_S / 4, max(0.0, until - time.monotonic())))
        works = sessions.works(name, parts)
    state = "running" if works else "ended" if there or works is not None else "none"
    payload = {"session": name, "state": state, "next": [f"autoresearch wait {name} 30"] if works else []}
    return CommandResult(payload, [f"session {name}: {state}"], exit_code=int(not works))


def _news_until(recorded: RecordedRun, parts: Parts, since: int, until: float) -> tuple[list[Event], int]:
    """What happens until then; a run elsewhere is looked at meanwhile, and a person sees the live line."""
    from autoresearch.lab.runs.run_status import wait_for_news

    rundir, view = recorded.rundir, LiveView(recorded)
    if not rundir.state().lives:
        return [], since
    with live_line() as display, kept_fresh(rundir, parts):
        while True:
            slice_s = left = max(0.0, until - time.monotonic())
            if display.display:
                display.show(view.line())
                slice_s = min(slice_s, REFRESH_S)
            news, since = wait_for_news(rundir, since=since, seconds=slice_s)
            if news or slice_s == left or not rundir.state().lives:
                return news, since


def _wait_for_row(campaign_dir: CampaignDir, until: float, since: int, *, as_exit_code: bool) -> CommandResult:
    """Wait for the next row, a pause or the end of a campaign; `since` is a number of rows, -1 for as many as now."""
    from autoresearch.commands import campaign_view
    from autoresearch.commands.campaign_view import live_parts, mark_of, state_of
    from autoresearch.core.controller.sentences import row_line

    rows, phase = mark_of(campaign_dir)
    before = (rows if since < 0 else since, phase)
    with live_line() as display:
        while before == mark_of(campaign_dir) and campaign_dir.controlled and time.monotonic() < until:
            if display.display:
                display.show(live_parts(state_of(campaign_dir)))
            time.sleep(min(0.25, max(0.0, until - time.monotonic())))
    state = state_of(campaign_dir)
    more: dict[str, Any] = {"event": "tick" if before == mark_of(campaign_dir) else "news"}
    if campaign_dir.controlled:
        more["next"] = [f"autoresearch wait {state.spec.name} --for 100s --since {len(state.rows)}"]
    latest = max(state.rows, key=lambda row: row.ended or 0.0, default=None)
    ideas = [idea for idea in state.ideas if latest and idea.index == latest.index]
    last = [f"last: {row_line(state, idea, latest.run_id, alone=True)}" for idea in ideas if latest]
    result = campaign_view.stand_result(campaign_dir, state, more=more, last=last)
    ended = as_exit_code and result.payload["state"] == "ended"
    return CommandResult(result.payload, result.lines, exit_code=int(ended))
