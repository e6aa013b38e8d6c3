"""What Runners call, and nobody needs to type, though `collect` and `swarm down` are safe to.

Records, worktrees, and the server's half of a run in swarm mode.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import host_services
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.hooks import HasPrograms
from autoresearch.errors import AutoresearchError, ConflictError, UsageError
from autoresearch.lab.runs import lookup
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.core.run.trainer import Trainer
    from autoresearch.records.recorded_run import RecordedRun

RunArgument = Annotated[str, Positional(metavar="RUN", show_default=False)]


def before_training(run_dir: Annotated[Path, Positional(show_default=False)]) -> int:
    """See that the worktree holds the run's commit, and note what `prepare:` has changed in it."""
    from autoresearch.lab.campaigns.slots import note_worktree
    from autoresearch.records.recorded_run import RecordedRun

    recorded = RecordedRun.read(RunDir(run_dir))
    note_worktree(recorded)
    output.say(f"trains in {recorded.spec.worktree}: {recorded.spec.commit[:12]}")
    return 0


def evaluation_place(
    path: Annotated[Path, Positional(show_default=False)],
    repository: Annotated[Path, Option(show_default=False)],
    commit: Annotated[str, Option(show_default=False)],
    campaign: Annotated[Path, Option(show_default=False)],
    bound: Annotated[bool, Option("--bound")] = False,
) -> int:
    """Leave exactly the files of a commit there, whatever a run may have done to them."""
    from autoresearch.lab.ideas.worktree_paths import make_place

    make_place(repository, path, commit, CampaignDir(campaign), bound=bound)
    output.say(f"evaluated in {path}: {commit[:12]}, as it was committed")
    return 0


def collect(run: RunArgument) -> CommandResult:
    """Write the records of a run that is over; does nothing twice."""
    from autoresearch.commands.run_view import outcome_result
    from autoresearch.lab.results.collect import collect as write_records

    parts = real_parts()
    rundir = lookup.find_run(run, parts)
    try:
        outcome = write_records(rundir, parts.index)
    except (AutoresearchError, OSError) as error:
        _announce_full_disk(rundir, error)
        raise
    return outcome_result(outcome)


def _announce_full_disk(rundir: RunDir, error: Exception) -> None:
    """The Runner calls this once, and nobody reads what it prints."""
    from autoresearch.lab.campaigns.context import is_full
    from autoresearch.lab.notices.run_notices import announce_full_disk
    from autoresearch.records import recorded_run

    if is_full(error):
        announce_full_disk(recorded_run.read(rundir), error)


# ------------------------------------------------------------------------------------------ swarm


def up(run: RunArgument) -> int:
    """Start the server, see the engine off and one episode work: a `prepare` step."""
    return _program("up", run)


def serve(run: RunArgument) -> int:
    """Be the server's session."""
    return _program("serve", run)


def client(run: RunArgument) -> int:
    """Be the client's session: the launch command, watched."""
    return _program("client", run)


def down(run: RunArgument) -> CommandResult:
    """Stop the engine, end the server, see its port free: a `cleanup` step, harmless to repeat."""
    from autoresearch.core.run.spec import RunState
    from autoresearch.lab.runs.processes import sweep
    from autoresearch.trainers import registry

    recorded, trainer = _swarm_run(run)
    rundir, name = recorded.rundir, recorded.spec.run
    inside = os.environ.get("AUTORESEARCH_RUN_ID") == name  # we are a step of this very run
    if rundir.state() in (RunState.RUNNING, RunState.EVALUATING) and not inside:
        raise ConflictError(f"{name} still runs", fix=f"autoresearch stop {name}")
    lines: list[str] = []
    say = lines.append
    if not output.typed.as_json:  # it takes a while
        say = output.say
        output.prose(f"{name} in {rundir.path}:")
    free = registry.server(trainer).stop_server(str(rundir.path), sweep, say)
    payload = {"run": name, "run_dir": str(rundir.path), "down": free, "said": lines, "next": []}
    return CommandResult(payload, exit_code=0 if free else ConflictError.exit_code)


def _program(name: str, run: str) -> int:
    recorded, trainer = _swarm_run(run)
    assert isinstance(trainer, HasPrograms)
    return trainer.run_program(name, str(recorded.rundir.path), host_services(), output.say)


def _swarm_run(run: str) -> tuple[RecordedRun, Trainer]:
    """The run of this name or directory, and its trainer. UsageError for one that has no server."""
    from autoresearch.records.recorded_run import RecordedRun
    from autoresearch.trainers import registry

    here = RunDir(Path(run))
    rundir = here if here.path.is_absolute() and here.spec.is_file() else lookup.find_run(run, real_parts())
    recorded = RecordedRun.read(rundir)
    trainer = registry.by_name(recorded.spec.trainer)
    if recorded.spec.swarm is None or not isinstance(trainer, HasPrograms):
        raise UsageError(f"{rundir.path.name} is no run of swarm mode", hint="its blueprint has no `swarm_` notes")
    return recorded, trainer
