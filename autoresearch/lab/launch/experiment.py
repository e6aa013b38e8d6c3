"""A blueprint is resolved and launched once, whoever asks for it."""

from __future__ import annotations

import contextlib
import os.path
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError, BlueprintError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.launch.launch import Launched, check, start
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_sandbox, refuse
from autoresearch.lab.resolve.resolve_blueprint import base_of, key_of, read_blueprint, read_bytes
from autoresearch.lab.resolve.resolve_run import ResolvedRun, RunOptions, resolve_run
from autoresearch.lab.runs import lookup, sessions
from autoresearch.lab.runs.adopt import adopt
from autoresearch.records import journal
from autoresearch.records.rundir import RunDir


def planned(path: Path, run_options: RunOptions) -> tuple[ResolvedRun, list[AutoresearchError]]:
    """The run as it would be started, and all that refuses it."""
    run = resolve_run(path, run_options)
    refusals = run.refusals()
    try:
        run = with_target_findings(run)
    except AutoresearchError as error:
        refusals.append(error)
    return run, refusals


def with_target_findings(resolved_run: ResolvedRun) -> ResolvedRun:
    """The run with its target's current findings. Raises EnvironmentUnusable if it could not be sent there."""
    target, spec, parts = resolved_run.options.target, resolved_run.spec, resolved_run.options.parts
    if target.is_local:
        return resolved_run
    from autoresearch.lab.remote.inspect import inspect
    from autoresearch.lab.remote_files.remote_host import InterpreterSearch

    search = InterpreterSearch(target, spec.interpreter, Path(spec.cwd), bool(spec.prepare))
    found = inspect(target, parts, search).findings
    refuse(found, parts)
    return replace(resolved_run, findings=(*resolved_run.findings, *found))


SHOWN_EDITED = 8  # paths


@dataclass(frozen=True, slots=True)
class Begun:
    """A living run, and remarks for people on how it was started."""

    launched: Launched
    remarks: tuple[str, ...]


def begin(path: Path, run_options: RunOptions, note: str = "") -> Begun:
    """Launch the run, or return the run of this very blueprint that is in progress."""
    parts = run_options.parts
    read_bytes(path.absolute())  # before the lock: an invalid path leaves no trace
    check_sandbox(parts)  # before the index: the sandbox may forbid its directory
    with parts.index.launch_lock(key_of(path)), _nothing_launched_if_interrupted():
        with refusals_marked(path, run_options):
            run = resolve_run(path, run_options)
            running = _running(run.spec, parts)
            if running is not None:
                return Begun(running, ())
            _finish_records(run.spec.result_dir, parts)
            check(run)
            run = with_target_findings(run)
        launched = start(run)
    if note:
        journal.append(run.result_dir, f"note: {note}")
    remarks = [str(finding) for finding in run.findings]
    if not run.trainer_settings.steps_known:
        remarks.append(f"first step: {run.first_step_rule}")
    if edited := launched.spec.edited:
        more = ", ..." if len(edited) > SHOWN_EDITED else ""
        remarks.append(f"not committed, and in the run's commit: {', '.join(edited[:SHOWN_EDITED])}{more}")
    if launched.spec.unkept:
        remarks.append(f"warning: {launched.spec.unkept}")
    return Begun(launched, tuple(remarks))


@contextlib.contextmanager
def _nothing_launched_if_interrupted() -> Iterator[None]:
    """Add a message to an interruption before a run was claimed; `lab.launch` has its own for later ones."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or "interrupted: nothing was launched") from None


def _finish_records(result_dir: str, parts: Parts) -> None:
    """Finish a dead run's records before another run moves them aside."""
    for entry in parts.index.live():
        if entry.result_dir == result_dir and RunDir(Path(entry.run_dir)).spec.exists():
            adopt(RunDir(Path(entry.run_dir)), parts)


def _running(spec: RunSpec, parts: Parts) -> Launched | None:
    """The living run of this very blueprint."""
    for entry in parts.index.find_live_by_blueprint(spec.blueprint, spec.blueprint_sha):
        rundir = RunDir(Path(entry.run_dir))
        if not rundir.spec.exists():
            continue  # its launch ended before writing one, or its directory was removed
        if adopt(rundir, parts)[0].lives:
            info = sessions.session_info(rundir)
            return Launched(lookup.recorded(entry.run, parts).spec, info.attach if info else "", already=True)
    return None


@contextlib.contextmanager
def refusals_marked(path: Path, run_options: RunOptions) -> Iterator[None]:
    """Write finish.flag for a blueprint that is refused, unless a run was, is or is being started there.

    Nobody waits for the one of a typed command, whose directory they do not know.
    """
    try:
        yield
    except BlueprintError as refusal:
        with contextlib.suppress(AutoresearchError, OSError):  # the refusal matters more
            result_dir = _result_dir(path)
            known = result_dir is None or run_options.parts.index.by_directory(str(result_dir))
            if result_dir and not known and not journal.has_run(result_dir):
                reason, t = refusal.message, run_options.parts.clock()
                journal.write_refusal(result_dir, blueprint=str(path.absolute()), reason=reason, t=t)
                if checkout := repository.find(base_of(path.absolute())):
                    repository.hide(checkout, result_dir)
        raise


def _result_dir(path: Path) -> Path | None:
    """The result directory that the refused blueprint names; None if it names none, or was written for a command."""
    try:
        file = read_blueprint(path)
        text = "" if file.is_typed else file.blueprint.result_dir
    except BlueprintInvalid as error:
        text = error.result_dir
    return Path(os.path.normpath(base_of(path.absolute()) / Path(text).expanduser())) if text else None
