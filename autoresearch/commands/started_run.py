"""What `run` shows of the run that it has started, or found living."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.commands import output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.run_view import follow, living_payload, outcome_result
from autoresearch.lab.launch.launch import Launched
from autoresearch.lab.parts import Parts
from autoresearch.records import order_file
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


def _already(launched: Launched) -> str:
    """That it lives, and where: another target may have been asked for. "" for a run that has just been started."""
    order = order_file.read(RunDir(Path(launched.spec.run_dir))) if launched.already else None
    return f"is already running at {order.place.name}" if order else "is already running" if launched.already else ""


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
        f"records: {output.near(spec.run_dir)}",
        f"attach: {launched.attach}",
        f"log: {output.near(payload['log_path'])}",
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
    return outcome_result(outcome, exit_code=outcome.exit_code, more=more, rings=True)
