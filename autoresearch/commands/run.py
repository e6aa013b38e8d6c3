"""`autoresearch run BLUEPRINT`: one experiment, from the blueprint to its records."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.name_lookup import target_named
from autoresearch.commands.notice_checks import warn_of_recipients
from autoresearch.commands.outcome import WHAT, show_outcome
from autoresearch.commands.terminal_notice import ring
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError, NotFoundError, UsageError
from autoresearch.lab import settings as project
from autoresearch.lab.launch.experiment import Begun, Experiment, begin, planned
from autoresearch.lab.launch.prepared_run import Launched
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.records import order_file
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir


def run(
    blueprint: Annotated[str, typer.Argument(metavar="BLUEPRINT", show_default=False)] = "",
    detach: Annotated[bool, typer.Option("--detach", help="Return as soon as it runs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; where there is no blueprint, write it.")] = False,
    first_step_timeout: Annotated[str, typer.Option(metavar="DURATION", help="Limit to the first step; strict.")] = "",
    max_time: Annotated[str, typer.Option(metavar="DURATION", help="Limit in all.")] = "",
    stall_timeout: Annotated[str, typer.Option(metavar="DURATION", help="End it when no event came for so long.")] = "",
    grace: Annotated[str, typer.Option(metavar="DURATION", help="Between TERM and KILL.")] = "",
    trainer: Annotated[str, typer.Option(help="Trainer, if the command does not show it.")] = "",
    launcher: Annotated[
        str,
        typer.Option(
            metavar="TARGET", help="Where: local, slurm, ray, ssh:HOST, a name.", callback=target_named
        ),
    ] = "",
    interactive: Annotated[bool, typer.Option("--interactive", help="Slurm: in one allocation that is kept.")] = False,
    gpus: Annotated[str, typer.Option(help="GPUs to lease: none, all, N, 0,1 or UUIDs.")] = "",
    no_gpu_check: Annotated[bool, typer.Option("--no-gpu-check", help="Though too few GPUs are seen.")] = False,
    require_snapshot: Annotated[
        bool, typer.Option("--require-snapshot", help="Refuse to run code that no commit can hold.")
    ] = False,
    fix_of: Annotated[str, typer.Option(metavar="RUN", help="A repaired rerun of RUN, on its branch.")] = "",
    note: Annotated[str, typer.Option(help="What was repaired; goes into the experiment log.")] = "",
) -> int:
    """Run one blueprint in an ajet_* tmux session, watched, limited, measured and recorded."""
    if fix_of and note == WHAT:
        raise UsageError(
            "nothing is repaired yet: --note says in your words what was",
            hint=f"`autoresearch explain {fix_of}` says what to try",
            fix=f"autoresearch explain {fix_of}",
        )
    path = Path(blueprint) if blueprint else _offer()
    flags = {
        "first_step_timeout": first_step_timeout,
        "max_time": max_time,
        "stall_timeout": stall_timeout,
        "grace": grace,
        "trainer": trainer,
        "launcher": launcher,
        "interactive": "yes" if interactive else "",
        "gpus": gpus,
        "gpu_check": "no" if no_gpu_check else "",
        "require_snapshot": "yes" if require_snapshot else "",
    }
    asking = not (dry_run or yes or as_json or output.agent_or_pipe())
    wrote = _first_blueprint(path, asking=asking, yes=yes and not dry_run)
    settings = project.load(path.absolute().parent, environ=os.environ, flags=flags)
    experiment = Experiment(path, settings, real_parts(), fix_of=fix_of, note=note)
    if dry_run or (wrote and asking):
        exit_code = _show_plan(*planned(experiment), blueprint, as_json=as_json)
        if dry_run or exit_code or not typer.confirm("Start it?", default=True):
            return exit_code
    with output.interruption_reported():
        started = begin(experiment)
    for line in started.remarks:
        output.remark(line)
    warn_of_recipients(path.absolute().parent, os.environ)
    if detach:
        return _detached(started, as_json=as_json)
    more = {"remarks": list(started.remarks)}
    return follow_to_end("run", started.launched, experiment.parts, as_json=as_json, more=more)


def _offer() -> Path:
    """No blueprint was named: offer to make one on a terminal, else say how."""
    if output.agent_or_pipe():
        raise UsageError(
            "which blueprint? none was named",
            hint="`autoresearch config schema blueprint` says what it must hold",
            fix="autoresearch blueprint new my-experiment.md --purpose WHY --command COMMAND",
        )
    from autoresearch.commands.blueprint import ask_for_blueprint

    return ask_for_blueprint()


def _first_blueprint(path: Path, *, asking: bool, yes: bool) -> bool:
    """Write a blueprint that was named and is missing, as `init` does, where the folder has none; whether it did."""
    from autoresearch.commands.init import first_files
    from autoresearch.lab.resolve.blueprint_file import is_blueprint

    folder = path.absolute().parent
    if path.suffix != ".md" or os.path.lexists(path) or not folder.is_dir():
        return False
    if any(map(is_blueprint, folder.glob("*.md"))):
        return False
    missing = NotFoundError(f"there is no blueprint {path}", fix="autoresearch init", code="no_blueprint")
    first_files(missing, path.absolute(), asking=asking, yes=yes, campaign=False)
    return True


def _for_real(blueprint: str, path: str) -> str:
    """The line that was typed, without what made it a plan: with its target and its limits, from any directory."""
    dropped = ("--dry-run", "--json", "--")  # a whole path needs no `--` before it
    words = [path if word == blueprint else word for word in output.typed if word not in dropped]
    return shlex.join(["autoresearch", *words])


def _show_plan(
    resolved_run: ResolvedRun, refusals: Sequence[AutoresearchError], blueprint: str, *, as_json: bool
) -> int:
    """Print all that was found, and at the end all that refuses the run; the exit code of the first."""
    spec, options = resolved_run.spec, resolved_run.options
    stall = "report only" if spec.limits.stall_s is None else output.duration(spec.limits.stall_s)
    started = resolved_run.trainer_settings.started
    script = f"{started.where}:{started.line}" if started and started.where else ""
    gpus = resolved_run.trainer_settings.gpus_needed(options.environment)
    rows = [
        ["where", _where(resolved_run)],
        ["branch", spec.branch or f"none: {options.no_git}"],
        ["session", spec.session],
        ["command", spec.command],
        ["in", spec.cwd],
        ["with", f"{spec.interpreter} ({resolved_run.resolved.interpreter_source})"],
        ["trainer", f"{spec.trainer}, by {script}" if script else spec.trainer],
        *([["recipe", spec.recipe]] if spec.recipe else []),
        *([["GPUs", str(gpus)]] if gpus else []),
        ["metric", f"{spec.objective.metric}, {spec.objective.direction}" if spec.objective else "none"],
        [
            "limits",
            f"first step {output.duration(spec.limits.first_step_s)}, in all "
            f"{output.duration(spec.limits.max_s)}, stall {stall}, grace {output.duration(spec.limits.grace_s)}",
        ],
        ["first step", resolved_run.first_step_rule],
        ["result_dir", spec.result_dir],
        ["run_dir", spec.run_dir],
        ["ledger", spec.ledger],
    ]
    rows += [["metrics", f"{source.format} {source.path}"] for source in spec.sources]
    rows += [["prepare", c] for c in spec.prepare]
    rows += [["evaluate", f"{c} (within {output.duration(spec.evaluate_s)})"] for c in spec.evaluate]
    rows += [["cleanup", c] for c in spec.cleanup]
    caches = options.caches if options.target.is_local else {}
    rows += [["env", f"{k}={v}"] for k, v in {**spec.environment, **caches}.items()]
    rows += [["note", line] for line in spec.notes.splitlines() if line.strip()]
    rows += [["remark", str(f)] for f in resolved_run.findings]
    line = _for_real(blueprint, spec.blueprint)
    payload = {
        "run": None,
        "state": "planned",
        "place": asdict(options.target),
        "gpus_asked": None if options.target.is_local else options.remote_gpus.at(options.target),
        "branch": spec.branch or None,
        "session": spec.session,
        "command_line": spec.command,
        "cwd": spec.cwd,
        "interpreter": spec.interpreter,
        "trainer": spec.trainer,
        "trainer_command": resolved_run.trainer_settings.understood,
        "trainer_script": script or None,
        "recipe": spec.recipe or None,
        "gpus_needed": gpus or None,
        "metric": spec.objective.metric if spec.objective else None,
        "limits": {
            "first_step_s": spec.limits.first_step_s,
            "first_step_rule": resolved_run.first_step_rule,
            "max_s": spec.limits.max_s,
            "stall_s": spec.limits.stall_s,
            "grace_s": spec.limits.grace_s,
        },
        "sources": [{"format": str(source.format), "path": source.path} for source in spec.sources],
        "environment": {**spec.environment, **caches},
        "prepare": list(spec.prepare),
        "evaluate": list(spec.evaluate),
        "evaluate_s": spec.evaluate_s,
        "cleanup": list(spec.cleanup),
        "seed": spec.seed,
        "result_dir": spec.result_dir,
        "run_dir": spec.run_dir,
        "ledger": spec.ledger,
        "files": [spec.result_dir, spec.run_dir, spec.ledger],
        "notes": spec.notes,
        "findings": [str(f) for f in resolved_run.findings],
        "next": [line],
    }
    if as_json:
        output.emit("run", payload, as_json=True, refusals=refusals)
    else:
        output.table(rows, title=f"nothing was changed; this would {'be refused' if refusals else 'run'}:")
        for error in refusals:
            output.print_error(error, as_json=False, command="run")
        if not refusals:
            output.prose(f"next: {line}")
    return refusals[0].exit_code if refusals else 0


def _where(resolved_run: ResolvedRun) -> str:
    target = resolved_run.options.target
    if target.is_local:
        return "here, in tmux"
    count = resolved_run.options.remote_gpus.at(target)
    return f"{target}" + (f", asking for {count} GPU{'s' if count > 1 else ''}" if count else "")


def _detached(started: Begun, *, as_json: bool) -> int:
    launched, spec = started.launched, started.launched.spec
    payload = living_payload(launched) | {"remarks": list(started.remarks)}
    lines = [
        f"{spec.run} {_already(launched) or 'runs'} in {spec.session}",
        f"records: {output.near(spec.run_dir)}",
        f"attach: {launched.attach}",
        f"log: {output.near(payload['log_path'])}",
    ]
    output.emit("run", payload, as_json=as_json, lines=lines)
    return 0


def _already(launched: Launched) -> str:
    """That it lives, and where: another target may have been asked for. "" for a run that has just been started."""
    order = order_file.read(RunDir(Path(launched.spec.run_dir))) if launched.already else None
    return f"is already running at {order.place.name}" if order else "is already running" if launched.already else ""


def living_payload(launched: Launched) -> dict[str, Any]:
    """What `run --detach` says about a run that lives."""
    from autoresearch.lab.runs.run_status import ReadBudget, RunWatch, as_payload

    spec = launched.spec
    recorded = RecordedRun(RunDir(Path(spec.run_dir)), spec)
    return {
        **as_payload(recorded, RunWatch(recorded).status(ReadBudget(0.0))),
        "already_running": launched.already,
        "attach": launched.attach,
        "next": [f"autoresearch wait {spec.run} --for 100s", f"autoresearch status {spec.run}"],
    }


def follow_to_end(
    command: str, launched: Launched, parts: Parts, *, as_json: bool, more: Mapping[str, Any] | None = None
) -> int:
    """Watch a run until it is recorded, print what came of it with `more` keys, and return its exit code."""
    from autoresearch.commands.live import follow

    spec = launched.spec
    rundir = RunDir(Path(spec.run_dir))
    output.remark(f"{spec.run} {_already(launched) or 'started'}; {launched.attach}")
    try:
        outcome = follow(RecordedRun(rundir, spec), parts, live=output.at_terminal() and not as_json)
    except KeyboardInterrupt:
        output.remark(f"the run goes on without this terminal: autoresearch wait {spec.run}")
        raise
    show_outcome(command, outcome, as_json=as_json, more=more)
    ring(f"{spec.slug}: {outcome.exit.ending.wording}")
    return outcome.exit_code
