"""What an agent's error means for the next turn: a key, patience, a network, or nothing that is known.

Only for text that is known to be an error: an answer may well speak of rate limits.
"""

from __future__ import annotations

import re

from autoresearch.core.agents.agent import TurnFault
from autoresearch.core.text.durations import find_durations, normalise, problem
from autoresearch.core.text.regex import later

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
