"""Agent: a coding agent behind one narrow interface: propose, edit, fix, review.

A Turn is one request to it, an Answer the response. An agent's own report of success is worth little
(a turn whose edits were all denied, or whose API was down, reports success too), so an Answer only holds what the
agent reported; what it did is determined from the diff, and whether that helps from the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

from autoresearch.core.run.json_record import from_record

_N = TypeVar("_N", int, float)
BUDGET_TURNS = 10  # turns that a budget in USD is at least good for


class TurnRole(StrEnum):
    """The purpose of a turn."""

    PROPOSE = "propose"  # hypotheses, as JSON; changes nothing
    EDIT = "edit"  # implement one hypothesis by changing files
    FIX = "fix"  # repair a crashed run by changing files
    REVIEW = "review"  # review another turn's diff, answer in JSON; changes nothing

    @property
    def writes(self) -> bool:
        """Whether files may be changed."""
        return self in (TurnRole.EDIT, TurnRole.FIX)


class TurnFault(StrEnum):
    """Why a turn yielded no usable result."""

    NOT_INSTALLED = "not_installed"
    LOGIN = "login"  # no key, a wrong one, an expired session
    QUOTA = "quota"  # a usage limit, or too many requests: temporary
    OUTAGE = "outage"  # no network, or the service is down: temporary
    TIMEOUT = "timeout"
    TURNS = "turns"  # it used up its turns
    MONEY = "money"  # it used up the turn's budget
    FLOOD = "flood"  # it printed or wrote more than allowed
    ENDED = "ended"  # it exited with an error, or was killed
    SILENT = "silent"  # it exited with 0 without an answer
    ANSWER = "answer"  # its answer does not have the requested form
    STOPPED = "stopped"  # ended by autoresearch on request
    LOST = "lost"  # its Runner died

    @classmethod
    def _missing_(cls, _: object) -> TurnFault:
        """What a campaign of another version calls by a name of its own."""
        return cls.ENDED

    @property
    def passes(self) -> bool:
        """Whether the fault is temporary, so that the same turn may succeed later."""
        return self in (TurnFault.QUOTA, TurnFault.OUTAGE)

    @property
    def needs_person(self) -> bool:
        """Whether every later turn will fail, too, until a person intervenes."""
        return self in (TurnFault.NOT_INSTALLED, TurnFault.LOGIN)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on one turn; None: no limit. autoresearch enforces the seconds, the agent the others if it can."""

    seconds: float = 1800.0
    turns: int | None = 60
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources used by a turn; None if the agent does not report them."""

    usd: float | None = None
    tokens_in: int | None = None  # all input tokens, cached or not
    tokens_out: int | None = None
    seconds: float = 0.0

    @property
    def tokens(self) -> int | None:
        """Input and output tokens; None if neither is known."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        return (self.tokens_in or 0) + (self.tokens_out or 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.usd, other.usd),
            _sum(self.tokens_in, other.tokens_in),
            _sum(self.tokens_out, other.tokens_out),
            self.seconds + other.seconds,
        )


def _sum(a: _N | None, b: _N | None) -> _N | None:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True, slots=True)
class Turn:
    """One request to an agent, which stands alone: it remembers nothing of earlier ones.

    Paths are absolute; `directory` is outside `cwd` and not writable by the agent.
    """

    role: TurnRole
    prompt: str
    cwd: PurePath  # the worktree that it works in
    directory: PurePath  # the turn's own: a run directory, with prompt.md, out, err, answer/last.txt
    bounds: Bounds = Bounds()
    base: str = ""  # the commit that an edit in `cwd` is one of

    @property
    def prompt_file(self) -> PurePath:
        """The prompt as a file, for agents that read one; it is always passed on standard input, too."""
        return self.directory / "prompt.md"

    @property
    def out_file(self) -> PurePath:
        """What it printed."""
        return self.directory / "out"

    @property
    def err_file(self) -> PurePath:
        """What it printed to standard error."""
        return self.directory / "err"

    @property
    def shell_file(self) -> PurePath:
        """What each of its shells reads first, so that the interpreter of the experiments comes first on PATH."""
        return self.directory / "shell.sh"

    @property
    def last_file(self) -> PurePath:
        """The file for the final message of agents that can write one (`codex exec -o`). The agent can write to it."""
        return self.directory / "answer" / "last.txt"


@dataclass(frozen=True, slots=True)
class Answer:
    """An agent's answer, parsed from its output; claims that can be measured are not trusted."""

    text: str = ""  # its final message
    usage: Usage = Usage()
    fault: TurnFault | None = None
    message: str = ""  # the agent's own error message, one line; it may contain secrets, so mask it before printing
    denied: tuple[str, ...] = ()  # actions that it attempted and was not permitted


@dataclass(frozen=True, slots=True)
class Traits:
    """The capabilities of an agent; what needs one that it lacks is refused."""

    money: bool = False  # reports its cost
    tokens: bool = True  # those that it reports are all that it used
    sandbox: bool = False  # has its own sandbox that confines writing to cwd
    web: bool = False  # has tools for the web that can be switched on and off


@dataclass(frozen=True, slots=True)
class Chosen:
    """The user's settings for an agent."""

    program: str = ""  # path of the executable, if it is not on PATH under its own name
    model: str = ""  # "" is the agent's default
    extra: tuple[str, ...] = ()  # additional arguments, passed unchanged
    template: tuple[str, ...] = ()  # the argv of `command`: {prompt_file} {cwd} {last_file} {role}
    keep: tuple[str, ...] = ()  # additional environment variables passed to it
    web: bool = False  # turns for ideas may use its own tools that search and read the web
    outside: bool = False  # autoresearch confines it (bubblewrap), so its own sandbox may be off


@dataclass(frozen=True, slots=True)
class Spoken:
    """The raw result of a turn's process."""

    out: bytes
    err: bytes
    returncode: int | None  # None: ended by autoresearch
    last: str = ""  # content of `Turn.last_file`; "" if there is no such file
    fault: TurnFault | None = None  # why autoresearch ended it early, if it did
    seconds: float = 0.0


class NotMade(StrEnum):
    """Why an agent's idea or fix never ran, although it counts as attempted. The row's `failure`."""

    EMPTY = "empty_diff"
    PROTECTED = "protected_path"
    GUARD = "guard_failed"
    PATCH = "patch_failed"
    LARGE = "diff_too_large"
    REFUSED = "review_refused"
    RESEARCHER = "researcher_failed"  # the turn itself failed


@dataclass(frozen=True, slots=True)
class Edit:
    """The result of an edit or fix turn, measured in the worktree and not taken from the agent's report."""

    patch: str = ""  # `git diff --binary --full-index` against the starting commit; bytes as surrogateescape
    paths: tuple[str, ...] = ()  # changed paths, relative to the repository
    flags: tuple[str, ...] = ()  # suspicious changes, one sentence each; the idea runs nevertheless
    unmade: NotMade | None = None
    why: str = ""  # one sentence about `unmade`
    summary: str = ""  # the agent's own, a few lines at most
    fault: TurnFault | None = None  # of the turn, where `unmade` is RESEARCHER
    failed_guard: tuple[str, str] = ("", "")  # the guard command that failed, and the path of what it printed


Ask = Callable[[Turn], Answer]
"""Runs a turn and returns its answer; that of `lab.agent_work` retries after temporary faults (`TurnFault.passes`)."""


class Agent(Protocol):
    """Adapter for one coding agent. Pure: it builds the command and parses the output; `lab.agent_work` runs it."""

    name: str
    traits: Traits

    def program(self) -> str:
        """The name or path of its executable."""

    def argv(self, turn: Turn) -> tuple[str, ...]:
        """The whole command line. The prompt is passed on standard input (and is in `turn.prompt_file`)."""

    def environment(self, turn: Turn) -> Mapping[str, str]:
        """Variables to set in its environment."""
        return {}

    def needs(self) -> tuple[str, ...]:
        """Variables (names, or `PREFIX_*`) that it needs although they look like secrets."""
        return ()

    def homes(self, environ: Mapping[str, str]) -> tuple[PurePath, ...]:
        """Its own directories that must stay writable even when confined (`~/.claude`); they may be missing."""
        return ()

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        """Parse its output. Never raises: output that cannot be parsed yields an Answer with a fault."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How a campaign uses its coding agents; part of the campaign's spec."""

    agent: str = ""  # "" is none; several take turns: claude,codex
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by agent: its own values of fields below
    editors: int | None = None  # edits and fixes at a time, at most; None: three, or as many as there are slots
    program: str = ""
    model: str = ""
    extra: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    turn_s: float = 1800.0  # limit on each turn
    turn_steps: int | None = 60
    turn_usd: float | None = None
    ideas: int = 3  # hypotheses requested per turn
    share: float = 0.5  # of the ideas, where the proposer is mixed
    max_fixes: int = 2  # per idea
    guard: tuple[str, ...] = ()  # commands, each run by `bash -c` in the clean worktree; all must exit with 0
    guard_s: float = 600.0
    protect: tuple[str, ...] = ()  # patterns of protected paths, in addition to the built-in ones
    allow: tuple[str, ...] = ()  # exceptions from the built-in ones
    review: bool = False  # a separate turn, without the author's context, may refuse a diff
    sandbox: str = "auto"  # auto: as strict as the machine allows; need: refuse to run without; off
    web: bool = False  # turns for ideas may use the agent's own web tools
    notes: tuple[str, ...] = field(default=())  # a person's instructions to the agent from the start

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of all of them."""
        return tuple(self.agent.split(",")) if self.agent else ()

    @property
    def names(self) -> str:
        """The same as people read it: `claude and codex`."""
        return " and ".join(self.agents)

    def of(self, agent: str) -> AgentSpec:
        """The same with this agent alone, and with what is said of it."""
        return from_record(AgentSpec, {**asdict(self), "agent": agent, "own": {}, **self.own.get(agent, {})})

    def chosen(self, *, outside: bool = False) -> Chosen:
        """The settings that the agent's adapter needs."""
        return Chosen(self.program, self.model, self.extra, self.template, self.keep, self.web, outside)

    @property
    def bounds(self) -> Bounds:
        """The limits of each turn."""
        return Bounds(self.turn_s, self.turn_steps, self.turn_usd)
