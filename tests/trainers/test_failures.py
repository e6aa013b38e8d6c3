"""Each framework's own last words, with what must not be taken for one."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.root import classify, last_traceback
from autoresearch.trainers import registry


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["❌ Error in async loop: boom", "Traceback (most recent call last):", "ValueError: boom"], "program"),
        (["nemo_rl.algorithms.single_controller.RolloutStall: no rollout committed"], "hang"),
        (["(RolloutManager pid=7) Health check failed for rollout engine 3 (timeout). Killing actor"], "unknown"),
        (["(SGLangEngine pid=7) Timeout while flushing cache."], "unknown"),
        (["Job entrypoint command failed with exit code 1, last available logs"], "unknown"),
        (
            ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "Job 'ajet_a' failed"],
            "memory",
        ),
        (["The vLLM server can't be reached at http://h:8000 after 240.0 seconds."], "machine"),
        (["Timeout has been reached, stopping training early"], None),
        (["Max number of steps has been reached, stopping training early"], None),
        (['INFO:     33.184.122.180:57752 - "GET /health HTTP/1.1" 200 OK'], None),
        (["Server is not up yet. Retrying in 2.0 seconds..."], None),
        (["we doubled the timeout while flushing caches"], None),
    ],
)
def test_last_words(lines: list[str], kind: str | None) -> None:
    found = classify(lines)
    assert (found and found.kind.value) == kind


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
        (["Unexpected error: SWANLAB_API_KEY is not set in the environment. To use the swanlab logger"], "program"),
        ([HEAD, "RuntimeError: GPU memory check failed: all GPUs must have >= 95% free."], "machine"),
        ([HEAD, "ValueError: We found a configuration conflict between AgentJet and Verl!"], "program"),
        ([HEAD, "AssertionError: real_train_batch_size (128) must be divisible by minimal possible batch size (3)"],
         "program"),
        ([HEAD, "AssertionError: Model path /m/o/d does not exist. Please check your configuration."], "program"),
        (["Unexpected error: Python environment does not match current backbone 'verl'."], "program"),
        (["Error running subprocess: Command '['/v/bin/python']' returned non-zero exit status 1."], "unknown"),
        (["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
          "Error running subprocess: Command '['/v/bin/python']' returned non-zero exit status 1."], "memory"),
    ],
)  # fmt: skip
def test_agentjet_and_what_harms_nothing(lines: list[str], kind: str | None) -> None:
    harmless = registry.by_name("agentjet").harmless()
    found = classify(lines, harmless)
    assert (found and found.kind.value) == kind


def test_others_know_nothing_harmless() -> None:
    assert registry.by_name("verl").harmless() == ()
    assert last_traceback(PARSER).endswith(PARSER[-1])
    assert last_traceback([*CLAIM, *PARSER], registry.by_name("agentjet").harmless()) == ""
