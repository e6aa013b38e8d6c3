"""Agents by name."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from functools import partial

from autoresearch.agents.acp import KNOWN, Acp
from autoresearch.agents.claude import Claude
from autoresearch.agents.codex import Codex
from autoresearch.agents.command import CommandAgent
from autoresearch.core.agents.agent import Agent, Chosen
from autoresearch.errors import UsageError
from autoresearch.plugins import PluginGroup

_MAKE: dict[str, Callable[[Chosen], Agent]] = {
    **{"claude": Claude, "codex": Codex},
    **{name: partial(Acp, name=name) for name in KNOWN},
    **{"acp": Acp, "command": CommandAgent},
}
NAMES = tuple(_MAKE)
PROGRAMS = tuple(name for name in NAMES if name not in ("acp", "command"))  # the others run what they are given
PLUGINS = PluginGroup("agents", NAMES, made=False)  # a class, or a function: Chosen -> Agent
AIDER = (  # the `agent_command` that drives it; it folds lines at COLUMNS, JSON too
    *("bash", "-c"),
    'case $0 in propose|review) set -- "$@" --chat-mode ask;; esac; COLUMNS=10000 exec aider'
    " --yes-always --no-auto-commits --no-dirty-commits --no-gitignore --no-pretty --no-stream --no-check-update"
    " --no-suggest-shell-commands --no-detect-urls --chat-history-file /dev/null --input-history-file /dev/null"
    ' --message-file "$@"',
    *("{role}", "{prompt_file}"),
)


def researcher(name: str, chosen: Chosen) -> Agent:
    """The agent of that name.

    Raises UsageError for an unknown one, and for a template of `acp` or `command` that cannot be used.
    """
    key = name.strip().lower()
    if make := _MAKE.get(key) or PLUGINS.get(name):
        return make(chosen)
    known = (*NAMES, *PLUGINS.names())
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    if key == "aider":
        hint = f"`agent: command` drives it, with `agent_command: {json.dumps(AIDER)}` and its key in `agent_env`"
    raise UsageError(f"there is no agent {name!r}", hint=hint, code="unknown_agent")


def others(agent: Agent, chosen: Chosen) -> list[Agent]:
    """Every other agent that has a program of its own, plug-ins included."""
    ours = [researcher(name, chosen) for name in PROGRAMS if name != agent.name]
    return [*ours, *(make(chosen) for name, make in PLUGINS.usable().items() if name != agent.name)]
