"""`autoresearch swarm up|serve|client|down RUN_DIR`: what the Runners of a swarm run start; `down` is safe to type."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import host_services
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.server import HasPrograms
from autoresearch.errors import ConflictError, NotFoundError, UsageError

if TYPE_CHECKING:
    from autoresearch.core.run.spec import RunSpec
    from autoresearch.core.run.trainer import Trainer
    from autoresearch.records.rundir import RunDir


RunArgument = Annotated[str, typer.Argument(metavar="RUN", show_default=False)]


def up(run: RunArgument) -> int:
    """Start the server, see the engine off and one episode work: a `prepare` step."""
    return _program("up", run)


def serve(run: RunArgument) -> int:
    """Be the server's session."""
    return _program("serve", run)


def client(run: RunArgument) -> int:
    """Be the client's session: the launch command, watched."""
    return _program("client", run)


def down(run: RunArgument, as_json: Annotated[bool, typer.Option("--json")] = False) -> int:
    """Stop the engine, end the server, see its port free: a `cleanup` step, harmless to repeat."""
    from autoresearch.core.run.spec import RunState
    from autoresearch.lab.runs.record_lost import end_processes
    from autoresearch.trainers import ask

    rundir, spec, trainer = _run(run)
    lines: list[str] = []
    inside = os.environ.get("AUTORESEARCH_RUN_ID") == spec.run  # we are a step of this very run
    if rundir.state() in (RunState.RUNNING, RunState.EVALUATING) and not inside:
        raise ConflictError(f"{spec.run} still runs", fix=f"autoresearch stop {spec.run}")
    if not as_json:
        output.prose(f"{spec.run} in {rundir.path}:")
    say = lines.append if as_json else output.say
    free = ask.server(trainer).stop_server(str(rundir.path), end_processes, say)
    if as_json:
        payload = {"run": spec.run, "run_dir": str(rundir.path), "down": free, "said": lines, "next": []}
        output.emit("swarm down", payload, as_json=True)
    return 0 if free else ConflictError.exit_code


def _program(name: str, run: str) -> int:
    rundir, _, trainer = _run(run)
    assert isinstance(trainer, HasPrograms)
    return trainer.run_program(name, str(rundir.path), host_services(), output.say)


def _run(run: str) -> tuple[RunDir, RunSpec, Trainer]:
    """The run of this name or directory, and its trainer. UsageError for one that has no server."""
    from autoresearch.lab.runs import sessions
    from autoresearch.records import spec_file
    from autoresearch.records.rundir import RunDir
    from autoresearch.trainers import registry

    here = RunDir(Path(run))
    rundir = here if here.path.is_absolute() and here.spec.is_file() else sessions.find(run, real_parts())
    try:
        spec = spec_file.read(rundir)
    except OSError as error:
        raise NotFoundError(f"{rundir.path}: the run directory is gone ({error.strerror})") from error
    trainer = registry.by_name(spec.trainer)
    if spec.swarm is None or not isinstance(trainer, HasPrograms):
        raise UsageError(f"{rundir.path.name} is no run of swarm mode", hint="its blueprint has no `swarm_` notes")
    return rundir, spec, trainer
