"""What only some trainers have: a server beside the run, programs of their own, files around an agent that it trains.

The hooks of a server are in the order of a run: chosen by its notes, checked, planned, launched, and stopped if its
Runner died.
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


@runtime_checkable
class HasServer(Protocol):
    """A trainer that needs a server beside the run. What a method returns here is the answer of all other trainers."""

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

    def stop_server(self, run_dir: str, end_processes: Callable[[str, float], int], say: Say) -> bool:
        """End what is left of the server (`end_processes`: run id, grace in seconds); whether its port is free, too."""
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


@dataclass(frozen=True, slots=True)
class ScaffoldOptions:
    """What a person says about the agent, its data and its reward; "" for the default."""

    agent_command: str
    dataset: str
    reward: str = ""
    judge_model: str = ""
    judge_base_url: str = ""
    judge_api_key_env: str = ""
    eval_dataset: str = ""
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    id_column: str = "id"
    agent_timeout_s: float = 600.0
    model: str = ""
    python: str = ""
    swarm_url: str = ""


@dataclass(frozen=True, slots=True)
class Templates:
    """How templates become texts: by name and values, and a blueprint its text."""

    render: Callable[..., str]
    render_blueprint: Callable[[Blueprint], str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint. `base_url` with its /v1; "" means the stand-in model."""

    base_url: str = ""
    api_key: str = ""


@dataclass(frozen=True, slots=True)
class ScaffoldResult:
    """Results of the files: training items, the first of them, an episode's reward and seconds, remarks."""

    items: int
    first: Mapping[str, str]
    item: str
    reward: float
    seconds: float
    endpoint: str
    requests: int | None  # to the stand-in; None for an endpoint of the user's
    remarks: tuple[str, ...] = ()


@runtime_checkable
class HasScaffold(Protocol):
    """A trainer that trains the model behind a black-box agent. All directories are absolute."""

    def write_scaffold(
        self, scaffold_options: ScaffoldOptions, directory: str, base: str, templates: Templates, *, force: bool
    ) -> tuple[str, ...]:
        """Write all files, or none, and return their paths; relative paths of the options start at `base`.

        Raises UsageError for options that cannot work and ConflictError for files that exist.
        """

    def check_scaffold(self, directory: str, python: str, endpoint: Endpoint, item: str = "") -> ScaffoldResult:
        """Run the files with this interpreter, or that of their blueprint; BlueprintError for the first failure."""
