"""CampaignSpec: the goal and the rules of a campaign, fixed before its first run; how much is left until one is met."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.metrics.objective import Direction, Objective, same_metric
from autoresearch.core.run.extra_paths import ExtraPath, Way
from autoresearch.core.run.json_record import from_record
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.core.text.numbers import number, span
from autoresearch.core.text.regex import later
from autoresearch.errors import UsageError

AT_LEAST = later(r"\s*(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*%?\s*\Z")
TARGET = later(r"\s*(?:(?P<name>\S.*?)?\s*(?P<sign>>=|<=|>|<)\s*)?(?P<number>[-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*\Z")

CHECKED = 3  # runs of the baseline that tell what the seed does: two of one seed, one of another
REFRESH = 12  # attempted ideas after which the baseline runs again: results may drift
MOST_REPEATS = 12  # further runs of kept ideas, to measure them better, in the whole campaign
MOST_ROUNDS = 2  # of confirmation, at the end of a campaign
LEAST_BASELINE_RUNS = 4  # planned: three distinct values, as the second repeats the first one's seed
BASELINE_RUNS = 5  # usually; fewer in a small campaign (`lab/campaign_setup/campaign_cost.py`)
CONFIRM_RUNS = 16
LEAST_CONFIRM_RUNS = 8  # four fresh runs of the idea and of the baseline: fewer cannot reach the level of any claim


def too_few_to_confirm(runs: int) -> str:
    """Why fewer than LEAST_CONFIRM_RUNS fresh runs prove nothing, in one clause."""
    return f"confirm_runs: {runs} are too few: a proof takes four fresh runs of the idea and four of the baseline"


CONTINUED = "continued"  # the reason for its state where a campaign that had ended goes on


class CampaignPhase(StrEnum):
    """What a campaign is doing: the last phase in its journal, unless its controller is gone (then `DEAD`)."""

    RUNNING = "running"
    PAUSED = "paused"  # on request, by the circuit breaker, or for lack of a baseline
    WAITING = "waiting"  # the proposer has no idea at present and no stop rule is met
    DRAINING = "draining"  # running runs may finish, no new ones are started
    ENDED = "ended"  # a stop rule is met, or stopped on request
    DEAD = "dead"  # not ended, but without a living controller: `campaign resume`


@dataclass(frozen=True, slots=True)
class Rules:
    """What `campaign set` changes, on record: the stop rules (None switches one off), and the size of a proof."""

    count: int | None = None  # attempted ideas, the baseline included
    deadline: float | None = None  # wall clock, seconds since the epoch
    budget_gpu_hours: float | None = None
    target: float | None = None  # of the objective; in its direction
    budget_usd: float | None = None  # limit on the cost of the coding agent
    budget_tokens: int | None = None  # limit on the tokens that it reads and writes
    confirm_runs: int = CONFIRM_RUNS  # fresh runs of a round of confirmation at most, both sides together

    @property
    def any_set(self) -> bool:
        """Whether any stop rule is set."""
        return any(getattr(self, name) is not None for name in self.__match_args__ if name != "confirm_runs")


@dataclass(frozen=True, slots=True)
class ProposerSpec:
    """Where hypotheses come from."""

    name: str  # queue, grid, random, tpe, agent, or a plug-in; hybrid is agent and tpe
    space: Mapping[str, Any] = field(default_factory=dict)  # dotted recipe key -> its range or choices
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
    trees: str  # directory of the linked worktrees
    blueprint: str  # the blueprint file of the campaign
    blueprint_text: str
    prefix: str  # of the branch names
    base_commit: str
    base: str  # how the base commit was chosen, in words
    recipe: str  # relative to the repository; "" if there is none
    interpreter: str
    result_dir: str  # parent of the result directories, one per run
    objective: Objective
    proposer: ProposerSpec
    rules: Rules
    created: float
    constraints: tuple[str, ...] = ()  # limits on other metrics; an idea that breaks one is never kept
    timeout_s: float | None = None  # per run; exceeding it is a failure
    replicates: int = 3  # of the baseline; the second one repeats the first one's seed
    retests: int = 6  # at most, further runs of a promising idea
    max_machine_retries: int = 2  # of each run that the machine ended
    confirm: bool = True
    prove: bool = False  # its ideas are put to the proof, whatever their first runs show
    search: str = "chain"  # or `tip`: ideas are edited on what all runs together show to be good (`core.campaign.tip`)
    at_least: str = ""  # the gain that a claim has to exceed: in the metric's unit, or `0.5%` of the baseline's mean
    parallel: int = 1  # slots of all targets together
    places: tuple[Target, ...] = (LOCAL,)  # each with its slots; 0 only for a single target: then `parallel` applies
    gpus_per_run: int = 0
    runs_per_gpu: int = 1
    gpus: tuple[str, ...] = ()  # UUIDs that may be leased
    gpu_busy_mib: int = 0  # a GPU with this much memory used by others is not leased; 0: 1 GiB, or 5 % if that is more
    include: tuple[str, ...] = ()  # paths and patterns, as `core.run.extra_paths.parse_include` takes them
    exclude: tuple[str, ...] = ()  # paths and patterns of what its worktrees do not show
    shown: tuple[ExtraPath, ...] = ()  # what the base commit lacks, and how worktrees show it
    hide: tuple[str, ...] = ()  # untracked, too, or outside of it: only the evaluation may read it
    self_reported: bool = False  # an agent edits code that measures itself, as the blueprint names no `evaluate:`
    seeding: str = ""  # random, fixed or none, where the notes tell it; "": the baseline's runs show it
    seeding_why: str = ""
    resolution: float | None = None  # of a deterministic objective, in its unit; None: as its runs show it
    keep_gb: float = 20.0  # 10**9 bytes of what its runs wrote beside their results
    screen_s: float = 0.0  # an idea's first run is screened at its first validation after so long; 0: none is
    screen_overrides: Mapping[str, Any] = field(default_factory=dict)  # of a run before the first one, which screens it
    tmux_socket: str = ""
    research: AgentSpec = field(default_factory=AgentSpec)
    gpu_check: bool = True  # False: recipes that ask for more GPUs than are present run anyway
    flags: Mapping[str, Any] = field(default_factory=dict)  # that its program's --help named, with their defaults
    earlier: tuple[str, ...] = ()  # directories of campaigns on the same question, the newest first
    sources: Mapping[str, str] = field(default_factory=dict)  # key -> origin of its value
    interpreter_source: str = ""  # blueprint, active environment, .venv, venv or PATH
    shell: Mapping[str, str] = field(default_factory=dict)  # PATH and the active environment where it was started
    # what reading its file again takes: `file`, `start` (where it was typed), `typed` (key -> [value, source])
    read_from: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interpreter_words(self) -> str:
        """Which python it uses, and why that one: `/x/.venv/bin/python (active environment)`."""
        return f"{self.interpreter} ({self.interpreter_source})" if self.interpreter_source else self.interpreter

    @property
    def hidden_inputs(self) -> tuple[str, ...]:
        """`hide` as absolute paths: relative ones are the user's, in the repository."""
        return tuple(posixpath.join(self.repository, path) for path in self.hide)

    @property
    def evaluation_inputs(self) -> tuple[ExtraPath, ...]:
        """What the worktree of an evaluation shows: what all runs see, and what is hidden from them."""
        hidden = (posixpath.normpath(path) for path in self.hide if not path.startswith("/"))
        return (*self.shown, *(ExtraPath(path, Way.LINK, included=True) for path in hidden))

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CampaignSpec:
        """Read the output of `asdict`. Raises KeyError, TypeError, ValueError."""
        spec = from_record(cls, record)
        lists = {key: _as_list(one) for key, one in spec.proposer.space.items()}
        return replace(spec, proposer=replace(spec.proposer, space=lists))

    def with_rules(self, changes: Mapping[str, Any]) -> CampaignSpec:
        """A copy with changed stop rules and other fields, its `terms`. Raises ValueError for what they cannot be."""
        if terms := changes.get("terms"):
            return CampaignSpec.from_json({**asdict(self), **terms}).with_rules({**changes, "terms": None})
        known = {k: v for k, v in changes.items() if k in Rules.__match_args__}
        if wrong := [k for k, v in known.items() if not isinstance(v, int | float | None)]:
            raise ValueError(f"{wrong[0]} is no number: {known[wrong[0]]!r}")
        return replace(self, rules=replace(self.rules, **known))

    def changed_rules(self, rules: Mapping[str, Any]) -> dict[str, Any]:
        """The named rules that differ, for `campaign set`. UsageError if none does, or if nothing could be proved."""
        old = asdict(self.rules)
        changes = {name: value for name, value in rules.items() if value != old[name]}
        if self.confirm and (runs := changes.get("confirm_runs", LEAST_CONFIRM_RUNS)) < LEAST_CONFIRM_RUNS:
            raise UsageError(too_few_to_confirm(runs))
        if not changes:
            raise UsageError("nothing would change", hint="such as count=40, deadline=10h or budget_usd=20")
        return changes

    def least_gain(self, baseline: float) -> float:
        """`at_least` in the metric's unit, where the baseline's mean is this."""
        amount, percent, _ = self.at_least.partition("%")
        return (abs(baseline) / 100 if percent else 1.0) * float(amount or 0)

    def branch(self, slug: str) -> str:
        """The branch name of a hypothesis."""
        return f"{self.prefix}/{slug}"


def _as_list(values: Any) -> Any:
    """What a key may be; older campaigns have `{choices: [...]}` and `{value: ...}`."""
    match values:
        case {"choices": listed}:
            return listed
        case {"value": value}:
            return [value]
    return values


def parse_target(text: str, objective: Objective) -> float:
    """Parse `0.8`, `>=0.8` or `pass@1>=0.8`. Raises ValueError (one clause) if it contradicts the objective."""
    found = TARGET.match(text)
    if not found:
        raise ValueError(f"{text!r} is no target: write it like '{objective.metric}>=0.8'")
    if not objective.metric:
        raise ValueError("the objective is not known yet, and the target is about it")
    name, sign, target = found["name"], found["sign"], float(found["number"])
    if name and not same_metric(name, objective.metric):  # raises ValueError for an invalid expression
        raise ValueError(f"the target is about {name!r}, and the objective (--metric) is {objective.metric!r}")
    if sign and (sign in (">", ">=")) != (objective.direction is Direction.MAXIMIZE):
        raise ValueError(f"{text!r} contradicts the direction: {objective.metric} is to be {objective.direction}d")
    if not math.isfinite(target):
        raise ValueError(f"{text!r} is no number that can be reached")
    return target


# -- whether a rule is met, by the attempts and the clock --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StopFacts:
    """The measurements that the rules are checked against."""

    attempted: int  # ideas, whatever their outcome
    best: float | None  # the search mean of the best kept idea
    gpu_hours: float
    now: float  # wall clock
    run_s: float  # expected duration of one run; 0 if unknown
    reserve_s: float = 0.0  # reserved for the final confirmation
    run_gpu_hours: float = 0.0
    reserve_gpu_hours: float = 0.0  # reserved for the final confirmation
    usd: float = 0.0  # cost of the coding agent, as far as it reports it
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stand:
    """The result of checking all stop rules."""

    met: str  # the first rule that is met, in words; "" if none is
    remaining: str  # in words: "17/24 attempted, 6h12m remaining"
    remaining_ideas: int | None  # None: no `count` rule
    remaining_s: float | None  # None: no deadline
    runs_go_on: bool = True  # whether the rules that are met forbid ideas alone: their count, what they cost

    @property
    def sentence(self) -> str:
        """The result as a sentence for the user."""
        return f"stop condition met: {self.met}" if self.met else self.remaining

    @property
    def deadline_words(self) -> str:
        """How far it is to the deadline; "" without one."""
        return "" if self.remaining_s is None else f"deadline in {span(self.remaining_s)}"

    @property
    def beside_count(self) -> str:
        """The same for who is told the number of attempted ideas already; "" if nothing else is left to say."""
        before, attempted, more = (self.met or self.remaining).partition(" attempted")
        return more.removeprefix(", ") if attempted else before


def stand(rules: Rules, facts: StopFacts, objective: Objective) -> Stand:
    """Check every rule; `met` names the first one that is met."""
    left_s = None if rules.deadline is None else rules.deadline - facts.now
    left_n = None if rules.count is None else max(0, rules.count - facts.attempted)
    met = list(_met(rules, facts, objective, left_s))
    unlimited = replace(rules, count=None, budget_usd=None, budget_tokens=None)
    runs_go_on = not any(_met(unlimited, facts, objective, left_s))
    return Stand(met[0] if met else "", _remaining(rules, facts, left_s), left_n, left_s, runs_go_on)


def _met(rules: Rules, facts: StopFacts, objective: Objective, left_s: float | None) -> Iterator[str]:
    """The rules that are met, in words."""
    best = facts.best
    if rules.count is not None and facts.attempted >= rules.count:
        yield f"{facts.attempted}/{rules.count} ideas attempted"
    if rules.target is not None and best is not None and not objective.better(rules.target, best):
        yield f"{objective.metric} = {best:.6g} (search mean) reaches the target {rules.target:g}"
    if left_s is not None and left_s <= 0:
        yield "the deadline has passed"
    elif left_s is not None and left_s < facts.run_s + facts.reserve_s:
        also = f" and {span(facts.reserve_s)} for the confirmation" if facts.reserve_s else ""
        yield f"{span(left_s)} are left, too short for another run of {span(facts.run_s)}{also}"
    if rules.budget_gpu_hours is not None:
        left = rules.budget_gpu_hours - facts.gpu_hours
        if left <= 0 or left < facts.run_gpu_hours + facts.reserve_gpu_hours:
            also = f", {left:.2f} are left for the confirmation" if left > 0 and facts.reserve_gpu_hours else ""
            yield f"{facts.gpu_hours:.2f} of {rules.budget_gpu_hours:g} GPU hours are spent{also}"
    if rules.budget_usd is not None and facts.usd >= rules.budget_usd:
        yield f"{facts.usd:.2f} of {rules.budget_usd:g} USD are spent on the researcher"
    if rules.budget_tokens is not None and facts.tokens >= rules.budget_tokens:
        yield f"{facts.tokens:,} of {rules.budget_tokens:,} tokens are spent on the researcher"


def _remaining(rules: Rules, facts: StopFacts, left_s: float | None) -> str:
    words = [f"{facts.attempted}/{rules.count} attempted" if rules.count else f"{facts.attempted} attempted"]
    if left_s is not None:
        words.append(f"{span(max(0.0, left_s))} remaining")
    if rules.budget_gpu_hours is not None:
        words.append(f"{facts.gpu_hours:.2f}/{rules.budget_gpu_hours:g} GPU hours")
    if rules.budget_usd is not None:
        words.append(f"{facts.usd:.2f}/{rules.budget_usd:g} USD")
    if rules.budget_tokens is not None:
        words.append(f"{facts.tokens:,}/{rules.budget_tokens:,} tokens")
    if rules.target is not None:
        best = "nothing kept" if facts.best is None else f"best {number(facts.best)} (search mean)"
        words.append(f"{best}, target {rules.target:g}")
    return ", ".join(words)
