"""Launch a resolved run: claim its directories, commit its code to a branch, hand it to the Runner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable
from autoresearch.git_repo import branches
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.launch.claim import claim, prepare_result_dir, with_what_is_there
from autoresearch.lab.launch.runner_session import await_report, close_previous, start_runner
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.lab.runs.adopt import record_failed_launch
from autoresearch.records import journal
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked, masked_file
from autoresearch.runner.basics import failpoint
from autoresearch.trainers import registry

if TYPE_CHECKING:
    from autoresearch.git_repo.snapshot import Snapshot

STOPPED = "interrupted: {0} was not launched, and nothing of it runs"
GOES_ON = "interrupted, but {0} was launched already and goes on: autoresearch wait {0}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that was started, or was already alive."""

    spec: RunSpec
    attach: str
    already: bool = False


def start(
    resolved_run: ResolvedRun,
    uuids: tuple[str, ...] = (),
    *,
    shares: int = 1,
    target: Target | None = None,
    deadline: float | None = None,
    remarks: Iterable[str] = (),
) -> Launched:
    """Claim, write, start, in this order; returns once the Runner has reported.

    From the claim on, every failure ends in records (see `lab.runs.adopt`). `uuids`: of its GPUs, each shared by so
    many runs (`shares`). `deadline`: of the campaign, when the run is cut at the latest (wall clock). `remarks`: for
    its experiment log. A remote run of a campaign is only ordered.
    """
    target, parts = target or resolved_run.options.target, resolved_run.options.parts
    run = claim(resolved_run)
    rundir = run.directory
    try:
        with locked(rundir.launching):
            failpoint("launch.claimed")
            prepare_result_dir(run)
            for text in remarks:
                journal.append(run.result_dir, text)
            server = registry.server(run.trainer_settings.trainer)
            spec = with_what_is_there(server.with_server_metrics(run.spec))
            if deadline is not None and (left := max(1.0, deadline - parts.clock())) < spec.limits.max_s:
                spec = replace(spec, limits=spec.limits.override(max_s=left), timed_by=DEADLINE)
            run = replace(run, spec=spec)
            run = run if run.options.campaign_run else keep_code(run)
            failpoint("launch.branch_made")
            if target.is_local:
                run, session = start_runner(run, uuids, shares)
                attach = session.attach
            else:
                run, attach = _order(run, target)
        if target.is_local:
            await_report(rundir, run.spec.session)
        close_previous(run.spec, parts)
        return Launched(run.spec, attach)
    except (AutoresearchError, OSError) as error:
        record_failed_launch(rundir, parts, str(error))
        raise
    except KeyboardInterrupt:
        if not (rundir.session if target.is_local else rundir.order).exists():
            record_failed_launch(rundir, parts, "interrupted")
        never_ran = rundir.exit_record.exists() and not rundir.runner.exists()
        raise KeyboardInterrupt((STOPPED if never_ran else GOES_ON).format(run.spec.run)) from None


def _order(run: ResolvedRun, target: Target) -> tuple[ResolvedRun, str]:
    """Order it there, and submit a lone run; that of a campaign is submitted as soon as its controller looks at it."""
    from autoresearch.lab.remote.order import order, submit

    parts = run.options.parts
    ordered = order(run, target, parts)
    of_campaign = CampaignDir(ordered.campaign_dir).spec.exists()
    return ordered, "" if of_campaign else submit(ordered.directory, parts)


def check(resolved_run: ResolvedRun, *, ahead: bool = False) -> None:
    """Raise an AutoresearchError for whatever prevents the run, before anything is written.

    `ahead`: it starts when another run, which has the port, is over.
    """
    resolved_run.refuse()
    options = resolved_run.options
    check_local(None if ahead else options.tmux_socket, options.parts, options.checkout)
    if not ahead:  # when prepared ahead, the previous run still has the port
        registry.server(resolved_run.trainer_settings.trainer).check_port(resolved_run.spec)


# Its code is committed to a branch that holds exactly it, without touching the checkout.

MOST_EDITED = 20  # paths that are recorded


def keep_code(resolved_run: ResolvedRun) -> ResolvedRun:
    """Create the branch that holds exactly the code that runs; if impossible, record why and continue."""
    spec = _keep(resolved_run)
    if spec.no_snapshot:
        journal.append(Path(spec.result_dir), f"no branch: {spec.no_snapshot}")
    return replace(resolved_run, spec=spec)


def _keep(resolved_run: ResolvedRun) -> RunSpec:
    spec, checkout = resolved_run.spec, resolved_run.options.checkout
    result_dir = Path(spec.result_dir)
    if checkout is None:
        return replace(spec, branch="", no_snapshot=resolved_run.options.no_git)
    parent = branches.branch_commit(checkout, spec.branch) if spec.fix_of else None
    try:
        shot = _snapshot(resolved_run, checkout, parent)
        branch = _publish(spec, checkout, shot, parent)
    except (ConflictError, EnvironmentUnusable) as error:
        return replace(spec, branch="", no_snapshot=error.message)
    recipe = _name_in_commit(checkout, "recipe", resolved_run.resolved.recipe) if resolved_run.resolved.recipe else ""
    left_out = tuple(str(item) for item in shot.left_out)
    journal.append(result_dir, f"branch {branch} at {shot.commit[:12]} holds the code that runs")
    for item in left_out:
        journal.append(result_dir, f"left out of the snapshot: {item}")
    spec = replace(spec, branch=branch, commit=shot.commit, parent_commit=shot.parent)
    omitted = {item.path for item in shot.left_out}
    edited = tuple(path for path in shot.dirty if path not in omitted)[:MOST_EDITED]
    return replace(spec, recipe_in_commit=recipe, left_out=left_out, edited=edited)


def _snapshot(resolved_run: ResolvedRun, checkout: Checkout, parent: str | None) -> Snapshot:
    from autoresearch.git_repo.snapshot import snapshot

    apart = [resolved_run.campaign_dir.parent, Path(resolved_run.spec.result_dir)]
    apart += [checkout.root / path for path in resolved_run.resolved.blueprint.notes.hide]
    extra = _outside_files(resolved_run, checkout)
    return snapshot(checkout, message=_message(resolved_run.spec), extra=extra, leave_out=apart, parent=parent)


def _publish(spec: RunSpec, checkout: Checkout, shot: Snapshot, parent: str | None) -> str:
    if parent:
        try:
            branches.advance_branch(checkout, spec.branch, shot.commit, parent)
            return spec.branch
        except ConflictError as moved:  # checked out or moved by somebody else: the fix gets a new branch
            journal.append(Path(spec.result_dir), moved.message)
    return branches.claim_branch(checkout, spec.branch, shot.commit)


def _message(spec: RunSpec) -> str:
    subject = f"{spec.slug}: follow-up fix of {spec.fix_of}" if spec.fix_of else f"{spec.slug}: run {spec.run}"
    return f"{subject}\n\n{spec.purpose}\n\nCommand: {spec.command}\n"


def _outside_files(resolved_run: ResolvedRun, checkout: Checkout) -> dict[str, bytes]:
    """The blueprint and the recipe, masked; inside the repository they replace the originals in the commit."""
    named = (("blueprint", resolved_run.resolved.path), ("recipe", resolved_run.resolved.recipe))
    return {
        _name_in_commit(checkout, kind, path): masked_file(path.read_bytes(), yaml=kind == "recipe")
        for kind, path in named
        if path is not None
    }


def _name_in_commit(checkout: Checkout, kind: str, path: Path) -> str:
    return _inside(checkout, path) or f".autoresearch/{kind}/{path.resolve().name}"


def masked_files(checkout: Checkout, paths: Iterable[Path]) -> dict[str, bytes]:
    """The files with secrets among these files and folders, masked for the commit."""
    found: dict[str, bytes] = {}
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            name = _inside(checkout, file)
            if name and file.is_file() and (masked := masked_file(data := file.read_bytes())) != data:
                found[name] = masked
    return found


def _inside(checkout: Checkout, path: Path) -> str:
    real, root = path.resolve(), checkout.root.resolve()
    return str(real.relative_to(root)) if root in real.parents else ""
