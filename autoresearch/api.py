"""The public Python interface: `import autoresearch as ar`.

    ar.runs()  ar.ledger(campaign)  ar.metrics(run)     pandas frames
    ar.run(blueprint)  ar.campaign(source)              started, and returned as objects to wait on

Names are those of the command line, and mean the same: the project of the current directory comes first. Nothing here
prints or asks. Errors are those of `autoresearch.errors`, each with `message`, `hint` and `code`. Docs: docs/api.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import AutoresearchError, ConflictError, UsageError
from autoresearch.lab.results import frames

if TYPE_CHECKING:
    from autoresearch.lab.results.frames import DataFrame

__all__ = [
    "AutoresearchError",
    "Campaign",
    "Run",
    "campaign",
    "ledger",
    "metrics",
    "run",
    "runs",
]

_POLL_S = 0.5


def runs(*, all: bool = False, limit: int = 1000) -> DataFrame:
    """The runs of this project, the newest first: a row for each, with what its ledger says once it is over.

    all: of every project of this account. limit: so many at most.
    """
    return frames.runs_frame(real_parts(), every_project=all, limit=limit)


def ledger(campaign: str = "") -> DataFrame:
    """The ledger of a campaign, or the one that a run is in: a row for each run of an idea, in the order of their ends.

    campaign: a name, a directory, a run, or a file; "" is the newest campaign here. The frame's
    `attrs` hold `campaign`, `path`, `metric`, `direction` and `units`. Raises NotFoundError.
    """
    return frames.ledger_frame(campaign, real_parts())


def metrics(run: str = "last") -> DataFrame:
    """The metrics of a run, alive or over: a row for each step or validation, a column for each metric.

    run: a run ID, a slug, a directory, or `last`. The frame's `attrs` hold `run`, `metric`, `direction` and `warnings`.
    Raises NotFoundError.
    """
    return frames.metrics_frame(run, real_parts())


def run(
    blueprint: str | Path,
    *,
    trainer: str = "",
    launcher: str = "",
    gpus: str = "",
    max_time: str = "",
    first_step_timeout: str = "",
    stall_timeout: str = "",
    grace: str = "",
    fix_of: str = "",
    note: str = "",
) -> Run:
    """Start one run, as `autoresearch run BLUEPRINT --detach` does; the arguments are its options.

    A run of this very blueprint that is under way is returned instead. It goes on when this process ends. Raises
    BlueprintError, UsageError, ConflictError or EnvironmentUnusable.
    """
    from autoresearch.lab import settings
    from autoresearch.lab.launch.experiment import begin
    from autoresearch.lab.resolve.resolve_run import RunOptions

    flags = {
        "trainer": trainer,
        "launcher": launcher,
        "gpus": gpus,
        "max_time": max_time,
        "first_step_timeout": first_step_timeout,
        "stall_timeout": stall_timeout,
        "grace": grace,
    }
    path = Path(blueprint).absolute()
    loaded = settings.load(path.parent, environ=os.environ, flags=flags)
    return Run(begin(path, RunOptions(loaded, real_parts(), fix_of=fix_of), note).launched.spec.run_dir)


def campaign(source: str | Path, **keys: Any) -> Campaign:
    """Start a campaign, as `autoresearch campaign start SOURCE --yes --detach` does.

    source: a campaign file or a blueprint. keys: those of a campaign file (`autoresearch config schema`), laid over
    it: `count=20, space={"lr": {"low": 1e-6, "high": 1e-4, "log": True}}`. It goes on when this process ends. Raises
    BlueprintError, UsageError, ConflictError or EnvironmentUnusable.
    """
    import json

    from autoresearch.lab.campaign_setup.start_campaign import start

    pairs = [f"{key}={json.dumps(value, default=str)}" for key, value in keys.items()]
    return Campaign(str(start(Path(source).absolute(), pairs, real_parts()).path))


class Run:
    """One run that was started. name: a run ID, a slug, a directory, or `last`. Raises NotFoundError."""

    def __init__(self, name: str = "last") -> None:
        from autoresearch.lab.runs import lookup

        recorded = lookup.recorded(name, real_parts())
        self._rundir, self._spec = recorded.rundir, recorded.spec

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.status}>"

    @property
    def name(self) -> str:
        """Its run ID, which commands take."""
        return self._spec.run

    @property
    def status(self) -> str:
        """starting, pending, running, evaluating, stopping, unreachable, ended or dead."""
        return self._rundir.state().value

    @property
    def result(self) -> dict[str, Any] | None:
        """What came of it, with the keys of `autoresearch wait --json` (docs/json.md); None while it runs."""
        from autoresearch.lab.runs.adopt import adopt

        _, outcome = adopt(self._rundir, real_parts())
        return None if outcome is None else outcome.payload()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end and its records, at most so many seconds; whether it has ended. It goes on regardless."""
        from autoresearch.lab.runs.adopt import kept_fresh
        from autoresearch.lab.runs.run_status import Watcher

        def ended() -> bool:
            return not self._rundir.state().lives and self.result is not None

        with kept_fresh(self._rundir, real_parts()):
            return _until(ended, timeout, Watcher([self._rundir]).wait)

    def stop(self, reason: str) -> None:
        """Ask it to end: TERM, grace, KILL to its whole process tree; `wait` for it. reason: for the records.

        Raises ConflictError if it is over.
        """
        from autoresearch.lab.runs.sessions import ask_to_stop

        if not self._rundir.state().lives:
            raise ConflictError(f"{self.name} is over", fix=f"autoresearch explain {self.name}")
        ask_to_stop(self._rundir, _reason(reason))

    def metrics(self) -> DataFrame:
        """See `autoresearch.metrics`."""
        return metrics(self.name)

    def report(self) -> Path:
        """The document that was written about it when it ended. Raises ConflictError while it runs."""
        from autoresearch.lab.runs.adopt import adopt

        _, outcome = adopt(self._rundir, real_parts())
        if outcome is None:
            raise ConflictError(f"{self.name} has not ended", fix=f"autoresearch wait {self.name}")
        return outcome.results


class Campaign:
    """One campaign. name: its name or its directory; "" is the newest here.

    Raises NotFoundError.
    """

    def __init__(self, name: str = "") -> None:
        from autoresearch.lab.campaign_setup import campaign_registry

        self._dir = campaign_registry.find(name, real_parts())

    def __repr__(self) -> str:
        return f"<Campaign {self.name}: {self.status}>"

    def _state(self) -> Any:
        from autoresearch.lab.campaigns.campaign_history import CampaignHistory

        return CampaignHistory(self._dir).state()

    @property
    def name(self) -> str:
        """Its name, which commands take."""
        return str(self._state().spec.name)

    @property
    def status(self) -> str:
        """running, paused, waiting, draining, ended, or dead: not ended, and without a controller."""
        from autoresearch.lab.campaigns.campaign_status import phase_now

        return str(phase_now(self._dir, self._state()))

    def ledger(self) -> DataFrame:
        """See `autoresearch.ledger`."""
        return ledger(str(self._dir.path))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, or needs somebody, at most so many seconds; whether it has ended.

        It returns early where it is paused or its controller is gone: `status` says which.
        """

        def stands() -> bool:
            return not self._dir.controlled or self.status == "paused"

        _until(stands, timeout, time.sleep)
        return self.status == "ended" and not self._dir.controlled

    def stop(self, reason: str) -> None:
        """Ask it to stop what runs, and to end; `wait` for it. Raises ConflictError if it has ended or is dead."""
        from autoresearch.lab.campaign_setup import start_campaign
        from autoresearch.lab.campaigns import context

        if (status := self.status) in ("ended", "dead"):
            words = "has ended" if status == "ended" else "has no controller"
            raise ConflictError(f"{self.name} {words}", fix=f"autoresearch campaign status {self.name}")
        context.ask(self._dir, "stop", reason=_reason(reason))
        if status == "paused":
            start_campaign.answered(self._dir, real_parts())

    def report(self) -> Path:
        """Write its report as it stands; the page."""
        from autoresearch.core.controller.rules import stand_at
        from autoresearch.lab.campaign_report.report import write_report

        state = self._state()
        written = write_report(self._dir, state, stand_at(state, real_parts().clock()))
        return written.page


def _reason(reason: str) -> str:
    if not reason.strip():
        raise UsageError("stop needs a reason: it goes into the records")
    return reason


def _until(condition: Callable[[], bool], timeout: float | None, pause: Callable[[float], object]) -> bool:
    """Whether a condition came true in so many seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while not condition():
        left = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
        if left <= 0:
            return False
        pause(left)
    return True
