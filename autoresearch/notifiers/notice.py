"""A notice, and who gets which: `notify:` of autoresearch.yaml, or AUTORESEARCH_NOTIFY.

    notify: slack://${SLACK_TOKEN}
    notify:
    - ntfy://my-topic
    - {url: "mailto://me:${MAIL_PASSWORD}@example.org", events: [campaign_end, crash_storm]}
    - {command: notify-send "$AUTORESEARCH_TITLE"}

What is wrong with an entry becomes a problem in words; the other entries count. A URL is never shown whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from autoresearch.core.text.regex import later
from autoresearch.runner.masking import MASK, clean_text

OFF = "none"
_REFERENCE = later(r"\$\{([A-Za-z_]\w*)\}")
_SHELL_REFERENCE = later(r"\$\{?([A-Za-z_]\w*)")
_URL = later(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30})://(?P<rest>.+)\Z", re.DOTALL)
# A host's name or address, with its port. Where a token stands instead (slack://TOKEN), it has no dot, or capitals.
_HOST = later(r"(?:[^/?#@]*@)?((?:[a-z0-9-]{1,40}\.)+[a-z0-9-]{1,24}(?::\d{1,5})?)(?:[/?#]|\Z)")
_PARTS = later(r"[/:@?&=#,]+")
SECRET_FROM = 4  # characters; what is shorter is no token, and a word of every message
LINE_MAX = 400  # characters: a line of a traceback must not fill a telephone


class NoticeKind(StrEnum):
    """What a notice is about; the words of `events:`."""

    RUN_END = "run_end"  # a lone run is over, whatever its ending
    CAMPAIGN_END = "campaign_end"
    PAUSE = "pause"  # of a campaign, whoever paused it; also a controller that ended on an error
    CONFIRMED = "confirmed"  # an idea was put to the proof and passed
    CRASH_STORM = "crash_storm"  # a pause because the last ideas died alike
    DISK_FULL = "disk_full"
    WAITING = "waiting"  # for a person: code ideas to approve, or any idea at all


GROUPS = {"end": (NoticeKind.RUN_END, NoticeKind.CAMPAIGN_END), "all": tuple(NoticeKind)}


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice. `key` names the occasion within its run or campaign: a notice is sent once for each."""

    kind: NoticeKind
    key: str
    title: str
    lines: tuple[str, ...]

    @property
    def body(self) -> str:
        """The lines as text, each cut to LINE_MAX; secrets are masked."""
        shown = (" ".join(line.split()) for line in self.lines)
        return clean_text("\n".join(line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…" for line in shown))


@dataclass(frozen=True, slots=True)
class Recipient:
    """One address or command that gets notices."""

    number: int  # its place in the list, from 1
    url: str  # as Apprise takes it, with its variables filled in; "" for a command
    command: str
    kinds: tuple[NoticeKind, ...]
    shown: str  # what may be printed and recorded: `json://127.0.0.1:8080/***`

    def without_secrets(self, text: str) -> str:
        """What a library or a server said, without any part of the URL but the shown one."""
        shown = set(_PARTS.split(self.shown))
        match = _URL.match(self.url)
        parts = {part for part in _PARTS.split(match["rest"] if match else self.url) if len(part) >= SECRET_FROM}
        for part in sorted(parts | {unquote(part) for part in parts}, key=len, reverse=True):
            if part not in shown:
                text = text.replace(part, MASK)
        return clean_text(" ".join(text.split()))


@dataclass(frozen=True, slots=True)
class Recipients:
    """The recipients of a project, and what is wrong with the entries that give none."""

    each: tuple[Recipient, ...] = ()
    problems: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  # names of those that the entries refer to

    def of(self, notice_kind: NoticeKind) -> tuple[Recipient, ...]:
        """Those that get notices of a kind."""
        return tuple(one for one in self.each if notice_kind in one.kinds)


_TEXTS: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}
_EVENTS: dict[str, Any] = {"enum": [*NoticeKind, *GROUPS]}
RECIPIENT: dict[str, dict[str, Any]] = {
    "url": {**_TEXTS, "description": "as Apprise takes it; ${NAME} is filled in from the environment"},
    "command": {**_TEXTS, "description": "runs in bash, with AUTORESEARCH_TITLE and AUTORESEARCH_MESSAGE"},
    "events": {"description": "which ones; default all", "anyOf": [_EVENTS, {"type": "array", "items": _EVENTS}]},
}
"""Every key of an entry of `notify:`, as its JSON schema."""


def parse_recipients(value: object, source: str, environ: Mapping[str, str]) -> Recipients:
    """The recipients in the value of `notify:`: a text names URLs, with white space between them.

    `source`: where it stands, for the problems.
    """
    each: list[Recipient] = []
    problems: list[str] = []
    variables: list[str] = []
    if isinstance(value, str):
        value = [] if value.strip() == OFF else value.split()
    entries = value if isinstance(value, list) else [] if value is None else [value]
    for number, entry in enumerate(entries, 1):
        try:
            for url, command, kinds in _entry(entry):
                variables += (_SHELL_REFERENCE if command else _REFERENCE).findall(command or url)
                each.append(_recipient(len(each) + 1, url, command, kinds, environ))
        except ValueError as error:
            which = f"entry {number}: " if len(entries) > 1 else ""
            problems.append(clean_text(f"{source}: notify: {which}{error}"))
    return Recipients(tuple(each), tuple(problems), tuple(dict.fromkeys(variables)))


def _entry(entry: object) -> Iterator[tuple[str, str, tuple[NoticeKind, ...]]]:
    """(url, command, kinds) for each recipient of an entry. Raises ValueError (one clause)."""
    if isinstance(entry, str) and entry.strip():
        yield entry.strip(), "", tuple(NoticeKind)
        return
    if not isinstance(entry, dict):
        raise ValueError("an entry is a URL, {url: ...} or {command: ...}")
    if unknown := sorted(map(str, set(entry) - set(RECIPIENT))):
        raise ValueError(f"unknown key {unknown[0]!r}; known: {', '.join(RECIPIENT)}")
    url, command = entry.get("url"), entry.get("command")
    if bool(url) == bool(command):
        raise ValueError("an entry has either a url or a command")
    kinds = tuple(dict.fromkeys(_kinds(entry.get("events", "all"))))
    values = url or command
    for one in values if isinstance(values, list) else [values]:
        if not isinstance(one, str) or not one.strip():
            raise ValueError(f"the {'url' if url else 'command'} is no text")
        yield (one.strip(), "", kinds) if url else ("", one.strip(), kinds)


def _kinds(events: object) -> Iterable[NoticeKind]:
    words = events if isinstance(events, list) else [events]
    if not words:
        raise ValueError("events: names none")
    for word in words:
        if isinstance(word, str) and word in GROUPS:
            yield from GROUPS[word]
        elif isinstance(word, str) and word in set(NoticeKind):
            yield NoticeKind(word)
        else:
            known = ", ".join([*NoticeKind, *GROUPS])
            raise ValueError(f"events: {word!r} is no event; known: {known}")


def _recipient(
    number: int, url: str, command: str, kinds: tuple[NoticeKind, ...], environ: Mapping[str, str]
) -> Recipient:
    if command:
        words = clean_text(" ".join(command.split()))
        return Recipient(number, "", command, kinds, f"command `{words if len(words) < 60 else words[:57] + '...'}`")
    if missing := [name for name in _REFERENCE.findall(url) if not environ.get(name)]:
        raise ValueError(f"{shown_url(url)}: the variable {missing[0]} is not set")
    whole = _REFERENCE.sub(lambda match: environ[match[1]], url).strip()
    match = _URL.match(whole)
    if match is None:
        raise ValueError("it is no URL, which begins with a scheme such as slack:// or mailto://")
    shown = shown_url(url) if _URL.match(url) else f"{match['scheme'].lower()}://{MASK}"
    return Recipient(number, whole, "", kinds, shown)


def shown_url(url: str) -> str:
    """`json://127.0.0.1:8080/***`: the scheme, and the host if it is certainly one; all else may be a token."""
    match = _URL.match(url)
    if match is None:
        return MASK
    host = _HOST.match(match["rest"])
    return f"{match['scheme'].lower()}://{f'{host[1]}/' if host else ''}{MASK}"
