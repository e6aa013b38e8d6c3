"""Agents by name. Only the one that is asked for is imported."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from autoresearch.core.agents.agent import Agent, Chosen
from autoresearch.errors import UsageError
from autoresearch.plugins import PluginGroup, why_unlike

NAMES = ("claude", "codex", "opencode", "gemini", "qwen", "aider", "command")


def make_agent(chosen: Chosen) -> Agent:
    """What a plug-in offers: a class, or a function, that is called like this."""
    raise NotImplementedError


def _checked(offered: Callable[[Chosen], Agent]) -> Callable[[Chosen], Agent]:
    if fault := why_unlike(offered(Chosen()), Agent):
        raise TypeError(fault)
    return offered


PLUGINS = PluginGroup("agents", make_agent, NAMES, make=_checked)


def researcher(name: str, chosen: Chosen) -> Agent:
    """The agent of that name.

    Raises UsageError for an unknown one, and for a template of `command` that cannot be used.
    """
    match name.strip().lower():
        case "claude":
            from autoresearch.agents.claude import Claude

            return Claude(chosen)
        case "codex":
            from autoresearch.agents.codex import Codex

            return Codex(chosen)
        case "opencode":
            from autoresearch.agents.opencode import OpenCode

            return OpenCode(chosen)
        case "gemini":
            from autoresearch.agents.gemini import Gemini

            return Gemini(chosen)
        case "qwen":
            from autoresearch.agents.qwen import Qwen

            return Qwen(chosen)
        case "aider":
            from autoresearch.agents.aider import Aider

            return Aider(chosen)
        case "command":
            from autoresearch.agents.command import CommandAgent

            return CommandAgent(chosen)
    if (make := PLUGINS.get(name)) is not None:
        made: Agent = make(chosen)
        return made
    known = (*NAMES, *(one.name for one in PLUGINS.installed()))
    near = difflib.get_close_matches(name.strip().lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    raise UsageError(f"there is no agent {name!r}", hint=hint, code="unknown_agent")


def others(agent: Agent, chosen: Chosen) -> list[Agent]:
    """Every other agent that has a program of its own, plug-ins included."""
    ours = [researcher(name, chosen) for name in NAMES if name not in (agent.name, "command")]
    return [*ours, *(make(chosen) for name, make in PLUGINS.usable().items() if name != agent.name)]


def describe() -> dict[str, str]:
    """Every agent that has a program of its own, with that program's name; whether it is installed is not looked at."""
    return {name: researcher(name, Chosen()).program() for name in NAMES if name != "command"}
