"""CampaignSpec: what a campaign pursues and within which rules, decided before its first run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.metrics.objective import Direction, Objective, same_metric
from autoresearch.core.run.targets import LOCAL, Target

NUMBER = re.compile(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d+)?\s*\Z")
TARGET = re.compile(r"\s*(?P<name>\S.*?)?\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*\Z")


class CampaignState(StrEnum):
    """What a campaign is doing; the last word of its journal, unless its controller is gone."""

    RUNNING = "running"
    PAUSED = "paused"  # somebody asked, the circuit breaker tripped, or there is no baseline
    WAITING = "waiting"  # the proposer is dry and no stop rule is met
    DRAINING = "draining"  # what runs may finish, nothing is begun
    ENDED = "ended"  # a stop rule is met, or somebody stopped it
    DEAD = "dead"  # neither ended nor a living controller: `campaign resume`


@dataclass(frozen=True, slots=True)
class Rules:
    """The stop rules; None is no such rule. They can be changed by `campaign set`, which is recorded."""

    count: int | None = None  # attempted ideas, the baseline included
    deadline: float | None = None  # wall clock, seconds since the epoch
    budget_gpu_hours: float | None = None
    target: float | None = None  # of the objective; in its direction
    budget_usd: float | None = None  # what the researcher may cost
    budget_tokens: int | None = None  # ... and read and write

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any(getattr(self, name) is not None for name in self.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class ProposerSpec:
    """Where hypotheses come from."""

    name: str  # queue, grid, random, tpe, agent; hybrid is agent and tpe
    space: Mapping[str, Any] = field(default_factory=dict)  # dotted recipe key -> what it may be
    queue: str = ""  # a folder of blueprints or a YAML list; absolute
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """Written once as `campaign.json`; all paths are absolute."""

    name: str
    slug: str
    directory: str  # ledger, journal and run directories
    repository: str  # root of the user's checkout
    codebase: str  # relative to it; "" is the root
    trees: str  # where the linked worktrees are
    blueprint: str  # the file it was started from
    blueprint_text: str
    prefix: str  # of the branches
    base_commit: str
    base: str  # how the base came about, in words
    recipe: str  # relative to the repository; "" if there is none
    interpreter: str
    result_dir: str  # each run gets a directory of its own in it
    objective: Objective
    proposer: ProposerSpec
    rules: Rules
    created: float
    timeout_s: float | None = None  # of each run; exceeding it is a failure
    replicates: int = 3  # of the baseline; the second repeats the first one's seed
    retests: int = 5  # further runs, at most, of an idea that looks better
    confirm: bool = True
    confirm_runs: int = 12  # at most, of both sides, at the end
    parallel: int = 1  # the slots of all places together
    places: tuple[Target, ...] = (LOCAL,)  # each says its slots; 0 only where there is one: `parallel`
    gpus_per_run: int = 0
    runs_per_gpu: int = 1
    gpus: tuple[str, ...] = ()  # UUIDs that may be leased
    gpu_busy_mib: int = 0  # a GPU of which others use so much is not taken; 0: 1 GiB, or 5 % if that is more
    include: tuple[str, ...] = ()  # untracked inputs, relative to the repository
    min_steps: int = 0  # a run with fewer steps is a smoke run
    prune: str = ""  # "", median or halving
    warmup: int = 0  # steps; the first validation after them is the first that may end a run
    tmux_socket: str = ""
    research: AgentSpec = field(default_factory=AgentSpec)
    gpu_check: bool = True  # False: recipes that ask for more GPUs than there are run all the same
    sources: Mapping[str, str] = field(default_factory=dict)  # key -> where its value came from

    def to_json(self) -> dict[str, Any]:
        """The JSON object of campaign.json."""
        return {**asdict(self), "places": [place.to_json() for place in self.places]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CampaignSpec:
        """Read what `to_json` wrote; keys of newer versions are ignored. Raises KeyError, TypeError, ValueError."""
        known = {name: _plain(record[name]) for name in cls.__dataclass_fields__ if name in record}
        objective = record["objective"]
        known["objective"] = Objective(objective["metric"], Direction(objective["direction"]))
        known["proposer"] = ProposerSpec(**record["proposer"])
        known["rules"] = Rules(**record["rules"])
        known["research"] = AgentSpec.from_json(record.get("research") or {})
        known["places"] = tuple(map(Target.from_json, record.get("places") or [LOCAL.to_json()]))
        return cls(**known)

    def with_rules(self, changes: Mapping[str, Any]) -> CampaignSpec:
        """The same campaign under changed rules. ValueError where one is no number."""
        known = {k: v for k, v in changes.items() if k in Rules.__dataclass_fields__}
        if wrong := [k for k, v in known.items() if not isinstance(v, int | float | None)]:
            raise ValueError(f"{wrong[0]} is no number: {known[wrong[0]]!r}")
        return replace(self, rules=replace(self.rules, **known))

    def branch(self, slug: str) -> str:
        """The branch of a hypothesis."""
        return f"{self.prefix}/{slug}"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def parse_target(text: str, objective: Objective) -> float:
    """The number in `0.8`, `>=0.8` or `pass@1>=0.8`. ValueError, one clause, where it contradicts the objective."""
    if plain := NUMBER.match(text):
        return _finite(float(plain[0]), text)
    found = TARGET.match(text)
    if not found:
        raise ValueError(f"{text!r} is no target: write it like '{objective.metric}>=0.8'")
    name = found["name"]
    if name and not same_metric(name, objective.metric):  # which is a ValueError where the expression is broken
        raise ValueError(f"the target is about {name!r}, and the objective (--metric) is {objective.metric!r}")
    upwards = found["sign"] in (">", ">=")
    if upwards != (objective.direction is Direction.MAXIMIZE):
        raise ValueError(f"{text!r} contradicts the direction: {objective.metric} is to be {objective.direction}d")
    return _finite(float(found["number"]), text)


def _finite(number: float, text: str) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no number that can be reached")
    return number
