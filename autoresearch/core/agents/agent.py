"""Agent: a coding agent behind one narrow interface: propose, edit, fix, review, summarise.

One question to it is a Turn, what comes back an Answer. An agent's own word for success is worth little
(a turn whose every edit was denied, or whose API was down, reports success too), so an Answer only says what the
agent said; what was done is seen in the diff, and what it is worth in the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

_N = TypeVar("_N", int, float)


class TurnRole(StrEnum):
    """What a turn is for."""

    PROPOSE = "propose"  # hypotheses, as JSON; changes nothing
    EDIT = "edit"  # one hypothesis, as changes of files
    FIX = "fix"  # a run that crashed, as changes of files
    REVIEW = "review"  # another one's diff, as JSON; changes nothing
    SUMMARISE = "summarise"  # what a campaign found, in words
    PLAN = "plan"  # a staged plan, as JSON

    @property
    def writes(self) -> bool:
        """Whether files may be changed."""
        return self in (TurnRole.EDIT, TurnRole.FIX)


class TurnFault(StrEnum):
    """Why a turn yielded nothing that can be used."""

    NOT_INSTALLED = "not_installed"
    LOGIN = "login"  # no key, a wrong one, an expired session
    QUOTA = "quota"  # a usage limit, or too many requests: passes by itself
    OUTAGE = "outage"  # no network, or the other side is down: passes by itself
    TIMEOUT = "timeout"
    TURNS = "turns"  # it used up its turns
    MONEY = "money"  # it used up the money of the turn
    FLOOD = "flood"  # it printed, or wrote, more than it may
    ENDED = "ended"  # it exited with an error, or was killed
    SILENT = "silent"  # it exited with 0 and said nothing
    ANSWER = "answer"  # what it said is not what was asked for
    STOPPED = "stopped"  # we ended it: somebody asked for that
    LOST = "lost"  # its controller was killed meanwhile

    @property
    def passes(self) -> bool:
        """Whether the same question may be answered later."""
        return self in (TurnFault.QUOTA, TurnFault.OUTAGE)

    @property
    def needs_person(self) -> bool:
        """Whether no later turn can be better before somebody does something."""
        return self in (TurnFault.NOT_INSTALLED, TurnFault.LOGIN)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one turn may use up; None is no such bound. Seconds are enforced by us, the others where the agent can."""

    seconds: float = 1800.0
    turns: int | None = 60
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn used up; None where the agent does not say."""

    usd: float | None = None
    tokens_in: int | None = None  # all that was read, cached or not
    tokens_out: int | None = None
    seconds: float = 0.0

    @property
    def tokens(self) -> int | None:
        """Both; None where neither is known."""
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
    """One question. Paths are absolute; `directory` is outside `cwd` and not the agent's to write to."""

    role: TurnRole
    prompt: str
    cwd: PurePath  # the worktree that it works in
    directory: PurePath  # its own: prompt.md, schema.json, out, err, last.txt, result.json
    schema: Mapping[str, Any] | None = None  # of the JSON that is wanted: strict, as `core.agents.proposals` writes it
    session: str = ""  # to go on with; "" begins a new one
    bounds: Bounds = Bounds()

    @property
    def prompt_file(self) -> PurePath:
        """Where the prompt is, for agents that read a file; it is always on standard input, too."""
        return self.directory / "prompt.md"

    @property
    def schema_file(self) -> PurePath:
        """Where the schema is, if there is one."""
        return self.directory / "schema.json"

    @property
    def last_file(self) -> PurePath:
        """Where an agent may be told to put its last words (`codex exec -o`). It can be written by the agent."""
        return self.directory / "answer" / "last.txt"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said, read from its output; nothing of it is believed that can be measured."""

    text: str = ""  # its last words
    data: Mapping[str, Any] | None = None  # the JSON that was asked for, where the agent gives it natively
    session: str = ""  # to go on with in a later turn
    usage: Usage = Usage()
    fault: TurnFault | None = None
    said: str = ""  # the agent's own words about the fault, one line, masked by whoever shows it
    retry_s: float | None = None  # in how long it says that it may be asked again
    denied: tuple[str, ...] = ()  # what it wanted to do and was not allowed
    steps: int = 0  # requests to the model, as far as it says


@dataclass(frozen=True, slots=True)
class Traits:
    """What an agent can do; the lab makes up for the rest."""

    schema: bool = False  # native JSON by schema; else the first JSON object in its last words is taken
    resumes: bool = False  # goes on with an earlier session
    asks_only: bool = True  # has a mode in which it changes nothing
    money: bool = False  # tells what it cost
    sandbox: bool = False  # has a sandbox of its own that confines writing to cwd
    leavings: tuple[str, ...] = ()  # patterns of what it leaves in cwd (`.aider*`), which is none of the edit


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a user chose of an agent."""

    program: str = ""  # where it is, if not on PATH under its own name
    model: str = ""  # "" is the agent's own
    extra: tuple[str, ...] = ()  # further arguments, as they are
    template: tuple[str, ...] = ()  # the argv of `command`: {prompt_file} {cwd} {schema_file} {last_file} {role}
    keep: tuple[str, ...] = ()  # further variables of the environment that it may see
    outside: bool = False  # we confine it (bubblewrap), so that its own sandbox may be off


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a turn's process left behind."""

    out: bytes
    err: bytes
    returncode: int | None  # None: we ended it
    last: str = ""  # what is in `Turn.last_file`; "" where it is not there
    fault: TurnFault | None = None  # what ended it early, where that was us
    seconds: float = 0.0


class NotMade(StrEnum):
    """Why an idea, or a fix, of a researcher never reached a GPU; it counts as attempted. The row's `failure`."""

    EMPTY = "empty_diff"
    PROTECTED = "protected_path"
    GUARD = "guard_failed"
    PATCH = "patch_failed"
    LARGE = "diff_too_large"
    REFUSED = "review_refused"
    RESEARCHER = "researcher_failed"  # the turn itself came to nothing


@dataclass(frozen=True, slots=True)
class Edit:
    """What came of an edit or a fix turn, measured in the worktree and not believed from the agent's words."""

    patch: str = ""  # `git diff --binary --full-index` against the commit it began from; bytes as surrogateescape
    paths: tuple[str, ...] = ()  # that it changes, relative to the repository
    flags: tuple[str, ...] = ()  # what looks suspicious in it, one sentence each; it runs nevertheless
    unmade: NotMade | None = None
    why: str = ""  # one sentence about `unmade`
    said: str = ""  # what the agent says that it did, at most some lines
    session: str = ""
    usage: Usage = Usage()
    fault: TurnFault | None = None  # of the turn, where `unmade` is RESEARCHER


Ask = Callable[[Turn], Answer]
"""Asks a researcher and waits for its answer; the lab's own waits out what passes (`TurnFault.passes`)."""


class Agent(Protocol):
    """One coding agent. Pure: it says how to call it and reads what came back; `lab.agents.turn` runs it."""

    name: str
    traits: Traits

    def program(self) -> str:
        """The name or path of its executable."""

    def argv(self, turn: Turn) -> tuple[str, ...]:
        """The whole command line. The prompt comes on standard input (and is in `turn.prompt_file`)."""

    def environment(self, turn: Turn) -> Mapping[str, str]:
        """Variables to set for it."""

    def needs(self) -> tuple[str, ...]:
        """Variables (names, or `PREFIX_*`) of its own that it must see although they look like secrets."""

    def homes(self, environ: Mapping[str, str]) -> tuple[PurePath, ...]:
        """Its own directories, which it must be able to write to even when confined (`~/.claude`); may be missing."""

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        """Understand its output. Never raises: what cannot be understood is a Fault."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How a campaign uses its researcher; part of its spec."""

    agent: str = ""  # "" is none
    program: str = ""
    model: str = ""
    extra: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    turn_s: float = 1800.0  # bounds of each turn
    turn_steps: int | None = 60
    turn_usd: float | None = None
    ideas: int = 3  # hypotheses that are asked for in one turn
    share: float = 0.5  # hybrid: the part of the ideas that is the agent's
    max_fixes: int = 2  # of one idea
    guard: tuple[str, ...] = ()  # commands, each by `bash -c` in the clean worktree; all must exit with 0
    guard_s: float = 600.0
    protect: tuple[str, ...] = ()  # patterns of paths, beyond the built-in ones
    allow: tuple[str, ...] = ()  # exceptions from the built-in ones
    review: bool = False  # another turn, without the author's context, may refuse a diff
    summarise: bool = True
    sandbox: str = "auto"  # auto: as well as the machine can; need: refuse to go without; off
    hold: bool = False  # code ideas wait for `campaign approve`
    notes: tuple[str, ...] = field(default=())  # what a person says to the agent from the beginning

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> AgentSpec:
        """Read what `asdict` wrote; keys of newer versions are ignored."""
        known: dict[str, Any] = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**known)

    def chosen(self, *, outside: bool = False) -> Chosen:
        """The part that the agent's own file looks at."""
        return Chosen(self.program, self.model, self.extra, self.template, self.keep, outside)

    @property
    def bounds(self) -> Bounds:
        """Of each turn."""
        return Bounds(self.turn_s, self.turn_steps, self.turn_usd)
