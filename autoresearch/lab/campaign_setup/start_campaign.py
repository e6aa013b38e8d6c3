"""Create a proposed campaign, or continue one that ended, and start its controller.

The controller is in a tmux session of its own, where it outlives every terminal.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.campaign.spec import CONTINUED, CampaignPhase
from autoresearch.core.metrics.constraint import parse_constraint
from autoresearch.core.metrics.objective import parse
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable
from autoresearch.git_repo.checkout import hide
from autoresearch.lab.campaign_setup import campaign_registry
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.campaigns.campaign_status import fault_of, interrupted
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.host_check import check_local
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.runs import detached
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked, make_directory, read_json, write_json
from autoresearch.runner.basics import failpoint

if TYPE_CHECKING:
    from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign


def start(source: Path, pairs: Sequence[str], parts: Parts) -> CampaignDir:
    """Start the campaign of a file or a blueprint without asking. pairs: KEY=VALUE, laid over the file.

    Raises UsageError, BlueprintError, ConflictError or EnvironmentUnusable.
    """
    from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import preflight
    from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign

    campaign_file = read_campaign_file(str(source), {}, start=source.parent, now=parts.clock(), pairs=pairs)
    proposed = preflight(resolve_campaign(campaign_file, parts))
    campaign_dir = create(proposed, parts)
    start_and_wait(campaign_dir, parts)
    return campaign_dir


def create(proposed: ProposedCampaign, parts: Parts) -> CampaignDir:
    """Write the campaign down; from then on `campaign resume` can continue it after any crash."""
    from autoresearch.lab.campaign_setup.preflight import is_running

    campaign_dir, checkout = proposed.campaign_dir, proposed.base.checkout
    check_local(proposed.spec.tmux_socket, parts, checkout)
    spec = campaign_registry.register(proposed.spec, parts)  # first: it is found at once
    make_directory(campaign_dir.path)
    make_directory(Path(spec.result_dir))
    hide(checkout, campaign_dir.path.parent, Path(spec.result_dir))
    with locked(campaign_dir.path / "begin.lock"):
        if campaign_dir.spec.exists():  # another command was quicker
            raise is_running(spec.name)
        failpoint("begin.registered")
        campaign_records.write_spec(campaign_dir, proposed.base.with_commit(spec))
    failpoint("begin.begun")
    return campaign_dir


def continue_with(campaign_dir: CampaignDir, changes: Mapping[str, Any]) -> None:
    """Let a campaign that ended continue under other rules."""
    campaign_dir.flag.unlink(missing_ok=True)
    campaign_records.append(campaign_dir, "rules", **changes)
    campaign_records.append(campaign_dir, "told", how="")
    campaign_records.append(campaign_dir, "state", state=CampaignPhase.RUNNING.value, reason=CONTINUED)


READY_IN_S = 5.0  # a controller whose recovery takes longer is not waited for


def start_controller(campaign_dir: CampaignDir, parts: Parts) -> str:
    """Start the controller in a tmux session; returns, once it holds its lock, the command that attaches to it."""
    spec = campaign_records.read_spec(campaign_dir)
    try:
        parse(spec.objective.metric)
        all(map(parse_constraint, spec.constraints))
    except ValueError as error:  # of a campaign of an older version, which could calculate
        raise ConflictError(f"{spec.name} cannot go on: {error}", hint="start a new campaign") from None
    check_local(spec.tmux_socket, parts)
    with locked(campaign_dir.path / "start.lock"):
        if campaign_dir.controlled:
            raise ConflictError(
                f"another command has just started the controller of {spec.name}",
                fix=f"autoresearch campaign status {spec.name}",
            )
        token = new_token()
        session = naming.session_name(f"campaign-{naming.slugify(spec.slug)[:30]}", token)
        words = ("campaign", "control", str(campaign_dir.path))
        return detached.start(campaign_dir.path, words, session, f"campaign-{token}", parts, spec.tmux_socket)


def start_and_wait(campaign_dir: CampaignDir, parts: Parts) -> str:
    """Start the controller, and wait until it has recovered; returns the command that attaches to it.

    EnvironmentUnusable with the reason if it ends at once on an error of its own.
    """
    attach = start_controller(campaign_dir, parts)
    until = time.monotonic() + READY_IN_S
    while campaign_dir.controlled and time.monotonic() < until:
        if (read_json(campaign_dir.controller) or {}).get("ready"):
            break
        time.sleep(0.02)
    state = CampaignHistory(campaign_dir).state()
    if fault := fault_of(campaign_dir, state):
        raise EnvironmentUnusable(
            f"{state.spec.name} cannot go on: {fault}",
            hint=f"what it printed: {campaign_dir.log}",
            code="controller_failed",
        )
    return attach


def start_interrupted(parts: Parts) -> list[dict[str, str | None]]:
    """Start the controllers that a restart of this machine took, of every project; an `error` keeps no other from it.
    """
    found: list[dict[str, str | None]] = []
    for one in campaign_registry.known(parts):
        if interrupted(one.campaign_dir):
            found.append({"campaign": one.name, "directory": str(one.campaign_dir.path), "error": None})
            try:
                start_and_wait(one.campaign_dir, parts)
            except AutoresearchError as error:
                found[-1]["error"] = error.message
    return found


def answered(campaign_dir: CampaignDir, parts: Parts) -> None:
    """Wait a moment until the requests are answered, by the controller, or by one that is started for them.

    The one of a paused campaign leaves when nothing is left to do, perhaps just now.
    """
    settled(campaign_dir)
    if not campaign_dir.controlled and _unread(campaign_dir):
        start_and_wait(campaign_dir, parts)
        settled(campaign_dir)


SETTLED_IN_S = 3.0


def settled(campaign_dir: CampaignDir) -> None:
    """Wait a moment for the controller to have obeyed."""
    until = time.monotonic() + SETTLED_IN_S
    while campaign_dir.controlled and _unread(campaign_dir) and time.monotonic() < until:
        time.sleep(0.05)


def _unread(campaign_dir: CampaignDir) -> bool:
    state = CampaignHistory(campaign_dir).state()
    return len(state.requested) > state.requests


@contextlib.contextmanager
def in_control(campaign_dir: CampaignDir) -> Iterator[None]:
    """Hold the lock of a campaign's only controller; it ends with the process. ConflictError if another is alive.

    An error that ends the controller is recorded, where `campaign status` and `wait` find it.
    """
    with locked(campaign_dir.lock, blocking=False) as alone:
        if not alone:
            raise ConflictError(f"another controller of {campaign_dir.path.name} lives")
        record = {"pid": os.getpid(), "started": time.time(), "host": os.uname().nodename}
        write_json(campaign_dir.controller, record)
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(AutoresearchError, OSError):  # on a full disk the pane still shows it
                campaign_records.append(campaign_dir, "fault", reason=_reason(error))
                with campaign_dir.log.open("a", encoding="utf-8") as log:
                    log.write("".join(traceback.format_exception(error)))
            if isinstance(error, Exception):
                _announce(campaign_dir, error)
            raise


def _announce(campaign_dir: CampaignDir, error: Exception) -> None:
    """Tell who wants to know of a pause: nobody looks after the campaign from now on."""
    from autoresearch.lab.notices.campaign_notices import announce_fault

    with contextlib.suppress(AutoresearchError, OSError):
        announce_fault(campaign_dir, CampaignHistory(campaign_dir).state(), _reason(error))


def _reason(error: BaseException) -> str:
    """The error that ended a controller, on one line."""
    if isinstance(error, AutoresearchError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    if isinstance(error, KeyboardInterrupt):
        return "its controller was interrupted in its own session (Ctrl-C)"
    if isinstance(error, OSError) and error.strerror:
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(frame.filename).name}, line {frame.lineno}" for frame in last)
    return " ".join(f"internal error: {type(error).__name__}: {error}{where}".split())
