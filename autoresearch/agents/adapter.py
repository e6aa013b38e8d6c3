"""What the agents have in common: `Adapter` is the table of one, `AgentOutput` what was understood of its output.

Every agent's file fills an AgentOutput from its own events; what a fault is, is decided here, once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from autoresearch.core.agents.agent import Answer, Chosen, Spoken, Traits, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.text.durations import find_durations, normalise, problem
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
_AHEAD = later(
    r"(?:\b(?:in|after|within)\b|retry[-_ ]?(?:after|delay)[\"']?\s*[:=]?\s*[\"']?)\s*(?:about |~)?(?=\.?\d|an?\b)"
)
_BARE = later(r"retry[-_ ]after[\"']?\s*[:=]?\s*[\"']?(\d{1,7}(?:\.\d+)?)(?![\w.:])", re.IGNORECASE)
_NEAR = 4  # characters between "in" and the duration
_PATIENT = 4096  # characters of an error that are looked at
_MOST_TEXT = 1 << 20  # characters of last words
_MOST_DENIED = 20
_MOST_ERR = 16 << 10  # bytes of standard error that are looked at
_GONE = later(
    r"\b(?:no|cannot find|can't find|unknown|invalid|bad)\b[^\n]{0,20} (?:conversation|rollout|session|thread)s?\b"
    r"|\b(?:conversation|rollout|session|thread)s?\b[^\n]{0,80} (?:not found|does not exist|found with|no rollout)",
    re.IGNORECASE,
)
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
    data: Mapping[str, Any] | None = None  # the JSON that it gave natively
    session: str = ""
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
            data=self.data,
            session="" if fault is TurnFault.SESSION else self.session or turn.session,
            usage=Usage(self.usd, self.tokens_in, self.tokens_out, spoken.seconds),
            fault=fault,
            message=plain(said),
            retry_s=retry_s(said) if fault is not None and fault.passes else None,
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
            gone = fault is TurnFault.ENDED and turn.session and _GONE.search(said)
            ended = "it was ended" if spoken.returncode is None else f"it exited with {spoken.returncode}"
            return TurnFault.SESSION if gone else fault, said or ended
        worked = turn.role.writes and self.acts > 0  # the diff will tell
        silent = not self.text.strip() and self.data is None and not worked
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


def retry_s(words: str) -> float | None:
    """In how many seconds it says that it may be asked again; None without a relative time in it.

    An absolute one ("resets 3pm", an epoch) stays in the words: there is no clock here.
    """
    if bare := _BARE.search(words[:_PATIENT]):
        return float(bare[1])
    text = normalise(words[:_PATIENT])
    starts = [each.end() for each in _AHEAD.finditer(text)]
    for found in find_durations(text):
        if any(0 <= found.start - start <= _NEAR for start in starts) and not problem(found.seconds):
            return found.seconds
    return None
