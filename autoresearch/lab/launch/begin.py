"""Begin an experiment: resolve and launch it once, however many commands request it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.lab.launch.experiment import Experiment, with_target_findings
from autoresearch.lab.launch.launch import Launched, launch
from autoresearch.lab.launch.mark_refused import refusals_marked
from autoresearch.lab.launch.snapshot_code import check_snapshot
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_sandbox
from autoresearch.lab.resolve.resolve_blueprint import read_bytes
from autoresearch.lab.resolve.resolved_run import RunOptions
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.lab.runs import sessions
from autoresearch.lab.runs.adopt import adopt
from autoresearch.records import journal, recorded_run
from autoresearch.records.rundir import RunDir

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
        check_snapshot(run)
        launched = launch(run)
    if experiment.note:
        journal.append(run.result_dir, f"note: {experiment.note}")
    remarks = [str(f) for f in run.remarks]
    if routine := len(run.findings) - len(remarks):
        remarks.append(f"{routine} routine remarks: autoresearch blueprint check {experiment.path}")
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
            return Launched(recorded_run.read(rundir), info.attach if info else "", already=True)
    return None
