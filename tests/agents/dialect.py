"""A way in which agents talk to a model: requests read into `Asked`, answers written as it wants them.

An answer is JSON (one dict) or events (name or None, data). Sizes of an answer are claims: what a model would
have counted is not known here, so each answer claims a fourth of its bytes unless its step says otherwise.
Formats: platform.claude.com/docs (Messages), developers.openai.com (Responses, Chat Completions), ai.google.dev
(generateContent), and what the agents named in `tests/real/agents.json` were seen to send.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.agents.script import Asked

Body = Mapping[str, Any]
Event = tuple[str | None, Any]
Usage = tuple[int, int]  # tokens in, tokens out
CHUNK = 4096  # characters of one text delta


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: a tool's call, or text."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    usage: Usage = (10, 5)
    namespace: str = ""

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments)

    def chunks(self) -> Iterator[str]:
        """The text in the pieces that a stream has."""
        for at in range(0, max(len(self.text), 1), CHUNK):
            yield self.text[at : at + CHUNK]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of request is read and answered."""

    name: str
    read: Callable[[Body, str], Asked]
    whole: Callable[[Said, str], Body]
    events: Callable[[Said, str], Iterator[Event]]
    fault: Callable[[int, str], Body]


def new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:20]


def texts_of(content: Any) -> str:
    """All text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


# A message of any dialect: (is a user's own words, text, names of called tools, result of a tool)
Message = tuple[bool, str, Sequence[str], str]


def asked_of(dialect: str, body: Body, messages: Sequence[Message], system: str, **more: Any) -> Asked:
    place = max((n for n, (user, *_) in enumerate(messages) if user), default=-1)
    calls = tuple(name for _, _, names, _ in messages[place + 1 :] for name in names)
    results = [result for *_, result in messages[place + 1 :] if result]
    return Asked(
        dialect=dialect,
        text=messages[place][1] if place >= 0 else "",
        place=place,
        calls=calls,
        result=results[-1] if results else "",
        prose="\n".join([system, *(text for _, text, _, _ in messages)]),
        model=str(body.get("model", "")),
        **more,
    )


def openai_fault(status: int, message: str) -> Body:
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
    return {"error": {"message": message, "type": "error", "param": None, "code": codes.get(status)}}
