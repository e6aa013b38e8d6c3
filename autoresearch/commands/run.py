"""`autoresearch run BLUEPRINT`: one experiment, from the blueprint to its records."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from autoresearch.commands import REPAIRED, Option, Positional, output
from autoresearch.commands.name_lookup import DirectionWord, target_named
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError, UsageError
from autoresearch.lab import settings as project
from autoresearch.lab.launch.experiment import begin, planned
from autoresearch.lab.resolve.resolve_run import ResolvedRun, RunOptions
from autoresearch.records.rundir import RunDir


def run(
    blueprint: Annotated[str, Positional(metavar="BLUEPRINT", show_default=False)] = "",
    command: Annotated[list[str] | None, Positional(metavar="[-- COMMAND...]", show_default=False)] = None,
    detach: Annotated[bool, Option("--detach", help="Return as soon as it runs.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    first_step_timeout: Annotated[str, Option(metavar="DURATION", help="Limit to the first step; strict.")] = "",
    max_time: Annotated[str, Option(metavar="DURATION", help="Limit in all.")] = "",
    stall_timeout: Annotated[str, Option(metavar="DURATION", help="End it when no event came for so long.")] = "",
    grace: Annotated[str, Option(metavar="DURATION", help="Between TERM and KILL.")] = "",
    trainer: Annotated[str, Option(help="Trainer, if the command does not show it.")] = "",
    metric: Annotated[str, Option(help="The number that counts, if not the blueprint's.")] = "",
    direction: DirectionWord = "",
    launcher: Annotated[
        str,
        Option(metavar="TARGET", help="Where: local, slurm, ray, ssh:HOST, a name.", checked=target_named),
    ] = "",
    gpus: Annotated[str, Option(help="GPUs to lease: none, all, N, 0,1 or UUIDs.")] = "",
    no_gpu_check: Annotated[bool, Option("--no-gpu-check", help="Though too few GPUs are seen.")] = False,
    fix_of: Annotated[str, Option(metavar="RUN", help="A repaired rerun of RUN, on its branch.")] = "",
    note: Annotated[str, Option(help="What was repaired; goes into the experiment log.")] = "",
) -> CommandResult:
    """Run one blueprint in an ajet_* tmux session, watched, limited, measured and recorded.

    `run -- python train.py --lr 1e-3` runs a command as it stands; the blueprint that says the same is written.
    """
    if fix_of and note == REPAIRED:
        raise UsageError(
            "nothing is repaired yet: --note says in your words what was",
            hint=f"`autoresearch explain {fix_of}` says what to try",
            fix=f"autoresearch explain {fix_of}",
        )
    written: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if typed := typed_command([blueprint, *(command or ())]):
        from autoresearch.lab.campaign_setup.proof import provisional, typed_blueprint

        path, is_new = typed_blueprint(typed, Path.cwd())
        blueprint, written = os.path.relpath(path), provisional(path, is_new, planned=dry_run)
    elif not blueprint:
        raise UsageError(
            "what is to be run? neither a command nor a blueprint was named",
            hint="`autoresearch init` asks for the command, and writes a blueprint",
            fix="autoresearch init",
        )
    else:
        path = Path(blueprint)
    flags = {
        "first_step_timeout": first_step_timeout,
        "max_time": max_time,
        "stall_timeout": stall_timeout,
        "grace": grace,
        "trainer": trainer,
        "launcher": launcher,
        "gpus": gpus,
        "gpu_check": "no" if no_gpu_check else "",
    }
    with written:
        settings = project.load(path.absolute().parent, environ=os.environ, flags=flags)
        options = RunOptions(settings, real_parts(), fix_of=fix_of, objective=(metric, direction))
        if dry_run:
            return plan(*planned(path, options), blueprint)
        # none of it is for a plan
        from autoresearch.commands.run_view import follow_to_end, living_result
        from autoresearch.lab.notices.run_notices import project_recipients

        started = begin(path, options, note)
    for line in (*started.remarks, *project_recipients(path.absolute().parent).warnings):
        output.remark(line)
    more: dict[str, Any] = {"remarks": list(started.remarks)}
    if typed:
        more["blueprint"] = str(path)
        output.remark(f"to say more (limits, metric, files): edit {blueprint}, and run it by its name")
    rundir = RunDir(Path(started.launched.spec.run_dir))
    refused = rundir.order.exists() and rundir.exit_record.exists()  # its target would not take it
    if detach and not refused:
        return living_result(started.launched, more)
    return follow_to_end(started.launched, options.parts, more=more)


def typed_command(words: Sequence[str]) -> str:
    """The command behind `--`, as a shell line; "" where a blueprint was named, in whatever place.

    Raises UsageError for no command, words that nothing separates from the blueprint, and options behind a shell line.
    """
    first, *more = words
    behind = "--" in output.typed.words
    if behind and not "".join(words).strip():
        raise UsageError("there is no command behind `--`", fix="autoresearch run -- python train.py")
    if not more and (not behind or first.endswith(".md") or first.startswith("-")):  # no program is called so
        return ""
    if not behind:
        fix = f"autoresearch run -- {shlex.join(words)}"
        raise UsageError(f"one blueprint is run, and `{more[0]}` follows it; a command stands behind `--`", fix=fix)
    if more and " " in first and not Path(first).exists():
        raise UsageError(
            f"`{first}` is a whole shell line, and more words follow it",
            hint="options of `run` stand before `--`",
            fix=f"autoresearch run {shlex.join(more)} -- {shlex.quote(first)}",
        )
    return shlex.join(words) if more else first


def plan(resolved_run: ResolvedRun, refusals: Sequence[AutoresearchError], blueprint: str) -> CommandResult:
    """All that was found, and at the end all that refuses the run; it exits as the first of these."""
    from autoresearch.core.blueprint.finding import one_of_a_kind
    from autoresearch.records.journal import facts

    spec, options, trainer = resolved_run.spec, resolved_run.options, resolved_run.trainer_settings
    target, limits = options.target, spec.limits
    script = f"{trainer.started.where}:{trainer.started.line}" if trainer.started and trainer.started.where else ""
    gpus = trainer.gpus_needed(options.environment)
    count = None if target.is_local else options.remote_gpus.at(target)
    asking = f", asking for {count} GPU{'s' if count > 1 else ''}" if count else ""
    known = facts(spec) | {
        "branch": spec.branch or f"none: {options.no_git}",
        "trainer": f"{spec.trainer}, by {script}" if script else spec.trainer,
        "GPUs": str(gpus or ""),
    }
    rows = [
        ["where", f"{target}{asking}" if not target.is_local else "here, in tmux"],
        ["command", spec.command],
        *([name, value] for name, value in known.items() if name != "environment"),
        ["first step", resolved_run.first_step_rule],
        *(["env", f"{name}={value}"] for name, value in spec.environment.items()),
        *(["note", line] for line in spec.notes.splitlines() if line.strip()),
        *(["remark", words] for words in one_of_a_kind(resolved_run.findings)),
    ]
    # the line that was typed, without what made it a plan: with its target and its limits, from any directory
    line = output.typed.again()
    if blueprint in output.typed.words:
        dropped = ("--dry-run", "--json", "--")  # a whole path needs no `--` before it
        words = [spec.blueprint if word == blueprint else word for word in output.typed.words if word not in dropped]
        line = shlex.join(["autoresearch", *words])
    payload = {
        "run": None,
        "state": "planned",
        "place": asdict(target),
        "gpus_asked": count,
        "branch": spec.branch or None,
        "session": spec.session,
        "command_line": spec.command,
        "cwd": spec.cwd,
        "interpreter": spec.interpreter,
        "interpreter_source": spec.interpreter_source,
        "trainer": spec.trainer,
        "trainer_command": trainer.understood,
        "trainer_script": script or None,
        "recipe": spec.recipe or None,
        "gpus_needed": gpus or None,
        "metric": spec.objective.metric if spec.objective else None,
        "direction": spec.objective.direction.value if spec.objective else None,
        "constraints": list(spec.constraints),
        "limits": {
            "first_step_s": limits.first_step_s,
            "first_step_rule": resolved_run.first_step_rule,
            "max_s": limits.max_s,
            "stall_s": limits.stall_s,
            "grace_s": limits.grace_s,
        },
        "sources": [{"format": str(source.format), "path": source.path} for source in spec.sources],
        "environment": dict(spec.environment),
        "prepare": list(spec.prepare),
        "evaluate": list(spec.evaluate),
        "evaluate_s": spec.evaluate_s,
        "cleanup": list(spec.cleanup),
        "seed": spec.seed,
        "result_dir": spec.result_dir,
        "run_dir": spec.run_dir,
        "ledger": spec.ledger,
        "notes": spec.notes,
        "findings": [str(finding) for finding in resolved_run.findings],
        "next": [line],
    }
    head = f"nothing was changed; this would {'be refused' if refusals else 'run'}:"
    table = TableRows([row for row in rows if row[1]])
    return CommandResult(payload, [head, table], refusals[0].exit_code if refusals else 0, refusals)
