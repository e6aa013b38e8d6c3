"""The hooks of a trainer whose engine is a server beside the run.

The order is that of a run: chosen by its notes, checked, planned, launched, and stopped if its Runner died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import Target

Say = Callable[[str], None]  # prints one line
EndProcesses = Callable[[str, float], int]
"""End what carries this run id, after so many seconds of grace; returns how many processes were ended."""


@runtime_checkable
class HasServer(Protocol):
    """A trainer that needs a server beside the run. What a method returns here is the answer of all other trainers."""

    def declared_by(self, notes: Notes) -> bool:
        """Whether these notes describe its server, so that the trainer need not be named."""
        return False

    def recorded_metric(self, metric: str, notes: Notes) -> str:
        """The name under which a metric of the notes or of the command line is recorded."""
        return metric

    def server_elsewhere(self, notes: Notes) -> bool:
        """Whether the server, with its GPUs, is not started by the run."""
        return False

    def check_server(
        self, blueprint: Blueprint, targets: Sequence[Target] = (), parallel: int = 1
    ) -> tuple[Finding, ...]:
        """Findings before anything is written; an error if the server cannot serve these targets or so many runs."""
        return ()

    def with_server(self, spec: RunSpec, blueprint: Blueprint) -> RunSpec:
        """The planned run with its server, the steps before and after the client, and the metric's name."""
        return spec

    def check_port(self, spec: RunSpec) -> None:
        """Raise ConflictError if the port of the server to be started is in use."""
        return

    def with_server_metrics(self, spec: RunSpec) -> RunSpec:
        """The run, in its final directories, with the metrics files of server and client."""
        return spec

    def start_command(self, spec: RunSpec) -> str:
        """The shell command that the Runner starts instead of the run's own; "" for that one."""
        return ""

    def stop_server(self, run_dir: str, end_processes: EndProcesses, say: Say) -> bool:
        """End the server and free its port, whatever is left of the run; whether nothing remains."""
        return True


@dataclass(frozen=True)
class NoServer(HasServer):
    """The hooks of a trainer without a server: nothing is added, nothing is to be ended."""

    trainer_name: str

    def check_server(
        self, blueprint: Blueprint, targets: Sequence[Target] = (), parallel: int = 1
    ) -> tuple[Finding, ...]:
        """A warning if the notes describe a server."""
        if blueprint.notes.swarm is None:
            return ()
        message = f"the `swarm_` notes are not read: the trainer is {self.trainer_name}"
        hint = "take `trainer:` out of the notes, or them"
        line = blueprint.lines.get("notes", 0)
        return (Finding(Severity.WARNING, "swarm_ignored", message, hint, blueprint.name, line),)


@dataclass(frozen=True, slots=True)
class HostServices:
    """What the programs of a trainer need of this machine, which the lab provides."""

    environ: Mapping[str, str]
    state_dir: str  # absolute; for what is known beyond one run
    start_session: Callable[[str, str, Sequence[str], str, Mapping[str, str]], Mapping[str, object]]
    """(tmux socket or "", session name, argv, directory, variables) -> the record for session.json."""
    tree_of: Callable[[str, str], str]
    """(directory, commit) -> the id of the commit's tree, the commit itself if there is no repository."""


@runtime_checkable
class HasPrograms(Protocol):
    """A trainer whose runs start programs of its own: `autoresearch swarm PROGRAM RUN_DIR`."""

    def run_program(self, program: str, run_dir: str, services: HostServices, say: Say) -> int:
        """Run `up` (before the client), `serve` (the server's session) or `client`; returns the exit code."""
