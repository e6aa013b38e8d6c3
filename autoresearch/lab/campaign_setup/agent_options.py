"""The keys of a campaign file that are about its agent, and the AgentSpec that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.core.agents.agent import AgentSpec

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


def research_spec(values: Mapping[str, Any]) -> AgentSpec:
    """The spec that checked values make."""
    return AgentSpec.from_json({name: values[key] for key, name in _FIELDS.items()})
