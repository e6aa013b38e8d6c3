"""Agents by name. Only the one that is asked for is imported."""

from __future__ import annotations

import difflib

from autoresearch.core.agents.agent import Agent, Chosen
from autoresearch.errors import UsageError

NAMES = ("claude", "codex", "opencode", "gemini", "qwen", "aider", "command")


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
    near = difflib.get_close_matches(name.strip().lower(), NAMES, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(NAMES)}"
    raise UsageError(f"there is no agent {name!r}", hint=hint, code="unknown_agent")


def describe() -> dict[str, str]:
    """Every agent that has a program of its own, with that program's name; whether it is installed is not looked at."""
    return {name: researcher(name, Chosen()).program() for name in NAMES if name != "command"}
