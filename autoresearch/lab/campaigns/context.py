"""What the parts of a controller share of one campaign: its directory, its record, its code, and where to print."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.spec import CampaignSpec, Stand
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.rules import stand_at
from autoresearch.errors import AutoresearchError, NotFoundError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.campaign_history import CampaignHistory, history_of
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.launch_command import SHELL, unsynchronised
from autoresearch.records import campaign_records, events
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import FULL
from autoresearch.records.order_file import request_stop
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import failpoint

# Faults of the machine, such as a full disk, that stop a campaign and are not the fault of an idea.

_FULL_DISK = "disk_full"
_FILES = frozenset((_FULL_DISK, "unwritable", "unreadable", "state_unusable", "git_failed", "slot_stuck"))
_TMUX = frozenset(("no_tmux", "old_tmux", "tmux_failed", "tmux_unreachable", "session_lost"))
_CODES = _FILES | _TMUX | {"no_bash"}
_WORDS = ("No space left on device", "Disk quota exceeded")  # as git has them


def is_trouble(error: Exception) -> bool:
    """Whether the machine failed; then the run is tried again, and the failure does not count against the idea."""
    return getattr(error, "code", "") in _CODES or is_full(error)


def is_full(error: Exception) -> bool:
    """Whether the cause is a full disk, whoever reported it: nothing can be written, so the only remedy is to wait."""
    if isinstance(error, OSError):
        return error.errno in FULL
    if not isinstance(error, AutoresearchError):
        return False
    return error.code == _FULL_DISK or any(word in error.message for word in _WORDS)


# Requests that users make of a campaign from another terminal, and stop requests to its runs.

def ask(campaign_dir: CampaignDir, do: str, **fields: Any) -> None:
    """Queue a request for the controller, which looks every second; without one, it is read at the next start."""
    campaign_records.append(campaign_dir, "requested", request={"do": do, **fields})


def stop_run(rundir: RunDir, reason: str, *, cause: str = "stop_request") -> None:
    """Ask one run to end now; `cause` is the machine-readable reason for the exit record."""
    events.append(rundir.events, "stop_requested", reason=reason)
    request_stop(rundir, reason, cause=cause)


@dataclass(frozen=True, slots=True)
class CampaignContext:
    """One campaign under control. Nothing of it changes but the files; open it while holding `campaign_dir.lock`."""

    campaign_dir: CampaignDir
    history: CampaignHistory
    builder: CommitBuilder
    parts: Parts
    say: Callable[[str], None]

    @classmethod
    def open(cls, campaign_dir: CampaignDir, parts: Parts, say: Callable[[str], None]) -> CampaignContext:
        """Raises NotFoundError if the campaign's repository no longer exists."""
        history = history_of(campaign_dir)
        spec = history.state().spec
        checkout = repository.find(Path(spec.repository) / spec.codebase)
        if checkout is None:
            raise NotFoundError(
                f"the repository {spec.repository} is not there any more, and this campaign works in it",
                hint="move it back and `campaign resume`; where it is now, `autoresearch campaign` begins another one",
                code="repository_moved",
            )
        return cls(campaign_dir, history, CommitBuilder.of(spec, checkout), parts, say)

    @property
    def spec(self) -> CampaignSpec:
        """The spec as it was when the controller started; the rules in force now are those of `state`."""
        return self.builder.spec

    @property
    def state(self) -> CampaignState:
        """The campaign as its files are now. Raises NotFoundError if they were removed."""
        state = self.history.state()
        if not self.campaign_dir.spec.exists():  # looked for after they were read: they may be going just now
            raise NotFoundError(
                f"the records of {state.spec.name} were removed (`git clean`?)",
                hint="its runs go on until they end or reach their limits; its branches are in git",
                code="records_removed",
            )
        return state

    def idea(self, index: int) -> Idea:
        """The idea with this number."""
        return next(one for one in self.state.ideas if one.index == index)

    @property
    def stand(self) -> Stand:
        """The stop rules as they stand now."""
        return stand_at(self.state, self.parts.clock())

    def note(self, do: str, **fields: object) -> None:
        """Record what happened."""
        campaign_records.append(self.campaign_dir, do, t=self.parts.clock(), **fields)

    def write_documents(self) -> None:
        """Bring the documents that people and agents read up to date."""
        progress.write_documents(self.campaign_dir, self.state, self.stand)
        failpoint("campaign.told")


def in_its_shell(campaign_spec: CampaignSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment with the campaign's recorded shell; programs that this lacks are found where they are now.

    Agents and guards share it: their `uv run` changes no environment either.
    """
    environ = {**unsynchronised(Path(campaign_spec.repository, campaign_spec.codebase), environ), **environ}
    if not campaign_spec.shell:  # an older version started it
        return environ
    other = {name: value for name, value in environ.items() if name not in SHELL}
    paths = [path for one in (campaign_spec.shell, environ) for path in one.get("PATH", "").split(os.pathsep) if path]
    return {**other, **campaign_spec.shell, "PATH": os.pathsep.join(dict.fromkeys(paths))}
