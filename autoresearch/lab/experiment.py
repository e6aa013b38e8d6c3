"""Begin an experiment: plan it and launch it, once, however many commands ask for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.run import RunSpec, RunState
from autoresearch.errors import ConflictError
from autoresearch.lab import sessions
from autoresearch.lab.adopt import adopt
from autoresearch.lab.fit import check_far, check_sandbox
from autoresearch.lab.launch import Launched, launch
from autoresearch.lab.parts import Parts
from autoresearch.lab.plan import Plan, Wishes, key_of, make_plan
from autoresearch.lab.preflight import read_blueprint
from autoresearch.lab.settings import Settings
from autoresearch.records import journal
from autoresearch.records.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Experiment:
    """A blueprint and what the command line adds to it."""

    path: Path
    settings: Settings
    parts: Parts
    fix_of: str = ""
    note: str = ""

    def plan(self) -> Plan:
        """Everything decided, nothing touched."""
        return make_plan(
            self.path,
            self.settings,
            self.parts,
            Wishes(self.settings.text("trainer"), self.settings.text("gpus"), self._fixed()),
        )

    def _fixed(self) -> RunSpec | None:
        if not self.fix_of:
            return None
        rundir = sessions.find(self.fix_of, self.parts)
        spec = sessions.spec_of(rundir)
        if rundir.state() not in (RunState.ENDED, RunState.DEAD):
            raise ConflictError(
                f"{spec.run} still runs; only a run that is over can be repaired",
                fix=f"autoresearch wait {spec.run}",
            )
        if Path(spec.blueprint) != self.path.resolve():
            raise ConflictError(
                f"{spec.run} ran {spec.blueprint}, not {self.path}: a repair is a rerun of the same blueprint",
                fix=f"autoresearch run {shlex.quote(spec.blueprint)} --fix-of {spec.run}",
            )
        return spec


@dataclass(frozen=True, slots=True)
class Begun:
    """A living run, and what a person should know about how it came to be."""

    launched: Launched
    remarks: tuple[str, ...]


def begin(experiment: Experiment) -> Begun:
    """Launch the run, or return the one that this very blueprint is running already."""
    parts = experiment.parts
    read_blueprint(experiment.path.absolute())  # before the lock: what is no blueprint leaves no trace
    check_sandbox(parts)  # before the index: its directory may be one that the sandbox forbids
    with parts.index.launch_lock(key_of(experiment.path)):
        plan = experiment.plan()
        running = _running(plan, parts)
        if running is not None:
            return Begun(running, ())
        _settle(plan.spec.result_dir, parts)
        plan = asked(plan, parts)
        launched = launch(plan, parts)
    if experiment.note:
        journal.append(Path(launched.spec.result_dir), f"note: {experiment.note}")
    remarks = [str(f) for f in plan.remarks]
    if routine := len(plan.findings) - len(remarks):
        remarks.append(f"{routine} routine remarks: autoresearch blueprint check {experiment.path}")
    if not launched.spec.branch:
        remarks.append(f"no branch was made: {plan.no_git or 'see the experiment log'}; going on without")
    return Begun(launched, tuple(remarks))


def asked(plan: Plan, parts: Parts) -> Plan:
    """The plan, with what its place says of itself now; refused where a run could not be sent there."""
    plan.refuse()
    return replace(plan, findings=(*plan.findings, *check_far(plan.place, parts)))


def _settle(result_dir: str, parts: Parts) -> None:
    """A dead run's records are finished before another run moves them aside."""
    for entry in parts.index.live():
        if entry.result_dir == result_dir and RunDir(Path(entry.run_dir)).spec.exists():
            adopt(RunDir(Path(entry.run_dir)), parts)


def _running(plan: Plan, parts: Parts) -> Launched | None:
    for entry in parts.index.find_live_by_blueprint(plan.spec.blueprint, plan.spec.blueprint_sha):
        rundir = RunDir(Path(entry.run_dir))
        if not rundir.spec.exists():
            continue  # its launch ended before it had one, or its directory was removed
        if adopt(rundir, parts)[0].lives:
            info = sessions.session_info(rundir)
            return Launched(sessions.spec_of(rundir), info.attach if info else "", already=True)
    return None
