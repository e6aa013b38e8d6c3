"""OpenCode, headless: `opencode run --format json`.

Flags and events were seen with 1.18.33. It works in $PWD. A turn whose wish was refused exits with 0, and its stream
just ends: the reason of the last `step_finish` is `stop` only if the model came to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput, complaints
from autoresearch.agents.events import added, count, events, inside, money, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn, TurnFault
from autoresearch.core.text.regex import later

_WORKING = {"edit": "allow", "external_directory": "deny"}  # what it would have to ask for ends the whole turn
# better than its plan agent, which keeps the shell
_LOOKING = {**_WORKING, "edit": "deny", "bash": "deny", "task": "deny"}
_LOGGED = later(
    r'timestamp=(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z) level=ERROR [^\n]{0,400}?message="stream error"'
    r'[^\n]{0,400}? small=(?P<small>\w+) [^\n]{0,400}?error\.error="(?P<error>[^"\n]{0,2000})'
)


class OpenCode(Adapter):
    """OpenCode. A session goes on in the same repository."""

    name = "opencode"
    traits = Traits(resumes=True, money=True, web=True)
    secrets = ("OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY")
    home_paths = (
        ("XDG_CONFIG_HOME", ".config", "opencode"),
        ("XDG_DATA_HOME", ".local/share", "opencode"),
        ("XDG_STATE_HOME", ".local/state", "opencode"),
        ("XDG_CACHE_HOME", ".cache", "opencode"),
    )

    def argv(self, turn: Turn) -> tuple[str, ...]:
        argv = [self.program(), "run", "--format", "json", "--print-logs", "--log-level", "WARN"]
        argv += self.model
        argv += ["--session", turn.session] if turn.session else []
        return (*argv, *self.chosen.extra)

    def environment(self, turn: Turn) -> Mapping[str, str]:
        permission = dict(_LOOKING)
        if turn.role.writes:
            permission = _WORKING | {"external_directory": "allow"} if self.chosen.outside else dict(_WORKING)
        searches = self.searches(turn)
        permission |= dict.fromkeys(("webfetch", "websearch"), "allow" if searches else "deny")
        found = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_PERMISSION": json.dumps(permission)}
        return found | ({"OPENCODE_ENABLE_EXA": "1"} if searches else {})  # without it only its own models may search

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, reason, at = AgentOutput(), "", 0
        for event in events(spoken.out):
            part, at = inside(event, "part"), count(event.get("timestamp")) or at
            heard.session = words(event.get("sessionID")) or heard.session
            match event.get("type"):
                case "text":
                    heard.text = words(part.get("text"))
                case "tool_use":
                    _tool(part, heard)
                case "step_finish":
                    reason = words(part.get("reason"))
                    _step(part, heard)
                case "error":
                    _error(inside(event, "error"), heard)
        heard.trouble = _trouble(spoken.err, at / 1000)
        if not heard.error and spoken.returncode == 0 and reason not in ("", "stop"):
            heard.fault, heard.error = TurnFault.ENDED, f"it stopped early (the last step's reason is {reason})"
        return heard.answer(turn, spoken)


def _trouble(err: bytes, since: float) -> str:
    """What it tries again and again, if it came to nothing since: quotas, servers and networks, without any end.

    It is told in the log on standard error alone; `since`: epoch seconds of the last event.
    """
    logged = [line for line in _LOGGED.finditer(complaints(err)) if line["small"] != "true"]
    if not logged or datetime.fromisoformat(logged[-1]["at"]).timestamp() < since:
        return ""
    return f"it tries again: {logged[-1]['error']}"


def _tool(part: Mapping[str, Any], agent_output: AgentOutput) -> None:
    agent_output.acts += 1
    state = inside(part, "state")
    said = words(state.get("error"))
    if state.get("status") == "error" and ("permission" in said or "rejected" in said or "prevents" in said):
        wanted = inside(state, "input")
        told = words(wanted.get("filePath")) or words(wanted.get("command")) or said
        agent_output.denied.append(f"{words(part.get('tool'))} {told}")


def _step(part: Mapping[str, Any], agent_output: AgentOutput) -> None:
    tokens = inside(part, "tokens")
    cache = inside(tokens, "cache")
    agent_output.steps += 1
    read = added(count(tokens.get("input")), count(cache.get("read")), count(cache.get("write")))
    written = added(count(tokens.get("output")), count(tokens.get("reasoning")))
    agent_output.tokens_in, agent_output.tokens_out = (
        added(agent_output.tokens_in, read),
        added(agent_output.tokens_out, written),
    )
    if usd := money(part.get("cost")):  # 0 is said of every model without a price
        agent_output.usd = (agent_output.usd or 0.0) + usd


def _error(error: Mapping[str, Any], agent_output: AgentOutput) -> None:
    data = inside(error, "data")
    name = words(error.get("name"))
    agent_output.error = f"{name}: {words(data.get('message')) or words(error.get('message'))}"
    agent_output.status = count(data.get("statusCode"))
    if name == "ProviderAuthError":
        agent_output.fault = TurnFault.LOGIN
