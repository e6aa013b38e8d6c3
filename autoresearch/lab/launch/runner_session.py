"""A Runner is started: in the tmux session of a run, or for who waits for its end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.errors import EnvironmentUnusable
from autoresearch.lab.launch.run_sandbox import BUBBLEWRAP, why_no_sandbox
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.launchers.tmux import SessionInfo
from autoresearch.records import exit_record, journal, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.exit_record import ExitRecord
from autoresearch.records.files import write_environment, write_json
from autoresearch.records.index import IndexEntry, state_home
from autoresearch.records.order_file import request_stop
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint
from autoresearch.runner.gpu_lease import VISIBLE
from autoresearch.trainers import registry

# spec.json as the Runner reads it: the run's spec, and keys that only the Runner needs.

RUNNER = Path(__file__).parents[2] / "runner"  # a directory with a __main__.py is a program


def keys_of_runner(resolved_run: ResolvedRun) -> dict[str, object]:
    """The keys of spec.json that only the Runner reads."""
    spec = resolved_run.spec
    return {
        "journal": str(Path(spec.result_dir) / journal.NAME),
        "collector": [sys.executable, "-P", "-m", "autoresearch", "collect", spec.run_dir],
        "controller": str(CampaignDir(Path(spec.ledger).parent).lock) if spec.why else "",
        "gpu_count": resolved_run.options.gpu_request.count,
        "first_step": resolved_run.resolved.blueprint.notes.first_step,
        "output": resolved_run.trainer_settings.output,
        "start": registry.server(resolved_run.trainer_settings.trainer).start_command(spec),
    }


REPORT_IN_S = 15.0  # seconds; usually a Runner reports within milliseconds, a loaded machine takes longer


def _start_session(resolved_run: ResolvedRun) -> SessionInfo:
    """Start the Runner in the run's tmux session."""
    spec, rundir, options = resolved_run.spec, resolved_run.directory, resolved_run.options
    environ = options.parts.environ
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(rundir.path)]
    marker = {"AUTORESEARCH_RUN_ID": spec.run, "XDG_STATE_HOME": str(state_home(environ).parent)}
    marker |= {name: environ[name] for name in ("AUTORESEARCH_FAILPOINT",) if environ.get(name)}
    info = options.parts.launcher(options.tmux_socket).start(spec.session, argv, cwd=Path(spec.cwd), environment=marker)
    write_json(rundir.session, asdict(info), durable=False)
    return info


def start_runner(run: ResolvedRun, uuids: tuple[str, ...], shares: int) -> tuple[ResolvedRun, SessionInfo]:
    """Write what the Runner reads, with GPUs and sandbox; start it in its session."""
    options, rundir = run.options, run.directory
    environment, spec = dict(options.environment), run.spec
    keys = keys_of_runner(run)
    if uuids:
        if VISIBLE not in run.resolved.blueprint.notes.env:
            environment.pop(VISIBLE, None)  # the campaign chose them: this shell may be another one than at its start
        keys |= {"gpu_count": 0, "lease_shares": shares}
        spec = replace(spec, gpus=uuids)
    if options.sandbox and not why_no_sandbox(run.resolved.blueprint.notes, spec.command, environment):
        environment = options.sandbox.environment(environment)
        keys |= options.sandbox.before(spec, environment)
        anew = spec.evaluate_place and f"{spec.evaluate_place} --bound"
        spec = replace(spec, sandbox=BUBBLEWRAP, within=options.sandbox.writes(spec), evaluate_place=anew)
    if spec.worktree:
        keys |= _checked_worktree(RecordedRun(rundir, spec))
    recorded_run.write(rundir, spec, keys)
    write_environment(rundir.environment, environment)
    failpoint("launch.written")
    run = replace(run, spec=spec)
    session = _start_session(run)
    failpoint("launch.started")
    return run, session


def _checked_worktree(recorded: RecordedRun) -> dict[str, str]:
    """Check that the worktree holds the run's commit: now, or after its `prepare` commands if it has any."""
    from autoresearch.lab.campaigns import slots

    if recorded.spec.prepare:
        return {"before_training": slots.note_command(recorded.rundir)}
    slots.note_worktree(recorded)
    return {}


def await_report(rundir: RunDir, session: str) -> None:
    """Return once the Runner holds its lock; tmux's own exit code 0 proves nothing in a sandbox."""
    deadline = time.monotonic() + REPORT_IN_S
    pause = 0.002
    while time.monotonic() < deadline:
        if rundir.runner.exists() or rundir.exit_record.exists():
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    raise EnvironmentUnusable(
        f"the session {session} was started but its Runner never reported",
        hint="a sandbox may end sessions with the command that made them; see `autoresearch doctor`",
        fix="autoresearch doctor",
    )


def close_previous(spec: RunSpec, parts: Parts) -> None:
    """Close the pane of a directory's previous run, and of the project's earlier ones: the last stays readable."""
    from autoresearch.lab.runs.sessions import close_session, session_info

    def ended(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
        return [one for one in entries if RunDir(Path(one.run_dir)).state() is RunState.ENDED]

    before = [one for one in parts.index.by_directory(spec.result_dir) if one.run != spec.run]
    own = parts.index.by_id(spec.run)
    over = ended(before)
    if own and _is_lone(own):
        info = session_info(RunDir(Path(own.run_dir)))
        shown = parts.launcher(info.socket).list_ended() if info else []
        known = (parts.index.by_id(one.session) for one in shown)
        lone = [one for one in known if one and one.project == own.project and _is_lone(one)]
        over += sorted(ended(lone), key=lambda one: one.created)[:-1]
    for entry in over:
        close_session(RunDir(Path(entry.run_dir)), parts)


def _is_lone(entry: IndexEntry) -> bool:
    return not CampaignDir(Path(entry.run_dir).parent).spec.exists()


_STARTED: dict[Path, subprocess.Popen[bytes]] = {}  # by run directory: the Runners that this process has to wait for


def start_child(rundir: RunDir, spec: Mapping[str, Any], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start what a Runner's spec says, in a run directory that exists, without a terminal; it outlives this process."""
    write_json(rundir.spec, dict(spec), durable=False, executed=True)
    write_environment(rundir.environment, environ)
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(rundir.path)]
    with (rundir.path / "runner.out").open("wb") as out:
        runner = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    _STARTED[rundir.path] = runner
    return runner


def child_lives(rundir: RunDir) -> bool:
    """Whether this process has started a Runner there that is not over; it may not hold its lock yet."""
    if (runner := _STARTED.get(rundir.path)) is None or runner.poll() is not None:
        _STARTED.pop(rundir.path, None)
        return False
    return True


def run_to_end(rundir: RunDir, spec: Mapping[str, Any], environ: Mapping[str, str]) -> ExitRecord | None:
    """Run what a Runner's spec says, in a run directory that exists; None where the Runner left no record.

    The Runner enforces the limits, and ends the whole process tree: also when we are interrupted.
    """
    runner = start_child(rundir, spec, environ)
    try:
        runner.wait()
    except BaseException:
        request_stop(rundir, "the command that ran it was interrupted", durable=False)
        runner.wait()
        raise
    return exit_record.read(rundir)
