"""What the words of an error mean: each with a near miss."""

from __future__ import annotations

import pytest

from autoresearch.agents.adapter import by_status, meaning
from autoresearch.core.agents.agent import TurnFault

LOGIN, QUOTA, OUTAGE = TurnFault.LOGIN, TurnFault.QUOTA, TurnFault.OUTAGE


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("Invalid API key · Fix external API key", LOGIN),
        ("Not logged in · Please run /login", LOGIN),
        ("OAuth token has expired. Please obtain a new token", LOGIN),
        ("unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x/v1", LOGIN),
        ("Your access token could not be refreshed. Please log out and sign in again.", LOGIN),
        ('[API Error: {"error":{"code":401,"message":"API key not valid. Please pass a valid API key."}}]', LOGIN),
        ("When using Gemini API, you must specify the GEMINI_API_KEY: please set an Auth method", LOGIN),
        ("The API provider is not able to authenticate you. litellm.AuthenticationError", LOGIN),
        ("Credit balance is too low", LOGIN),
        ("429 You exceeded your current quota (insufficient_quota)", LOGIN),
        ("Claude AI usage limit reached|1749924000", QUOTA),
        ("You've hit your session limit · resets 3pm (UTC)", QUOTA),
        ("You’ve hit your usage limit. Upgrade to Pro or try again later.", QUOTA),
        ("API Error: Request rejected (429) · This request would exceed your rate limit.", QUOTA),
        ("exceeded retry limit, last status: 429 Too Many Requests", QUOTA),
        ("RESOURCE_EXHAUSTED: You exceeded your current quota", QUOTA),
        ("API Error: 529 Overloaded. This is a server-side issue", OUTAGE),
        ("[API Error: 500 The server had an error]", OUTAGE),
        ("Reconnecting... waiting for network (Connection failed: error sending request)", OUTAGE),
        ("API Error: Unable to connect to API (ConnectionRefused)", OUTAGE),
        ("getaddrinfo ENOTFOUND api.anthropic.com", OUTAGE),
        ("litellm.InternalServerError: InternalServerError: OpenAIException - Connection error.", OUTAGE),
        ("unexpected status 503 Service Unavailable", OUTAGE),
        ("Request timed out", OUTAGE),
        ("No conversation found with session ID: 401f429a-5000-4290-8529-500000000000", None),
        ("the file has 5290 lines and 4290 words, at port 14290", None),
        ("Unknown model: gpt-500", None),
        ("prompt is too long: 214290 tokens > 200000 maximum", None),
        ("", None),
    ],
)
def test_words(said: str, fault: TurnFault | None) -> None:
    assert meaning(said) is fault


def test_a_status_says_it_where_words_do_not() -> None:
    assert meaning("it failed", 429) is QUOTA and meaning("it failed", 529) is OUTAGE
    assert meaning("Credit balance is too low", 429) is LOGIN, "it does not pass by itself"
    assert [by_status(status) for status in (None, 200, 400, 404, 600)] == [None] * 5
