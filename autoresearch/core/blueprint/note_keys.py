"""The keys that the notes of a blueprint may declare, and the syntax of a declaring line."""

from __future__ import annotations

import re

from autoresearch.core.blueprint import swarm_notes

TEXTS = (
    *("trainer", "launcher", "metric", "direction", "slug", "first_step", "keep_children", "resume", "record_metrics"),
    *("evaluate_time", "seed"),
    *swarm_notes.TEXTS,
)
LISTS = (
    *("prepare", "evaluate", "cleanup", "env", "requires_env", "include", "writable", "source"),
    *("step_line", "validation_line"),
    *swarm_notes.COMMANDS,
)
_ALIASES = {
    "sources": "source", "metrics_file": "source", "metric_file": "source", "metric_source": "source",
    "required_env": "requires_env", "environment": "env", "prepares": "prepare", "objective": "metric",
    "framework": "trainer", "includes": "include",
}  # fmt: skip
ITEM = re.compile(
    r"^(?P<indent>\s*)(?P<bullet>[-*+•]\s+)?(?:\*\*|`)?(?P<key>[A-Za-z][A-Za-z_ -]{1,20}?)(?:\*\*|`)?\s?"
    r"(?:：|:(?:\*\*)?(?=\s|$))\s*(?P<rest>.*)$"
)
"""`- trainer: verl`, with its bullet and emphasis or without."""


def key_of(word: str) -> str:
    """The key that a word names, directly or as an alias; "" for any other word."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    key = _ALIASES.get(key, key)
    return key if key in TEXTS or key in LISTS else ""


def declared_key(line: str) -> str:
    """The key that a bulleted line declares by its exact name; "" for any other line."""
    item = ITEM.match(line)
    if item is None or not item["bullet"] or len(item["indent"]) > 3:
        return ""
    return item["key"] if item["key"] in TEXTS or item["key"] in LISTS else ""
