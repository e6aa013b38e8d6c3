"""OpenAI's Codex, headless: `codex exec --json`.

Flags and events were seen with 0.169.0. An `error` event, or an item of the type error, is a warning or a retry;
the turn has failed when `turn.failed` says so. With a dead endpoint it reconnects for ever.

`turn.completed` counts the tokens of the whole thread, earlier turns included. So a session is `THREAD:IN:OUT` in ours,
and each turn is charged with the difference; nothing else is kept between turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput
from autoresearch.agents.events import count, events, inside, listed, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn
from autoresearch.core.text.regex import later

_REFUSED = later(rb"ERROR \S{1,80}: error=([^\n]{0,400}(?:rejected|blocked by|not permitted|denied)[^\n]{0,200})")
_ACTIONS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search"})


class Codex(Adapter):
    """Codex. A session goes on from any directory."""

    name = "codex"
    traits = Traits(schema=True, resumes=True, sandbox=True, web=True)
    secrets = ("OPENAI_*", "CODEX_*")
    home_paths = (("CODEX_HOME", ".codex", ""),)

    def argv(self, turn: Turn) -> tuple[str, ...]:
        thread = _counted(turn.session)[0]
        argv = [self.program(), "exec", *(["resume", thread] if thread else []), "-", "--json", "--skip-git-repo-check"]
        web = "live" if self.searches(turn) else "disabled"  # its own default is `cached`
        for setting in (f'sandbox_mode="{self._sandbox(turn)}"', f'web_search="{web}"', 'approval_policy="never"'):
            argv += ["-c", setting]
        argv += ["-c", "analytics.enabled=false"]
        argv += self.model
        argv += ["--output-schema", str(turn.schema_file)] if turn.schema is not None else []
        return (*argv, *self.chosen.extra)

    def _sandbox(self, turn: Turn) -> str:
        if self.chosen.outside:
            return "danger-full-access"  # ours is around it, and sandboxes do not nest
        return "workspace-write" if turn.role.writes else "read-only"

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard = AgentOutput()
        for event in events(spoken.out):
            match event.get("type"):
                case "thread.started":
                    heard.session = words(event.get("thread_id"))
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
        _charge(turn, heard)
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


def _charge(turn: Turn, agent_output: AgentOutput) -> None:
    """Take what earlier turns used up out of the counts; the session is told with the sums, for the next turn.

    A turn that told no counts (it was ended early) leaves them as they are; the next one is charged with what it used.
    """
    name, before_in, before_out = _counted(turn.session)
    if agent_output.session != name:
        before_in = before_out = 0
    read, written = agent_output.tokens_in, agent_output.tokens_out
    if read is not None and read >= before_in:
        agent_output.tokens_in = read - before_in
    if written is not None and written >= before_out:
        agent_output.tokens_out = written - before_out
    if agent_output.session:
        agent_output.session += f":{max(before_in, read or 0)}:{max(before_out, written or 0)}"


def _counted(session: str) -> tuple[str, int, int]:
    name, _, counts = session.partition(":")
    read, _, written = counts.partition(":")
    known = counts.isascii() and read.isdecimal() and written.isdecimal() and len(counts) < 40
    return name, int(read) if known else 0, int(written) if known else 0
