"""Order a run at a remote target: write its order file, and start a session that shows its log."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.launch.runner_session import keys_of_runner
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.start_follower import attend, directory_of
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.launchers.registry import pinned
from autoresearch.records import order_file, recorded_run
from autoresearch.records.order_file import Order
from autoresearch.records.rundir import RunDir, write_environment, write_json

if TYPE_CHECKING:
    from autoresearch.launchers.tmux_session import SessionInfo


def order(resolved_run: ResolvedRun, target: Target, parts: Parts) -> tuple[ResolvedRun, SessionInfo]:
    """Write the order of a run for a target.

    Returns the run as it was ordered, and the session that shows its log (ending it does not end the run).
    """
    target, rundir = pinned(target, parts.environ), resolved_run.directory
    options = replace(resolved_run.options, target=target)
    spec = replace(resolved_run.spec, launcher=target.label)
    recorded_run.write(rundir, spec, keys_of_runner(resolved_run))
    write_environment(rundir.environment, options.environment)
    resolved_run = replace(resolved_run, spec=spec, options=options)
    info = show_log(rundir, resolved_run.spec.session, parts, options.tmux_socket)
    order_file.write(
        rundir,
        Order(
            run=resolved_run.spec.run,
            place=options.target,
            ordered=parts.clock(),
            follower=str(directory_of(options.target, parts)),
            declared=_declared(resolved_run, parts),
            gpus=options.remote_gpus.at(options.target),
            socket=options.tmux_socket,
        ),
    )
    return resolved_run, info


def follow(resolved_run: ResolvedRun, parts: Parts) -> None:
    """See that its target has a Follower. If that fails, whoever looks at the run next tries again."""
    options = resolved_run.options
    with contextlib.suppress(AutoresearchError, OSError):
        attend(options.target, parts, options.tmux_socket)


def show_log(rundir: RunDir, session: str, parts: Parts, socket: str) -> SessionInfo:
    """Start a session that shows the log as it is mirrored; it ends with the run, and ending it does not end
    the run.
    """
    argv = ["tail", "-n", "+1", "-F", "--", str(rundir.log)]
    rundir.log.touch()
    info = parts.launcher(socket).start(session, argv, cwd=Path(rundir.path), environment={})
    write_json(rundir.session, asdict(info), durable=False)
    return info


def _declared(resolved_run: ResolvedRun, parts: Parts) -> tuple[str, ...]:
    """Variables set by the blueprint, the trainer or autoresearch; all others are this machine's own."""
    notes, environment = resolved_run.resolved.blueprint.notes, resolved_run.options.environment
    changed = {name for name, value in environment.items() if parts.environ.get(name) != value}
    return tuple(sorted(changed | set(notes.env) | (set(notes.requires_env) & set(environment))))
