"""A blueprint and the options of the command line: the run that they would start."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_remote
from autoresearch.lab.resolve.resolve_run import resolve_run
from autoresearch.lab.resolve.resolved_run import ResolvedRun, RunOptions
from autoresearch.lab.settings import Settings


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
        from autoresearch.lab.runs import sessions

        recorded = sessions.recorded(self.fix_of, self.parts)
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
        from autoresearch.lab.remote_files.remote_host import search_for  # imports what sends files

        search = search_for(target, spec.interpreter, Path(spec.cwd), spec.prepare)
    found = check_remote(target, resolved_run.options.parts, search)
    return replace(resolved_run, findings=(*resolved_run.findings, *found))
