"""The JSON schema of a proposal, in a form that every agent accepts.

Codex passes the schema on as OpenAI's strict structured output, where every object must have
`additionalProperties: false` and require all of its properties, and where free maps are not allowed: therefore
overrides are a list of {key, value}. Claude Code and qwen-code turn it into a tool. Other agents see it in the prompt.
Only the keywords that all of them know are used: no pattern, no bounds, no references; `core.agents.proposals`
checks those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = ("config", "code", "prompt", "data")
DIRECTIONS = ("up", "down", "same")
SLUG = "lower-case letters, digits and single hyphens, 2 to 40 characters"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _one_of(words: tuple[str, ...], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), "description": description}


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description}


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object that holds these properties, all of them, and nothing else."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


_OVERRIDE = closed(
    {
        "key": _text("the dotted key, flag or $NAME as it is listed; + before it adds a key that the recipe lacks"),
        "value": _text("the value as JSON: 0.001, true, [1, 2]; a word such as cosine may stand without quotes"),
    }
)
_EXPECTED = closed(
    {
        "metric": _text("the objective, or another metric that the runs record"),
        "direction": _one_of(DIRECTIONS, "where it is expected to go; same only for a simpler idea"),
        "size": _text("by how much, in the metric's unit, and from when on: +0.02 by step 40"),
    }
)
_HYPOTHESIS = closed(
    {
        "slug": _text(f"the name of the idea and of its branch: {SLUG}"),
        "title": _text("one line: what is changed"),
        "rationale": _text("what was seen, why this should help, what would disprove it; of code: what to change"),
        "expected_effect": _EXPECTED,
        "kind": _one_of(KINDS, "config changes listed settings only; the others change files, in a turn of their own"),
        "overrides": _list(_OVERRIDE, "settings to change; empty where only files change"),
        "files": _list(_text("a path in the repository"), "files that have to be changed; empty for config"),
        "risk": _text("what may go wrong, and how that would be seen"),
        "parent": _text("best, baseline, or the slug of an attempted idea that this one builds on"),
        "simpler": {"type": "boolean", "description": "removes something: is kept when it is only as good"},
    }
)
SCHEMA: Mapping[str, Any] = closed({"hypotheses": _list(_HYPOTHESIS, "the best first")})
"""The schema of the whole answer, {"hypotheses": [...]}."""
