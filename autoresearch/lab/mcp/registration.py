"""How each client registers the server: the command to run, or the text for a file. Nothing is written.

Sources of the formats: openai/codex codex-rs/config (`mcp_servers`, `env_vars`, `tool_timeout_sec`),
opencode.ai/docs/mcp-servers, the clients' own `mcp add --help`; docs/mcp.md says which were tested.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CLIENTS = ("claude", "codex", "gemini", "opencode", "cursor", "json")
NAME = "autoresearch"
CLAUDE_RULE = f"mcp__{NAME}__*"  # without it Claude Code denies every call of our tools where nobody is asked
CALL_S = 600  # a client's timeout of one tool call; longer than the longest `wait`

# Codex starts its servers with HOME, PATH, USER, LANG and little else; of the variables that a run may need, those that
# are set are named.
_NEEDED = ("XDG_STATE_HOME", "TMUX_TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "PYTHONPATH")
_NEEDED_BEGINNINGS = ("AUTORESEARCH_", "CUDA_", "HF_", "WANDB_", "SWANLAB_", "MLFLOW_", "NCCL_", "RAY_", "GIT_CONFIG_")


@dataclass(frozen=True, slots=True)
class Registration:
    """A command to run, or a file (as its documentation names it) and the text for it, or both."""

    line: str
    file: str
    text: str
    also: bool = False  # the file is wanted beside the command, not in its stead

    @property
    def lines(self) -> list[str]:
        """Lines for people: only the command if it is enough."""
        joined = "" if not self.line else "and, " if self.also else "or, "
        where = f"# {joined}in {self.file}:"
        text = [where, *self.text.splitlines()] if self.text else []
        return [self.line, *(["", *text] if text else [])] if self.line else text


def registration(client: str, environ: Mapping[str, str]) -> Registration:
    """The registration for a client of CLIENTS."""
    command = program()
    words = shlex.join(command)
    entry = {"command": command[0], "args": command[1:]}
    servers = _pretty({"mcpServers": {NAME: entry}})
    if client == "claude":
        rule = _pretty({"permissions": {"allow": [CLAUDE_RULE]}})
        return Registration(f"claude mcp add {NAME} -- {words}", ".claude/settings.local.json", rule, also=True)
    if client == "gemini":
        return Registration(f"gemini mcp add {NAME} {words}", "", "")
    if client == "codex":
        return Registration(f"codex mcp add {NAME} -- {words}", "~/.codex/config.toml", _toml(command, environ))
    if client == "opencode":
        local = {"type": "local", "command": command, "enabled": True, "timeout": CALL_S * 1000}
        return Registration("", "opencode.json", _pretty({"mcp": {NAME: local}}))
    return Registration("", ".cursor/mcp.json" if client == "cursor" else ".mcp.json", servers)


def program() -> list[str]:
    """The command that starts the server from anywhere: by name if PATH finds it, else by path."""
    beside = Path(sys.executable).with_name(NAME)
    found = shutil.which(NAME)
    if found and beside.exists() and Path(found).samefile(beside):
        return [NAME, "mcp"]
    if beside.exists():
        return [str(beside), "mcp"]
    return [found, "mcp"] if found else [sys.executable, "-m", NAME, "mcp"]


def _toml(command: list[str], environ: Mapping[str, str]) -> str:
    """The TOML table for Codex: names of variables, never their values."""
    passed = sorted(n for n in environ if n in _NEEDED or n.startswith(_NEEDED_BEGINNINGS))
    rows = [
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(command[0])}",
        f"args = {json.dumps(command[1:])}",
        f"tool_timeout_sec = {CALL_S}",
        *([f"env_vars = {json.dumps(passed)}"] if passed else []),
        "",
        f"[mcp_servers.{NAME}.tools.act]",
        'approval_mode = "approve"  # without it Codex asks before each start, and refuses where it cannot ask',
    ]
    return "\n".join(rows)


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2)
