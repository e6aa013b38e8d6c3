"""An experiment: a blueprint with the options of the command line, resolved and launched once, whoever asks for it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError, BlueprintError, ConflictError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.launch.launch import Launched, launch
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_remote, check_sandbox
from autoresearch.lab.resolve.resolve_blueprint import base_of, read_blueprint, read_bytes, resolve_blueprint
from autoresearch.lab.resolve.resolve_run import ResolvedRun, RunOptions, resolve_run
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.lab.runs import lookup, sessions
from autoresearch.lab.runs.adopt import adopt
from autoresearch.lab.settings import Settings
from autoresearch.records import journal
from autoresearch.records.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Experiment:
    """A blueprint and the options of the command line."""

    path: Path
    settings: Settings
    parts: Parts
    fix_of: str = ""
    note: str = ""
    objective: tuple[str, str] = ("", "")  # metric and direction; "": the blueprint's

    @property
    def options(self) -> RunOptions:
        """How it is run. Raises NotFoundError or ConflictError for a run that it cannot repair."""
        fixed = self._fixed() if self.fix_of else None
        return RunOptions(self.settings, self.parts, fix_of=fixed, objective=self.objective)

    def resolve(self) -> ResolvedRun:
        """The run as it would be started, though it may be refused; nothing is written."""
        return resolve_run(self.path, self.options)

    def _fixed(self) -> RunSpec:
        recorded = lookup.recorded(self.fix_of, self.parts)
        spec = recorded.spec
        if recorded.rundir.state().lives:
            raise ConflictError(
                f"{spec.run} still runs; only a run that is over can be repaired",
                fix=f"autoresearch wait {spec.run}",
            )
        if spec.why:
            raise ConflictError(
                f"{spec.run} is a run of the campaign {spec.campaign}, which repairs its ideas itself",
                fix=f"autoresearch explain {spec.run}",
            )
        if Path(spec.blueprint) != self.path.resolve():
            raise ConflictError(
                f"{spec.run} ran {spec.blueprint}, not {self.path}: a repair is a rerun of the same blueprint",
                fix=f"autoresearch run {shlex.quote(spec.blueprint)} --fix-of {spec.run}",
            )
        return spec


def planned(experiment: Experiment) -> tuple[ResolvedRun, list[AutoresearchError]]:
    """The run as it would be started, and all that refuses it."""
    run = experiment.resolve()
    refusals = run.refusals()
    try:
        run = with_target_findings(run)
    except AutoresearchError as error:
        refusals.append(error)
    return run, refusals


def with_target_findings(resolved_run: ResolvedRun) -> ResolvedRun:
    """The run with its target's current findings. Raises EnvironmentUnusable if it could not be sent there."""
    target, spec, search = resolved_run.options.target, resolved_run.spec, None
    if not target.is_local:
        from autoresearch.lab.remote_files.remote_host import InterpreterSearch

        search = InterpreterSearch(target, spec.interpreter, Path(spec.cwd), bool(spec.prepare))
    found = check_remote(target, resolved_run.options.parts, search)
    return replace(resolved_run, findings=(*resolved_run.findings, *found))


SHOWN_EDITED = 8  # paths


@dataclass(frozen=True, slots=True)
class Begun:
    """A living run, and remarks for people on how it was started."""

    launched: Launched
    remarks: tuple[str, ...]


def begin(experiment: Experiment) -> Begun:
    """Launch the run, or return the run of this very blueprint that is in progress."""
    parts = experiment.parts
    read_bytes(experiment.path.absolute())  # before the lock: an invalid path leaves no trace
    check_sandbox(parts)  # before the index: the sandbox may forbid its directory
    with parts.index.launch_lock(key_of(experiment.path)), _nothing_launched_if_interrupted():
        with refusals_marked(experiment.path, RunOptions(experiment.settings, parts)):
            run = experiment.resolve()
            running = _running(run.spec, parts)
            if running is not None:
                return Begun(running, ())
            _finish_records(run.spec.result_dir, parts)
            run.refuse()
            run = with_target_findings(run)
        launched = launch(run)
    if experiment.note:
        journal.append(run.result_dir, f"note: {experiment.note}")
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
            result_dir = _result_dir(path, run_options)
            known = result_dir is None or run_options.parts.index.by_directory(str(result_dir))
            if result_dir and not known and not journal.has_run(result_dir):
                from autoresearch.git_repo.snapshot import exclude, pattern_for

                checkout = repository.find(base_of(path.absolute()))
                if checkout and (pattern := pattern_for(checkout, result_dir)):
                    exclude(checkout, pattern)
                reason, t = refusal.message, run_options.parts.clock()
                journal.write_refusal(result_dir, blueprint=str(path.absolute()), reason=reason, t=t)
        raise


def _result_dir(path: Path, run_options: RunOptions) -> Path | None:
    """The result directory of the refused run; None if nobody knows it."""
    try:
        file = read_blueprint(path)
    except BlueprintInvalid as error:
        return base_of(path.absolute()) / Path(error.result_dir).expanduser() if error.result_dir else None
    if file.is_typed:
        return None
    resolved = resolve_blueprint(file, environ=run_options.parts.environ)
    bad = any(finding.code == "bad_result_dir" for finding in resolved.findings)
    return None if bad else resolved.result_dir
