"""What the agents have in common: `Adapter` is the table of one, `AgentOutput` what was understood of its output.

Every agent's file fills an AgentOutput from its own events; what a fault is, is decided here, once for all of them.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from autoresearch.core.agents.agent import Answer, Chosen, Spoken, Traits, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.text.regex import later
from autoresearch.runner.text import logical_lines, plain

_WORDS = {  # in this order: "429 insufficient_quota" does not pass by itself
    TurnFault.LOGIN: later(
        r"not logged in|please run /login|\blog ?in again|login required|auth login|must be authenticated"
        r"|(?:invalid|incorrect|missing|malformed|expired|no)[ _](?:x-)?api[ _-]?key"
        r"|api[ _]key (?:not valid|is missing|not found)|set an auth method|no auth(?:entication)? (?:type|method)"
        r"|(?:invalid|expired|missing) (?:bearer |oauth |access |refresh )?token|token (?:has )?expired"
        r"|authentication[ _]?(?:error|failed|required)|failed to authenticate|unauthori[sz]ed|unauthenticated"
        r"|could not be refreshed|invalid authentication|permission_error|credentials? (?:not found|missing|required)"
        r"|missing environment variable|insufficient_quota|credit balance is too low|payment required"
        r"|\b(?:401|402|403)\b(?=[ :,.)\]}\"']|$)",
        re.IGNORECASE,
    ),
    TurnFault.QUOTA: later(
        r"rate[ _-]?limit|usage limit|(?:session|weekly|hourly|daily|opus|spend(?:ing)?) limit|limit reached"
        r"|hit your (?:\w+ )?limit|too many requests|resource[ _](?:has been )?exhausted|quota|throttl|\b429\b",
        re.IGNORECASE,
    ),
    TurnFault.OUTAGE: later(
        r"overloaded|reconnecting|connection[ _]?(?:error|refused|reset|timed out|closed)|unable to connect"
        r"|(?:cannot|could not|failed to) connect|stream disconnected|network (?:error|is unreachable)|fetch failed"
        r"|ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|name resolution"
        r"|socket hang up|error sending request|internal ?server ?error|bad gateway|service ?unavailable"
        r"|gateway timeout|high demand|server had an error|request timed out|(?:status|error|code|http)\W{0,12}5\d\d\b"
        r"|\b5\d\d (?:status|internal|bad|service|gateway|\{)|\b529\b",
        re.IGNORECASE,
    ),
}
_PATIENT = 4096  # characters of an error that are looked at
_MOST_TEXT = 1 << 20  # characters of last words
_MOST_DENIED = 20
_MOST_ERR = 16 << 10  # bytes of standard error that are looked at
_COMPLAINT = later(r"error|fail|denied|refused|invalid|missing|unable|cannot|not found|exceeded|limit", re.IGNORECASE)


class Adapter:
    """One agent's name, traits and needs; `argv` and `read` are its own. The contract: `core.agents.agent.Agent`."""

    name = ""
    traits = Traits()
    secrets: tuple[str, ...] = ()  # variables that it logs in with, or patterns of them
    home_paths: tuple[tuple[str, str, str], ...] = ()  # of its own files: variable, else below HOME; and below either

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen

    def program(self) -> str:
        return self.chosen.program or self.name

    @property
    def model(self) -> list[str]:
        """The words that choose a model."""
        return ["--model", self.chosen.model] if self.chosen.model else []

    def searches(self, turn: Turn) -> bool:
        """Whether this turn may use the agent's own web tools."""
        return self.chosen.web and turn.role is TurnRole.PROPOSE

    def environment(self, turn: Turn) -> Mapping[str, str]:
        return {}

    def needs(self) -> tuple[str, ...]:
        return (*self.secrets, *self.chosen.keep)

    def homes(self, environ: Mapping[str, str]) -> tuple[PurePath, ...]:
        home = PurePath(environ.get("HOME", "/"))
        every = ((environ.get(variable) or home / usual, below) for variable, usual, below in self.home_paths)
        return tuple(dict.fromkeys(PurePath(place) / below for place, below in every))


@dataclass(slots=True)
class AgentOutput:
    """All that an agent said, still to be weighed."""

    text: str = ""  # its last words
    usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    acts: int = 0  # tools that it used
    denied: list[str] = field(default_factory=list)
    fault: TurnFault | None = None  # that it names itself
    error: str = ""  # the words in which it says that it failed; "" if it does not
    status: int | None = None  # the HTTP status that belongs to the error
    trouble: str = ""  # what it complained of last, and still tries (a connection that is down)

    def answer(self, turn: Turn, spoken: Spoken) -> Answer:
        """Weigh it against how the process ended."""
        fault, said = self._fault(turn, spoken)
        return Answer(
            text=self.text[:_MOST_TEXT],
            usage=Usage(self.usd, self.tokens_in, self.tokens_out, spoken.seconds),
            fault=fault,
            message=plain(said),
            denied=tuple(plain(each, 200) for each in self.denied[:_MOST_DENIED]),
        )

    def _fault(self, turn: Turn, spoken: Spoken) -> tuple[TurnFault | None, str]:
        said = self.error or self.trouble or last_lines(spoken.err)
        if spoken.fault is not None:
            tries = spoken.fault is TurnFault.TIMEOUT and (self.error or self.trouble)
            waiting = meaning(said, self.status) if tries else None
            return (waiting if waiting and waiting.passes else spoken.fault), said
        if self.fault is not None or self.error or spoken.returncode != 0:
            fault = self.fault or meaning(said, self.status) or TurnFault.ENDED
            ended = "it was ended" if spoken.returncode is None else f"it exited with {spoken.returncode}"
            return fault, said or ended
        worked = turn.role.writes and self.acts > 0  # the diff will tell
        silent = not self.text.strip() and not worked
        return (TurnFault.SILENT, said) if silent else (None, "")


def last_lines(err: bytes) -> str:
    """The end of standard error: from the last line that complains, else its last lines."""
    lines = [line.strip() for line in logical_lines(err[-_MOST_ERR:])][-40:]
    found = [at for at, line in enumerate(lines) if _COMPLAINT.search(line[:1000]) and "WARN" not in line[:40]]
    return "\n".join(lines[found[-1] :][:5] if found else lines[-3:])


def by_status(status: int | None) -> TurnFault | None:
    """What an HTTP status means; None for one that says nothing (400, 404: the question, or the model's name)."""
    if status in (401, 402, 403):
        return TurnFault.LOGIN
    if status == 429:
        return TurnFault.QUOTA
    return TurnFault.OUTAGE if status == 408 or (status is not None and 500 <= status < 600) else None


def by_words(words: str) -> TurnFault | None:
    """What an error in words means; None where it says nothing that is known."""
    ends = words if len(words) <= 2 * _PATIENT else words[:_PATIENT] + "\n" + words[-_PATIENT:]
    return next((fault for fault, pattern in _WORDS.items() if pattern.search(ends)), None)


def meaning(words: str, status: int | None = None) -> TurnFault | None:
    """Both together; words that need a person weigh more than a status that passes (429 without any credit)."""
    spoken, numbered = by_words(words), by_status(status)
    if numbered is TurnFault.QUOTA and spoken is TurnFault.LOGIN:
        return spoken
    return numbered or spoken


# JSON among noise: the events that an agent prints, and what stands in them. Nothing here raises for anything that a
# program can print: half lines, binary, a bracket a million times.

_TAIL = 16 << 20  # bytes that are read of a flood: its end
_MOST_LINES = 20_000
_OBJECT_LINE = later(r"^[ \t]{0,9}(\{[^\n]*\})[ \t\r]{0,9}$", re.MULTILINE)


def events(out: bytes) -> Iterator[Mapping[str, Any]]:
    """Every line that is a JSON object, of a flood its last 16 MiB and 20,000 lines; all else is skipped."""
    last = b"\n".join(out[-_TAIL:].split(b"\n")[-_MOST_LINES:])
    for line in _OBJECT_LINE.finditer(last.decode("utf-8", "replace")):
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(found := json.loads(line[1]), dict):
                yield found


def inside(event: object, *keys: str) -> Mapping[str, Any]:
    """The object at that path; an empty one where there is none."""
    for key in keys:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event if isinstance(event, Mapping) else {}


def listed(event: Mapping[str, Any], key: str) -> list[Any]:
    """The list under that key; an empty one where there is none."""
    found = event.get(key)
    return found if isinstance(found, list) else []


def words(value: object) -> str:
    """The text, fit to be written down (no half surrogates); "" for anything that is no text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def wish(call: object, arguments: str) -> str:
    """A call of a tool in words: the tool, and what it was to touch, which stands under the key `arguments`."""
    given = inside(call, arguments)
    touched = next((words(given[key]) for key in ("file_path", "command", "path") if words(given.get(key))), "")
    return f"{words(inside(call).get('tool_name'))} {touched}".strip()


def count(value: object) -> int | None:
    """A count that can be one (tokens, turns, an HTTP status); None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def money(value: object) -> float | None:
    """An amount in US dollars that can be one; None for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if known else None  # type: ignore[arg-type]


def added(*counts: int | None) -> int | None:
    """Their sum; None where none is known."""
    known = [each for each in counts if each is not None]
    return sum(known) if known else None
