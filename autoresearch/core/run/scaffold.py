"""The hooks of a trainer that can write the files around an agent which is given by its command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from autoresearch.core.blueprint.fields import BlueprintFields


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
    """How templates become texts: by name and values, and a blueprint from its fields."""

    render: Callable[..., str]
    render_blueprint: Callable[[BlueprintFields], str]


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
