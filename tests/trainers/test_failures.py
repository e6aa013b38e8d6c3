"""Each framework's own last words, with what must not be taken for one."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.root import classify, last_traceback
from autoresearch.trainers import registry

HEAD = "Traceback (most recent call last):"
VLLM = "ERROR 11-21 10:00:00 [hermes_tool_parser.py:140] "
PARSER = [
    "Error in extracting tool call from response.",
    HEAD,
    '  File "/v/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 110, in extract_tool_calls',
    "    raw = json.loads(text)",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
]
CLAIM = [
    HEAD,
    '  File "/code/ajet/tuner_lib/swarm_client.py", line 80, in claim',
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://localhost:10086/claim_episode",
]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (PARSER, None),
        ([VLLM + line for line in PARSER], None),
        (CLAIM, None),
        ([*CLAIM, *PARSER], None),
        (["episode 3f2 cannot be claimed: 404"], None),
        ([*PARSER, HEAD, '  File "a.py", line 1', "ValueError: boom"], "program"),
        ([HEAD, '  File "a.py", line 1', "FileNotFoundError: x", *PARSER], "program"),
        ([HEAD, '  File "a.py", line 1', "HTTPError: 404 Client Error: Not Found for url: http://h/m"], "program"),
    ],
)
def test_agentjet_and_what_harms_nothing(lines: list[str], kind: str | None) -> None:
    harmless = registry.by_name("agentjet").harmless()
    found = classify(lines, harmless)
    assert (found and found.kind.value) == kind


def test_others_know_nothing_harmless() -> None:
    assert registry.by_name("verl").harmless() == ()
    assert last_traceback(PARSER).endswith(PARSER[-1])
    assert last_traceback([*CLAIM, *PARSER], registry.by_name("agentjet").harmless()) == ""
