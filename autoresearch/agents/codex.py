"""OpenAI's Codex, headless: `codex exec --json`.

Flags and events were seen with 0.169.0. An `error` event, or an item of the type error, is a warning or a retry;
the turn has failed when `turn.failed` says so. With a dead endpoint it reconnects for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput, count, events, inside, listed, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn
from autoresearch.core.text.regex import later

_REFUSED = later(rb"ERROR \S{1,80}: error=([^\n]{0,400}(?:rejected|blocked by|not permitted|denied)[^\n]{0,200})")
_ACTIONS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search"})


class Codex(Adapter):
    """Codex."""

    name = "codex"
    traits = Traits(sandbox=True, web=True)
    secrets = ("OPENAI_*", "CODEX_*")
    home_paths = (("CODEX_HOME", ".codex", ""),)

    def argv(self, turn: Turn) -> tuple[str, ...]:
        argv = [self.program(), "exec", "-", "--json", "--skip-git-repo-check"]
        web = "live" if self.searches(turn) else "disabled"  # its own default is `cached`
        for setting in (f'sandbox_mode="{self._sandbox(turn)}"', f'web_search="{web}"', 'approval_policy="never"'):
            argv += ["-c", setting]
        argv += ["-c", "analytics.enabled=false"]
        argv += self.model
        return (*argv, *self.chosen.extra)

    def _sandbox(self, turn: Turn) -> str:
        if self.chosen.outside:
            return "danger-full-access"  # ours is around it, and sandboxes do not nest
        return "workspace-write" if turn.role.writes else "read-only"

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard = AgentOutput()
        for event in events(spoken.out):
            match event.get("type"):
                case "item.completed":
                    _item(inside(event, "item"), heard)
                case "error":
                    heard.trouble = words(event.get("message"))
                case "turn.failed":
                    heard.error = words(inside(event, "error").get("message")) or heard.trouble or "the turn failed"
                case "turn.completed":
                    heard.trouble, usage = "", inside(event, "usage")
                    heard.tokens_in = count(usage.get("input_tokens"))
                    heard.tokens_out = count(usage.get("output_tokens"))
        heard.denied += _refusals(spoken.err)
        return heard.answer(turn, spoken)


def _item(item: Mapping[str, Any], agent_output: AgentOutput) -> None:
    kind = words(item.get("type"))
    agent_output.trouble = agent_output.trouble if kind == "error" else ""  # what goes on has got over it
    if kind == "agent_message":
        agent_output.text = words(item.get("text"))
    elif kind in _ACTIONS:
        agent_output.acts += 1
        if item.get("status") == "declined" or (kind == "file_change" and item.get("status") == "failed"):
            paths = [words(inside(each).get("path")) for each in listed(item, "changes")]
            agent_output.denied.append(f"{kind} {words(item.get('command')) or ' '.join(paths)}")


def _refusals(err: bytes) -> list[str]:
    """What the sandbox refused; it is told on standard error alone, and no item is made of it."""
    return [f"codex's sandbox: {line[1].decode('utf-8', 'replace')}" for line in _REFUSED.finditer(err[-(1 << 20) :])]
