"""The keys of a campaign file that are about its agent, and the AgentSpec that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.lab.campaign_setup.campaign_keys import AGENT_KEYS, CAMPAIGN_KEYS, converted

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
# What a single agent turn outside a campaign reads of them, beside `agent` itself.
TURN_KEYS = {
    key.name: key.type
    for key in AGENT_KEYS
    if key.name in ("agent_model", "agent_program", "agent_args", "agent_command", "agent_env", "sandbox",
                    "turn_timeout", "turn_steps", "turn_usd")
}  # fmt: skip


def research_spec(values: Mapping[str, Any]) -> AgentSpec:
    """The spec that checked values make."""
    return AgentSpec.from_json({name: values[key] for key, name in _FIELDS.items()})


def turn_spec(agent: str, values: Mapping[str, Any]) -> AgentSpec:
    """The spec of an agent that is asked outside a campaign; ValueError names the key of a bad value."""
    whole = {key.name: key.default for key in AGENT_KEYS} | {"agent": agent}
    for name, value in values.items():
        try:
            whole[name] = converted(CAMPAIGN_KEYS[name], value, 0.0)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    return research_spec(whole)
