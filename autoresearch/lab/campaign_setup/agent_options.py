"""The keys of a campaign file that are about its researcher, and the ResearchSpec that they make."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.metrics.python_values import truth

BUDGETS: dict[str, Any] = {"budget_usd": None, "budget_tokens": None}
RESEARCH: dict[str, Any] = {
    **BUDGETS,
    "agent": "",
    "agent_program": "",
    "agent_model": "",
    "agent_args": [],
    "agent_command": [],
    "agent_env": [],
    "agent_share": 0.5,
    "ideas_per_turn": 3,
    "turn_timeout": 1800.0,
    "turn_steps": 60,
    "turn_usd": None,
    "max_fixes": 2,
    "guard": [],
    "guard_timeout": 600.0,
    "protect": [],
    "allow": [],
    "review": False,
    "summarise": True,
    "sandbox": "auto",
    "hold": False,
    "tell": [],
}
KEYS = RESEARCH.keys()
WHOLE = {"ideas_per_turn": 1, "turn_steps": 1, "max_fixes": 0, "budget_tokens": 1}
_FIELDS = {
    "agent": "agent",
    "agent_program": "program",
    "agent_model": "model",
    "agent_args": "extra",
    "agent_command": "template",
    "agent_env": "keep",
    "agent_share": "share",
    "ideas_per_turn": "ideas",
    "turn_timeout": "turn_s",
    "turn_steps": "turn_steps",
    "turn_usd": "turn_usd",
    "max_fixes": "max_fixes",
    "guard": "guard",
    "guard_timeout": "guard_s",
    "protect": "protect",
    "allow": "allow",
    "review": "review",
    "summarise": "summarise",
    "sandbox": "sandbox",
    "hold": "hold",
    "tell": "notes",
}
_WORDS = ("agent_args", "agent_command")
_LISTS = ("agent_env", "guard", "protect", "allow", "tell")


def converted(key: str, value: Any, seconds: Callable[[Any], float]) -> Any:
    """The value in the type of its key. ValueError, TypeError with one clause where it has none."""
    if key in ("turn_timeout", "guard_timeout"):
        return seconds(value)
    if key in ("budget_usd", "turn_usd"):
        if isinstance(value, bool) or not float(value) > 0:
            raise ValueError(f"{value!r} is not a number above 0")
        return float(value)
    if key == "agent_share":
        if isinstance(value, bool) or not 0.0 <= float(value) <= 1.0:
            raise ValueError(f"{value!r} is not a number from 0 to 1")
        return float(value)
    if key in ("review", "summarise", "hold"):
        if (said := truth(value)) is None:
            raise ValueError(f"{value!r} is neither true nor false")
        return said
    if key == "sandbox" and value is False:  # `off` without quotes is false to YAML
        return "off"
    if key == "sandbox" and value not in ("auto", "need", "off"):
        raise ValueError(f"{value!r} is not one of auto, need, off")
    if key in _WORDS and isinstance(value, str):
        return shlex.split(value)
    if key in (*_WORDS, *_LISTS):
        if not isinstance(value, str | list | tuple):
            raise ValueError(f"{value!r} is no list")
        return [value] if isinstance(value, str) else [str(item) for item in value]
    return str(value).strip()


def research_spec(values: Mapping[str, Any]) -> AgentSpec:
    """The spec that checked values make."""
    found = {name: values[key] for key, name in _FIELDS.items()}
    return AgentSpec.from_json(found)
