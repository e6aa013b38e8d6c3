"""Launch a resolved run: claim its directories, commit its code to a branch, hand it to the Runner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autoresearch.core.run.spec import DEADLINE, RunSpec
from autoresearch.core.run.targets import Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.launch.claim import claim, hide_records, prepare_result_dir, with_what_is_there
from autoresearch.lab.launch.runner_session import await_report, close_previous, start_runner
from autoresearch.lab.launch.snapshot_code import keep_code
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.lab.runs.adopt import record_failed_launch
from autoresearch.records import journal
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import locked
from autoresearch.runner.basics import failpoint
from autoresearch.trainers import ask

STOPPED = "interrupted: {0} was not launched, and nothing of it runs"
GOES_ON = "interrupted, but {0} was launched already and goes on: autoresearch wait {0}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that was started, or was already alive."""

    spec: RunSpec
    attach: str
    already: bool = False


def launch(resolved_run: ResolvedRun, target: Target | None = None) -> Launched:
    """Start the run, unless something speaks against it."""
    check(resolved_run)
    return start(resolved_run, target=target)


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
    visible = hide_records(resolved_run)  # before the first record
    run = claim(resolved_run)
    rundir = run.directory
    try:
        with locked(rundir.launching):
            failpoint("launch.claimed")
            prepare_result_dir(run)
            for text in (*(f"not hidden from git status: {path}" for path in visible), *remarks):
                journal.append(run.result_dir, text)
            server = ask.server(run.trainer_settings.trainer)
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
        ask.server(resolved_run.trainer_settings.trainer).check_port(resolved_run.spec)
