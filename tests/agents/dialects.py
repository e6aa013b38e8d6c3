"""Which dialect a request is in."""

from __future__ import annotations

from tests.agents.dialect import Dialect
from tests.agents.dialect_anthropic import ANTHROPIC
from tests.agents.dialect_chat import CHAT
from tests.agents.dialect_gemini import GEMINI
from tests.agents.dialect_responses import RESPONSES


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a request's path; None is no request to a model."""
    if path.endswith("/messages"):
        return ANTHROPIC
    if path.endswith("/responses"):
        return RESPONSES
    if path.endswith("/chat/completions"):
        return CHAT
    return GEMINI if path.endswith((":generateContent", ":streamGenerateContent")) else None
