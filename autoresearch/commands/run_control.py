"""`autoresearch stop|attach`: end a run or what is left of it, or look into its session."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.run_view import outcome_result
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.spec import RunState
from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.lab.runs import lookup, sessions
from autoresearch.records.rundir import STARTING_S

if TYPE_CHECKING:
    from autoresearch.lab.parts import Parts
    from autoresearch.records.recorded_run import Outcome


def stop(
    run: Annotated[str, Positional(metavar="RUN")] = "last",
    reason: Annotated[str, Option(help="Why; goes into the records. Needed without a terminal.")] = "",
    no_wait: Annotated[bool, Option("--no-wait", help="Do not wait for the end.")] = False,
) -> CommandResult:
    """End a run: its whole process tree, TERM, grace, KILL; then its records are written.

    Of a run that is over, what is left is closed: its tmux session, and the server of AgentJet's swarm mode.
    """
    from autoresearch.lab.runs import run_status
    from autoresearch.lab.runs.adopt import adopt, kept_fresh
    from autoresearch.lab.runs.run_status import Watcher

    parts = real_parts()
    recorded = lookup.recorded(run, parts, instead="campaign stop")
    rundir, spec = recorded.rundir, recorded.spec
    state, outcome = adopt(rundir, parts)
    if outcome is not None:
        return _closed(outcome, parts)
    if not reason and not sys.stdin.isatty():
        raise UsageError("stop without a terminal needs --reason", fix=f"autoresearch stop {run} --reason 'why'")
    sessions.ask_to_stop(rundir, reason or "asked for at the terminal")
    watcher, asked = Watcher([rundir]), time.monotonic()
    with kept_fresh(rundir, parts):
        while not no_wait and rundir.state() not in (RunState.ENDED, RunState.DEAD, RunState.UNREACHABLE):
            watcher.wait(1.0)
            if rundir.state() is RunState.STARTING and time.monotonic() - asked > STARTING_S:
                break  # its launch hangs: its Runner sees the request when that goes on
    state, outcome = adopt(rundir, parts)
    if outcome is not None:
        return outcome_result(outcome)
    more = [f"autoresearch wait {spec.run} --for 100s"]
    payload: dict[str, Any] = {"run": spec.run, "run_dir": str(rundir.path), "state": state.value, "next": more}
    name = f"{spec.run} in {rundir.path}"
    line = f"{name} is asked to stop"
    if state is RunState.UNREACHABLE:
        payload |= run_status.elsewhere(rundir)
        silent = payload.get("place") or str(rundir.order)
        line = f"{silent} does not answer; {name} is stopped as soon as it does"
    return CommandResult(payload, [line])


def _closed(outcome: Outcome, parts: Parts) -> CommandResult:
    """End what is left of a run that is over; exits 5 where the port of its server stays taken."""
    from autoresearch.lab.runs.processes import sweep
    from autoresearch.trainers import registry

    more: dict[str, Any] = {}
    if outcome.spec.swarm is not None:
        lines: list[str] = []
        server = registry.server(registry.by_name(outcome.spec.trainer))
        more["down"] = server.stop_server(
            str(outcome.rundir.path), sweep, lines.append if output.typed.as_json else output.say
        )
        more["said"] = lines
    more["closed"] = sessions.close_session(outcome.rundir, parts)
    session = outcome.spec.session
    result = outcome_result(outcome, more=more)
    closed = f"closed {session}" if more["closed"] else f"{session} was closed already"
    code = 0 if more.get("down", True) else ConflictError.exit_code
    return CommandResult(result.payload, [*result.lines, closed], exit_code=code)


def attach(
    run: Annotated[str, Positional(metavar="RUN")] = "last",
    server: Annotated[bool, Option("--server", help="The swarm server's session instead.")] = False,
) -> CommandResult | int:
    """Attach this terminal to the tmux session of a run; without a terminal, print the line to type."""
    from autoresearch.records import order_file

    parts = real_parts()
    recorded = lookup.recorded(run, parts)
    rundir, spec = recorded.rundir, recorded.spec
    info = sessions.server_session_info(rundir) if server else sessions.session_info(rundir)
    what, log = ("server's session", rundir.path / "server/run.log") if server else ("session", rundir.log)
    order = None if server else order_file.read(rundir)
    if order and rundir.state().lives and not (info and parts.launcher(info.socket).exists(info)):
        from autoresearch.lab.remote.order import show

        info = show(rundir, parts, order.socket)
    if info is None or not parts.launcher(info.socket).exists(info):
        raise NotFoundError(f"{spec.run} has no {what} any more", hint=f"its log is {log}")
    if output.typed.as_json or output.agent_or_pipe():
        payload = {"run": spec.run, "session": info.session, "attach": info.attach, "next": []}
        return CommandResult(payload, [info.attach])
    words = parts.launcher(info.socket).attach_argv(info, os.environ)
    sys.stdout.flush()
    return os.execvp(words[0], words)
