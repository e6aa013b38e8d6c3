"""Order a run at another target, submit it, and keep a session that looks at a lone one until it is recorded."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.launch.runner_session import keys_of_runner
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.refresh import Refresher
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.lab.runs import detached
from autoresearch.lab.runs.sessions import close_session
from autoresearch.launchers.registry import pinned
from autoresearch.records import order_file, recorded_run
from autoresearch.records.files import write_environment, write_json
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint, is_locked

if TYPE_CHECKING:
    from autoresearch.launchers.tmux import SessionInfo


def order(resolved_run: ResolvedRun, target: Target, parts: Parts) -> ResolvedRun:
    """Write the order of a run for a target; returns the run as it was ordered."""
    target, rundir = pinned(target, parts.environ), resolved_run.directory
    options = replace(resolved_run.options, target=target)
    spec = replace(resolved_run.spec, launcher=target.label)
    recorded_run.write(rundir, spec, keys_of_runner(resolved_run))
    write_environment(rundir.environment, options.environment)
    resolved_run = replace(resolved_run, spec=spec, options=options)
    rundir.log.touch()
    order_file.write(
        rundir,
        Order(
            run=resolved_run.spec.run,
            place=options.target,
            ordered=parts.clock(),
            declared=_declared(resolved_run, parts),
            gpus=options.remote_gpus.at(options.target),
            socket=options.tmux_socket,
        ),
    )
    failpoint("launch.ordered")
    return resolved_run


def submit(rundir: RunDir, parts: Parts) -> str:
    """Submit an ordered lone run, and start its session; returns the command that shows it.

    If the target does not answer, the session goes on trying.
    """
    Refresher(parts).look([rundir], within_s=0.0)
    info = None if rundir.exit_record.exists() else watch_over(rundir, parts)
    return info.attach if info else f"autoresearch attach {recorded_run.read(rundir).run}"


def watch_over(rundir: RunDir, parts: Parts, *, anew: bool = False) -> SessionInfo | None:
    """Start the session of a run, which shows its log and looks at it until it is recorded, unless it lives.

    anew: even then. Ending the session does not end the run. Raises nothing: whoever looks at the run next tries again.
    """
    if (is_locked(rundir.watched) or detached.starts(rundir.path)) and not anew:
        return None
    if (ordered := order_file.read(rundir)) is None:
        return None
    with contextlib.suppress(AutoresearchError, OSError):
        close_session(rundir, parts)
        return show(rundir, parts, ordered.socket)
    return None


def show(rundir: RunDir, parts: Parts, socket: str) -> SessionInfo:
    """Start that session. Raises ConflictError if there is one, EnvironmentUnusable if tmux cannot be used."""
    spec = recorded_run.read(rundir)
    words, mark = ["follow", str(rundir.path)], f"follow-{spec.run}"
    info = detached.begin(rundir.path, words, spec.session, mark, parts, socket)
    write_json(rundir.session, asdict(info), durable=False)
    return info


def _declared(resolved_run: ResolvedRun, parts: Parts) -> tuple[str, ...]:
    """Variables set by the blueprint, the trainer or autoresearch; all others are this machine's own."""
    notes, environment = resolved_run.resolved.blueprint.notes, resolved_run.options.environment
    changed = {name for name, value in environment.items() if parts.environ.get(name) != value}
    return tuple(sorted(changed | set(notes.env) | (set(notes.requires_env) & set(environment))))
