"""A run that waits to be started: the start, here or at another target; and taking it back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.launch.run_sandbox import BUBBLEWRAP, why_no_sandbox
from autoresearch.lab.launch.runner_session import (
    await_report,
    close_previous,
    keys_of_runner,
    nudge,
    start_session,
    write_spec,
)
from autoresearch.lab.resolve.resolved_run import ResolvedRun
from autoresearch.lab.runs.adopt import erase, record_failed_launch
from autoresearch.launchers import gpus
from autoresearch.launchers.tmux_session import SessionInfo
from autoresearch.records import evidence, recorded_run
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, write_environment
from autoresearch.runner.basics import SEAL, failpoint

STOPPED = "interrupted: {0} was not launched, and nothing of it runs"
GOES_ON = "interrupted, but {0} was launched already and goes on: autoresearch wait {0}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that was started, or was already alive."""

    spec: RunSpec
    attach: str
    already: bool = False


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that waits to be started. If this process dies, the Runner notices: we hold the flock of `launching`."""

    run: ResolvedRun
    session: SessionInfo | None  # session of the waiting Runner; None if that is started with the run
    ahead: bool  # it was prepared while another run still trained
    held: contextlib.ExitStack

    @property
    def spec(self) -> RunSpec:
        """As it was prepared."""
        return self.run.spec

    @property
    def rundir(self) -> RunDir:
        """Its run directory."""
        return self.run.directory

    def go(
        self,
        uuids: tuple[str, ...] = (),
        *,
        shares: int = 1,
        target: Target | None = None,
        deadline: float | None = None,
    ) -> Launched:
        """Start the trainer, on these GPUs if there are any; returns once the Runner has reported.

        `shares`: how many runs may share each of these GPUs. `deadline`: of the campaign, when the run is cut at the
        latest (wall clock). A remote run is only ordered, without waiting.
        """
        options, spec = self.run.options, self.spec
        if deadline is not None and (left := max(1.0, deadline - options.parts.clock())) < spec.limits.max_s:
            spec = replace(spec, limits=spec.limits.override(max_s=left), timed_by=DEADLINE)
        prepared = replace(self, run=replace(self.run, spec=spec))
        try:
            if spec != self.spec:
                write_spec(prepared.run, ahead=self.ahead)
            if self.ahead:
                options.parts.index.start(spec.run)
            target = target or options.target
            return prepared._go_here(uuids, shares) if target.is_local else prepared._order(target)
        except (AutoresearchError, OSError) as error:
            record_failed_launch(self.rundir, options.parts, str(error))
            raise
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(str(error) or GOES_ON.format(spec.run)) from None

    @contextlib.contextmanager
    def _held_until(self, signal_file: Path) -> Iterator[None]:
        """Hold our lock; if interrupted, report whether the run was started, while the Runner cannot take it yet."""
        with self.held:
            try:
                yield
            except KeyboardInterrupt:
                message = GOES_ON if signal_file.exists() else STOPPED
                raise KeyboardInterrupt(message.format(self.spec.run)) from None

    def _go_here(self, uuids: tuple[str, ...], shares: int) -> Launched:
        options, rundir = self.run.options, self.rundir
        with self._held_until(rundir.environment):
            environment = {**options.environment, **options.caches}
            spec = replace(self.spec, environment={**self.spec.environment, **options.caches})
            written = keys_of_runner(self.run, ahead=self.ahead)
            extra = dict(written)
            if uuids:
                extra["leases"] = [str(p) for p in gpus.make_leases(uuids, environment, shares)]
                extra["lease_shares"] = shares
                shown = gpus.GpuChoice(uuids, gpus.find()).variables
                environment |= shown
                spec = replace(spec, gpus=uuids, environment={**spec.environment, **shown})
            notes = self.run.resolved.blueprint.notes
            if options.sandbox and not why_no_sandbox(notes, spec.command, environment):
                environment = options.sandbox.environment(environment)
                extra |= options.sandbox.before(spec, environment)
                anew = spec.evaluate_place and f"{spec.evaluate_place} --bound"
                within = options.sandbox.writes(spec)
                spec = replace(spec, sandbox=BUBBLEWRAP, within=within, evaluate_place=anew)
            if spec.worktree:
                extra |= _checked_worktree(RecordedRun(rundir, spec))
            if (spec, extra) != (self.spec, written):
                recorded_run.write(rundir, spec, extra)
            session = self.session or start_session(replace(self.run, spec=spec))
            environment[SEAL] = evidence.new_key(spec.run)
            # Last: without it the Runner takes our end, which frees its lock, for a death and starts nothing.
            write_environment(rundir.environment, environment)
            failpoint("launch.ready")
        nudge(session)
        await_report(rundir, spec.session)
        if rundir.exit_record.exists():  # stopped meanwhile: nobody reads it, and it may hold secrets
            rundir.environment.unlink(missing_ok=True)
        close_previous(spec, options.parts)
        return Launched(spec, session.attach)

    def _order(self, target: Target) -> Launched:
        """Leave the run to the Follower of that target; a session of its own shows the mirrored log."""
        from autoresearch.lab.remote.order import follow, order

        parts = self.run.options.parts
        with self._held_until(self.rundir.order):
            ordered, session = order(self.run, target, parts, ahead=self.ahead)
            failpoint("launch.ordered")
        follow(ordered, parts)
        close_previous(ordered.spec, parts)
        return Launched(ordered.spec, session.attach)

    def withdraw(self) -> None:
        """Cancel the prepared run: its Runner exits, and no record remains."""
        self.rundir.spec.unlink(missing_ok=True)
        self.held.close()
        if self.session:
            nudge(self.session)
        failpoint("launch.withdrawn")
        erase(self.rundir, self.spec.run, self.run.options.parts)


def _checked_worktree(recorded: RecordedRun) -> dict[str, str]:
    """Check that the worktree holds the run's commit: now, or after its `prepare` commands if it has any."""
    from autoresearch.lab.ideas import worktree_check

    if recorded.spec.prepare:
        return {"before_training": worktree_check.command(recorded.rundir)}
    worktree_check.before(recorded)
    return {}
