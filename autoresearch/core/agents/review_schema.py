"""The answer of a review, a verdict with reasons: its strict JSON schema, and the check of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.core.agents.proposal_text import one_line

ACCEPT, REFUSE = "accept", "refuse"
MOST_REASONS = 5
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["verdict", "reasons"],
    "properties": {
        "verdict": {"type": "string", "enum": [ACCEPT, REFUSE]},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
}


def read_review(data: object) -> tuple[bool, tuple[str, ...]]:
    """Whether the review refuses the diff, and its reasons, one line each. ValueError, one clause, if invalid."""
    if not isinstance(data, Mapping):
        raise ValueError("the answer is no object")
    verdict, reasons = data.get("verdict"), data.get("reasons")
    if verdict not in (ACCEPT, REFUSE):
        raise ValueError(f"verdict is neither {ACCEPT} nor {REFUSE}")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise ValueError("reasons is no list of texts")
    lines = tuple(line for reason in reasons[:MOST_REASONS] if (line := one_line(reason, 400)))
    if verdict == REFUSE and not lines:
        raise ValueError("it refuses without a reason")
    return verdict == REFUSE, lines
