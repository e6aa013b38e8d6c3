"""Start a planned run: claim its directories, commit its code to a branch, hand it to the Runner."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError, EnvironmentUnusable, NotFoundError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.exclude import exclude, pattern_for
from autoresearch.lab.agentjet import swarm_setup
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_place
from autoresearch.lab.resolve.nrl_check import check_nrl
from autoresearch.lab.resolve.run_plan import RunPlan, free_name
from autoresearch.lab.resolve.trainer_settings import there
from autoresearch.lab.runs.cancel import erase
from autoresearch.lab.runs.run_sandbox import BUBBLEWRAP, why_no_sandbox
from autoresearch.lab.runs.snapshot_code import keep_code
from autoresearch.launchers import gpus
from autoresearch.launchers.tmux_session import SessionInfo
from autoresearch.readers.read import mark_of, size_of
from autoresearch.records import evidence, finish_flag, journal, ledger, spec_file
from autoresearch.records.appending import make_directory
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import IndexEntry, state_home
from autoresearch.records.rundir import RunDir, locked, write_atomically, write_json
from autoresearch.records.secrets import masked_file
from autoresearch.runner.basics import SEAL

RUNNER = Path(__file__).parents[2] / "runner"  # a directory with a __main__.py is a program
STOPPED = "interrupted: {0} was not launched, and nothing of it runs"
GOES_ON = "interrupted, but {0} was launched already and goes on: autoresearch wait {0}"
REPORT_IN_S = 15.0  # seconds; usually a Runner reports within milliseconds, a loaded machine takes longer


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that was started, or was already alive."""

    spec: RunSpec
    attach: str
    already: bool = False


def launch(plan: RunPlan, parts: Parts) -> Launched:
    """Start the run; from the first claim on, every failure ends in records (see `lab.runs.adopt`)."""
    return prepare(plan, parts).go()


def prepare(plan: RunPlan, parts: Parts, *, ahead: bool = False, runner: bool = True) -> Prepared:
    """Everything but the start: directories claimed, code committed, a Runner waiting in its session.

    `ahead`: it is prepared while another run still trains, and leaves no record if it is never started.
    `runner` False: its target is chosen at the start, so no Runner is started before.
    """
    plan.refuse()
    check_place(plan.settings.text("tmux_socket"), parts, plan.checkout)
    if plan.place.is_local:
        check_nrl(plan.spec.command, plan.spec.cwd, plan.environment)
    if not ahead:  # when prepared ahead, the previous run still has the port
        swarm_setup.refuse_taken_port(plan.spec)
    visible = _hide_records(plan)  # before the first record
    spec = swarm_setup.located(_claim(plan, parts, ahead=ahead))
    rundir = RunDir(Path(spec.run_dir))
    held = contextlib.ExitStack()
    try:
        held.enter_context(locked(rundir.launching))
        failpoint("launch.claimed")
        _prepare_result_dir(plan, spec)
        for text in visible:
            journal.append(Path(spec.result_dir), f"not hidden from git status: {text}")
        spec = _with_what_is_there(spec)
        spec_file.write(rundir, spec, _extra(plan, spec, ahead=ahead))
        waits = runner and plan.place.is_local
        info = _start_session(plan, spec, rundir, parts) if waits else None  # gets ready while the code is kept
        failpoint("launch.session_started")
        spec = spec if plan.member else keep_code(plan, spec)
        failpoint("launch.branch_made")
        spec_file.write(rundir, spec, _extra(plan, spec, ahead=ahead))
        finish_flag.reserve(Path(spec.result_dir))
    except (AutoresearchError, OSError) as error:
        if ahead:  # nothing was started; the caller handles the failure
            rundir.spec.unlink(missing_ok=True)
            held.close()
            erase(rundir, spec.run, parts)
            raise
        held.close()
        _record_failure(rundir, parts, str(error))
        raise
    except BaseException as error:
        held.close()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(STOPPED.format(spec.run)) from None
        raise
    return Prepared(plan, spec, info, rundir, _extra(plan, spec, ahead=ahead), parts, held)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that waits to be started. If this process dies, the Runner notices: we hold the flock of `launching`."""

    plan: RunPlan
    spec: RunSpec
    session: SessionInfo | None  # session of the waiting Runner; None if that is started with the run
    rundir: RunDir
    extra: Mapping[str, object]
    parts: Parts
    held: contextlib.ExitStack

    def go(self, uuids: tuple[str, ...] = (), *, shares: int = 1, place: Target | None = None) -> Launched:
        """Start the trainer, on these GPUs if there are any; returns once the Runner has reported.

        `shares`: how many runs may share each of these GPUs. A remote run is only ordered, without waiting.
        """
        place = place or self.plan.place
        try:
            if self.extra["await_launch"] == "ahead":
                self.parts.index.start(self.spec.run)
            return self._go_here(uuids, shares) if place.is_local else self._order(place)
        except (AutoresearchError, OSError) as error:
            _record_failure(self.rundir, self.parts, str(error))
            raise
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(str(error) or GOES_ON.format(self.spec.run)) from None

    @contextlib.contextmanager
    def _held_until(self, word: Path) -> Iterator[None]:
        """Hold our lock; if interrupted, report whether the run was started, while the Runner cannot take it yet."""
        with self.held:
            try:
                yield
            except KeyboardInterrupt:
                raise KeyboardInterrupt((GOES_ON if word.exists() else STOPPED).format(self.spec.run)) from None

    def _go_here(self, uuids: tuple[str, ...], shares: int) -> Launched:
        spec, rundir, caches = self.spec, self.rundir, self.plan.caches
        environment, extra = {**self.plan.environment, **caches}, dict(self.extra)
        with self._held_until(rundir.environment):
            if uuids:
                extra["leases"] = [str(p) for p in gpus.make_leases(uuids, environment, shares)]
                extra["lease_shares"] = shares
                environment |= gpus.variables(uuids)
                spec = replace(spec, gpus=uuids, environment={**spec.environment, **gpus.variables(uuids)})
            spec = replace(spec, environment={**spec.environment, **caches})
            if self.plan.sandbox and not self._why_no_sandbox(environment):
                environment = self.plan.sandbox.environment(environment)
                extra |= self.plan.sandbox.before(spec, environment)
                spec = replace(spec, sandbox=BUBBLEWRAP)
            if spec.worktree:
                extra |= _checked_worktree(rundir, spec)
            if (spec, extra) != (self.spec, self.extra):
                spec_file.write(rundir, spec, extra)
            session = self.session or _start_session(self.plan, spec, rundir, self.parts)
            environment[SEAL] = evidence.new_key(spec.run)
            # Last: without it the Runner takes our end, which frees its lock, for a death and starts nothing.
            write_atomically(rundir.environment, _environment_bytes(environment), mode=0o600, durable=False)
            failpoint("launch.ready")
        _nudge(session)
        _await_report(rundir, spec)
        if rundir.exit_record.exists():  # stopped meanwhile: nobody reads it, and it may hold secrets
            rundir.environment.unlink(missing_ok=True)
        _close_previous(spec, self.parts)
        return Launched(spec, session.attach)

    def _why_no_sandbox(self, environment: Mapping[str, str]) -> str:
        return why_no_sandbox(self.plan.resolved.blueprint.notes, self.spec.command, environment)

    def _order(self, place: Target) -> Launched:
        """Leave the run to the Follower of that target; a session of its own shows the mirrored log."""
        from autoresearch.lab.remote.order import order
        from autoresearch.lab.remote.start_follower import attend
        from autoresearch.launchers.registry import pinned

        place = pinned(place, self.parts.environ)
        spec, socket = replace(self.spec, launcher=place.label), self.plan.settings.text("tmux_socket")
        with self._held_until(self.rundir.order):
            spec_file.write(self.rundir, spec, self.extra)
            environment = _environment_bytes(self.plan.environment)
            write_atomically(self.rundir.environment, environment, mode=0o600, durable=False)
            session = order(self.plan, spec, self.rundir, place, self.parts)
            failpoint("launch.ordered")
        with contextlib.suppress(AutoresearchError, OSError):  # it is ordered: whoever looks at it next tries again
            attend(place, self.parts, socket)
        _close_previous(spec, self.parts)
        return Launched(spec, session.attach)

    def withdraw(self) -> None:
        """Cancel the prepared run: its Runner exits, and no record remains."""
        self.rundir.spec.unlink(missing_ok=True)
        self.held.close()
        if self.session:
            _nudge(self.session)
        failpoint("launch.withdrawn")
        erase(self.rundir, self.spec.run, self.parts)


def _checked_worktree(rundir: RunDir, spec: RunSpec) -> dict[str, str]:
    """Check that the worktree holds the run's commit: now, or after its `prepare` commands if it has any."""
    from autoresearch.lab.campaigns import worktree_check

    if spec.prepare:
        return {"before_training": worktree_check.command(rundir)}
    worktree_check.before(rundir, spec)
    return {}


def _nudge(session: SessionInfo) -> None:
    """Wake the Runner, which otherwise polls the lock; SIGCHLD harms no other process."""
    with contextlib.suppress(OSError):
        os.kill(session.pane_pid, signal.SIGCHLD)


def _record_failure(rundir: RunDir, parts: Parts, reason: str) -> None:
    """Record a launch that failed half-way as a run that ended: with its row and its flag."""
    from autoresearch.lab.runs.adopt import adopt, bury

    bury(rundir, reason=f"the launch stopped: {reason}")
    adopt(rundir, parts)


def _claim(plan: RunPlan, parts: Parts, *, ahead: bool) -> RunSpec:
    """Claim a run directory and the idea's index, under the ledger's lock."""
    result_dir = Path(plan.spec.result_dir)
    make_directory(result_dir)
    journal.claim(result_dir, plan.spec.run, lambda run: _lives(parts, run))
    directory = plan.campaign_dir
    make_directory(directory)
    with locked(directory / ".claims"):
        experiment = free_name(directory, plan.spec.experiment)
        index = plan.spec.index if plan.spec.fix_of or plan.member else _next_index(plan.spec, directory)
        spec = replace(plan.spec, experiment=experiment, run_dir=str(directory / experiment), index=index)
        # First: from here on `adopt` finds whatever a kill leaves.
        parts.index.add(_entry(plan, spec, parts), prepared=ahead)
        try:
            (directory / experiment).mkdir()
            spec_file.write(RunDir(directory / experiment), spec, _extra(plan, spec, ahead=ahead))
        except (EnvironmentUnusable, OSError):  # no run without a spec: after a full disk, restore the former state
            with contextlib.suppress(OSError):
                (directory / experiment).rmdir()
            parts.index.discard_live(spec.run)
            raise
    return spec


def _next_index(spec: RunSpec, directory: Path) -> int:
    """One more than the highest index of a row or a run directory here."""
    taken = [ledger.Ledger(Path(spec.ledger)).next_index() - 1]
    for other in directory.glob("*/spec.json"):
        try:
            taken.append(spec_file.read(RunDir(other.parent)).index)
        except (OSError, ValueError, AutoresearchError):
            continue  # a run directory whose claim was never finished
    return max(taken) + 1


def _lives(parts: Parts, run: str) -> bool | None:
    """Whether a run lives; None if the index does not know it, or its spec is not written (yet)."""
    entry = parts.index.by_id(run)
    rundir = RunDir(Path(entry.run_dir)) if entry and entry.run == run else None
    return rundir.state().lives if rundir and rundir.spec.exists() else None


def _entry(plan: RunPlan, spec: RunSpec, parts: Parts) -> IndexEntry:
    project, typed_in = _projects(plan, parts)
    return IndexEntry(
        run=spec.run,
        slug=spec.slug,
        session=spec.session,
        run_dir=spec.run_dir,
        result_dir=spec.result_dir,
        blueprint=spec.blueprint,
        blueprint_sha=spec.blueprint_sha,
        created=spec.created,
        project=project,
        started_in=typed_in,
    )


def _projects(plan: RunPlan, parts: Parts) -> tuple[str, str]:
    """The project of the code, and the one in which the run was started; slugs are looked up in both."""
    if plan.member is not None:
        from autoresearch.lab.campaign_setup import campaign_registry

        directory = plan.member.directory
        typed_in = campaign_registry.started_in(CampaignDir(directory), plan.member.campaign, parts)
        return str(repository.project_of(directory)), typed_in
    home = plan.resolved.codebase if plan.resolved.files.here else plan.resolved.path.parent
    project = plan.checkout.project if plan.checkout else repository.project_of(home)
    typed_in = ""
    with contextlib.suppress(NotFoundError):
        typed_in = str(repository.current_project())
    return str(project), typed_in


def _prepare_result_dir(plan: RunPlan, spec: RunSpec) -> None:
    """Move the records of an earlier run aside, then create the experiment journal before all else."""
    result_dir = Path(spec.result_dir)
    for path in journal.begin(result_dir, spec, own_outputs(spec)):
        journal.append(result_dir, f"moved aside, from an earlier run: {path}")
    for finding in plan.remarks:
        journal.append(result_dir, str(finding))
    if plan.terms.copy:
        place, text = plan.terms.copy
        place.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        write_atomically(place, data, mode=0o644 if masked_file(data, yaml=True) == data else 0o600)
        journal.append(result_dir, f"the recipe is read from a copy that has metrics written down: {place}")


def _with_what_is_there(spec: RunSpec) -> RunSpec:
    """The run with the present sizes of its metrics files, whose content is not its own."""
    held = tuple(size_of(source) for source in spec.sources)
    marks = tuple(mark_of(source, size) for source, size in zip(spec.sources, held, strict=True))
    return replace(spec, source_offsets=held, source_marks=marks)


def own_outputs(spec: RunSpec) -> tuple[Path, ...]:
    """Files in the result directory that the trainer will write metrics to; every match of a pattern."""
    inside = Path(spec.result_dir)
    own = [source.path for source in spec.sources if inside in Path(source.path).parents]
    return tuple(found for path in own for found in there(Path(path)))


def _hide_records(plan: RunPlan) -> list[str]:
    """Exclude our files inside the repository from `git status`; returns the reasons where that fails."""
    checkout = plan.checkout
    if not plan.resolved.files.here:  # the code is remote, the records are beside the blueprint
        checkout = repository.find(plan.resolved.path.parent)
    visible: list[str] = []
    if checkout is None:
        return visible
    for path in (plan.campaign_dir.parent, Path(plan.spec.result_dir)):
        if pattern := pattern_for(checkout, path):
            try:
                exclude(checkout, pattern)
            except EnvironmentUnusable as error:
                visible.append(error.message)
    return visible


def _extra(plan: RunPlan, spec: RunSpec, *, ahead: bool) -> dict[str, object]:
    """The keys of spec.json that only the Runner reads."""
    python = sys.executable
    return {
        "journal": str(Path(spec.result_dir) / journal.NAME),
        "collector": [python, "-P", "-m", "autoresearch", "collect", spec.run_dir],
        "leases": [str(p) for p in gpus.make_leases(spec.gpus, plan.environment)],
        "await_launch": "ahead" if ahead else "now",
        "first_step": plan.resolved.blueprint.notes.first_step,
        "start": swarm_setup.start_command(spec),
    }


def _environment_bytes(environment: Mapping[str, str]) -> bytes:
    return b"\0".join(f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in environment.items())


def _start_session(plan: RunPlan, spec: RunSpec, rundir: RunDir, parts: Parts) -> SessionInfo:
    launcher = parts.launcher(plan.settings.text("tmux_socket"))
    argv = [sys.executable, "-S", "-E", "-s", str(RUNNER), str(rundir.path)]
    marker = {"AUTORESEARCH_RUN_ID": spec.run, "XDG_STATE_HOME": str(state_home(parts.environ).parent)}
    if parts.environ.get("AUTORESEARCH_FAILPOINT"):
        marker["AUTORESEARCH_FAILPOINT"] = parts.environ["AUTORESEARCH_FAILPOINT"]
    info = launcher.start(spec.session, argv, cwd=Path(spec.cwd), environment=marker)
    write_json(rundir.session, asdict(info), durable=False)
    return info


def _close_previous(spec: RunSpec, parts: Parts) -> None:
    """Close the pane of a directory's previous run: it stays readable until its next run starts."""
    from autoresearch.lab.runs.sessions import close_session

    for entry in parts.index.by_directory(spec.result_dir):
        rundir = RunDir(Path(entry.run_dir))
        if entry.run != spec.run and rundir.state() is RunState.ENDED:
            close_session(rundir, parts)


def _await_report(rundir: RunDir, spec: RunSpec, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Return once the Runner holds its lock; tmux's own exit code 0 proves nothing in a sandbox."""
    deadline = clock() + REPORT_IN_S
    pause = 0.002
    while clock() < deadline:
        if rundir.runner.exists() or rundir.exit_record.exists():
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    raise EnvironmentUnusable(
        f"the session {spec.session} was started but its Runner never reported",
        hint="a sandbox may end sessions with the command that made them; see `autoresearch doctor`",
        fix="autoresearch doctor",
    )
