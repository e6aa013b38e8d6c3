"""Agents by name. Only the one that is asked for is imported."""

from __future__ import annotations

import difflib
import importlib

from autoresearch.core.agents.agent import Agent, Chosen
from autoresearch.errors import UsageError
from autoresearch.plugins import PluginGroup

_CLASSES = {
    "claude": "Claude",
    "codex": "Codex",
    "opencode": "OpenCode",
    "gemini": "Gemini",
    "qwen": "Qwen",
    "aider": "Aider",
    "acp": "Acp",
    "command": "CommandAgent",
}
NAMES = tuple(_CLASSES)
PROGRAMS = tuple(name for name in NAMES if name not in ("acp", "command"))  # the others run what they are told


PLUGINS = PluginGroup("agents", NAMES, made=False)  # a class, or a function: Chosen -> Agent


def researcher(name: str, chosen: Chosen) -> Agent:
    """The agent of that name.

    Raises UsageError for an unknown one, and for a template of `acp` or `command` that cannot be used.
    """
    known_as = name.strip().lower()
    if known_as in _CLASSES:
        module = importlib.import_module(f"autoresearch.agents.{known_as}")
        adapter: Agent = getattr(module, _CLASSES[known_as])(chosen)
        return adapter
    if (make := PLUGINS.get(name)) is not None:
        made: Agent = make(chosen)
        return made
    known = (*NAMES, *PLUGINS.names())
    near = difflib.get_close_matches(name.strip().lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    raise UsageError(f"there is no agent {name!r}", hint=hint, code="unknown_agent")


def others(agent: Agent, chosen: Chosen) -> list[Agent]:
    """Every other agent that has a program of its own, plug-ins included."""
    ours = [researcher(name, chosen) for name in PROGRAMS if name != agent.name]
    return [*ours, *(make(chosen) for name, make in PLUGINS.usable().items() if name != agent.name)]
