"""Google's Gemini CLI, headless: `gemini -o stream-json`, the prompt on standard input.

Flags, events and exit codes were seen with 0.61.0: 41 not logged in, 42 bad input, 52 bad settings, 53 out of turns
(`maxSessionTurns` of its settings), 54 a tool's fatal error, 55 an untrusted directory, 130 cancelled, and else the
HTTP status modulo 256 (401 is 145). Some errors are told on standard error alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput, complaints
from autoresearch.agents.events import count, events, inside, wish, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn, TurnFault
from autoresearch.core.text.regex import later

_STATUS = {status % 256: status for status in (401, 403, 429, 500, 502, 503, 504)}
_TRIED = later(r"^Attempt \d+ failed[^\n]{0,600}(?:\nSuggested retry[^\n]{0,200})?", re.MULTILINE)
_REFUSED = ("denied", "not allowed", "plan mode", "policy", "outside", "not found in registry", "must be within")
_POLICIES = PurePath(__file__).parent


class Gemini(Adapter):
    """Gemini CLI. A session goes on in the same directory."""

    name = "gemini"
    traits = Traits(resumes=True, web=True)
    secrets = ("GEMINI_API_KEY", "GOOGLE_*")
    home_paths = (("GEMINI_CLI_HOME", "", ".gemini"),)
    exits = ((41, TurnFault.LOGIN), (53, TurnFault.TURNS))

    def argv(self, turn: Turn) -> tuple[str, ...]:
        # without a person, the default mode offers no tool that edits; its plan mode bids it to go on in phases
        hands = "yolo" if self.chosen.outside else "auto_edit"  # auto_edit offers no shell
        mode = hands if turn.role.writes else "default"
        argv = [self.program(), "--output-format", "stream-json", "--skip-trust", "--approval-mode", mode]
        argv += ["--policy", str(_POLICIES / ("gemini_web.toml" if self.searches(turn) else "gemini_no_web.toml"))]
        argv += self.model
        argv += ["--resume", turn.session] if turn.session else []
        return (*argv, *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, wanted = AgentOutput(), dict[str, str]()
        for event in events(spoken.out):
            match event.get("type"):
                case "init":
                    heard.session = words(event.get("session_id"))
                case "message" if event.get("role") == "assistant":
                    heard.text += words(event.get("content"))
                case "tool_use":
                    heard.acts, heard.text = heard.acts + 1, ""
                    wanted[words(event.get("tool_id"))] = wish(event, "parameters")
                case "tool_result":
                    _refusal(event, wanted, heard)
                case "error":
                    heard.trouble = words(event.get("message"))
                case "result":
                    _result(event, heard)
        if not heard.acts and not heard.text and (tried := _TRIED.findall(complaints(spoken.err))):
            heard.trouble = tried[-1]  # it waits out quotas and outages by itself, for longer than a turn may take
        if spoken.returncode:
            heard.fault = dict(self.exits).get(spoken.returncode, heard.fault)
            heard.status = _STATUS.get(spoken.returncode)
        return heard.answer(turn, spoken)


def _refusal(event: Mapping[str, Any], kinds: Mapping[str, str], agent_output: AgentOutput) -> None:
    said = words(inside(event, "error").get("message")) or words(event.get("output"))
    if event.get("status") == "error" and any(word in said.lower() for word in _REFUSED):
        agent_output.denied.append(f"{kinds.get(words(event.get('tool_id')), 'a tool')}: {said}")


def _result(event: Mapping[str, Any], agent_output: AgentOutput) -> None:
    stats = inside(event, "stats")
    read, both = count(stats.get("input_tokens")), count(stats.get("total_tokens"))
    agent_output.steps = agent_output.acts + 1
    agent_output.tokens_in, agent_output.tokens_out = read, count(stats.get("output_tokens"))
    if read is not None and both is not None and both >= read:
        agent_output.tokens_out = both - read  # with its thoughts
    if event.get("status") == "error":
        agent_output.error = words(inside(event, "error").get("message")) or agent_output.trouble or "it failed"
        agent_output.fault = TurnFault.SILENT if "empty response" in agent_output.error else None
    agent_output.trouble = ""
