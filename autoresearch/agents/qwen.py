"""Qwen Code, headless: `qwen -o stream-json`, the prompt on standard input.

Flags and events were seen with 0.15.10: the events are shaped like those of Claude Code, the exit codes like those of
Gemini CLI. An API that is down is a success with the text `[API Error: ...]`. The tokens of a
resumed session are counted from its beginning (see `charge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput, charge, own_name, so_far
from autoresearch.agents.events import count, events, inside, listed, wish, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn, TurnFault

_UNHEEDED = "structured_output"  # the tool that the model did not call: its words may hold the JSON all the same
_NO_ANSWER = 408  # HTTP's request timeout


class Qwen(Adapter):
    """Qwen Code. A session goes on in the same directory."""

    name = "qwen"
    traits = Traits(schema=True, resumes=True, web=True)
    secrets = ("OPENAI_*", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "QWEN_*")
    home_paths = (("QWEN_HOME", ".qwen", ""),)
    exits = ((41, TurnFault.LOGIN), (53, TurnFault.TURNS))

    def argv(self, turn: Turn) -> tuple[str, ...]:
        # without a person, the default mode offers no tool that edits; its plan mode bids it to present a plan
        hands = "yolo" if self.chosen.outside else "auto-edit"  # auto-edit offers no shell
        mode = hands if turn.role.writes else "default"
        argv = [self.program(), "--output-format", "stream-json", "--approval-mode", mode]
        flag = "--allowed-tools" if self.searches(turn) else "--exclude-tools"
        argv += [word for tool in ("web_fetch", "web_search") for word in (flag, tool)]
        argv += self.model
        argv += ["--max-session-turns", str(turn.bounds.turns)] if turn.bounds.turns is not None else []
        argv += ["--json-schema", f"@{turn.schema_file}"] if turn.schema is not None else []
        argv += ["--resume", own_name(turn.session)] if turn.session else []
        return (*argv, *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, messages, ended = AgentOutput(), list[Mapping[str, Any]](), False
        for event in events(spoken.out):
            heard.session = words(event.get("session_id")) or heard.session
            match event.get("type"):
                case "assistant":
                    _message(listed(inside(event, "message"), "content"), heard)
                    messages.append(inside(event, "message"))
                case "result":
                    _result(event, heard)
                    ended = True
        if _UNHEEDED in heard.error and heard.text:
            heard.error, spoken = "", replace(spoken, returncode=0)
        if heard.session and not heard.steps and not heard.error:  # it retries quotas and errors without a word
            heard.trouble, heard.status = "its model did not answer, or only with errors", _NO_ANSWER
        if spoken.returncode:
            heard.fault = dict(self.exits).get(spoken.returncode, heard.fault)
        if not ended:
            heard.tokens_in, heard.tokens_out = so_far(messages, ("input_tokens",))
        charge(turn, heard, own=not ended)
        return heard.answer(turn, spoken)


def _message(content: list[Any], agent_output: AgentOutput) -> None:
    agent_output.steps += 1
    parts = [inside(each) for each in content]
    agent_output.acts += sum(part.get("type") == "tool_use" for part in parts)
    agent_output.text = (
        "".join(words(part.get("text")) for part in parts if part.get("type") == "text") or agent_output.text
    )


def _result(event: Mapping[str, Any], agent_output: AgentOutput) -> None:
    usage, text = inside(event, "usage"), words(event.get("result"))
    agent_output.tokens_in, agent_output.tokens_out = (
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
    )
    agent_output.data = inside(event, "structured_result") or inside(event, "structured_output") or None
    agent_output.denied = [wish(each, "tool_input") for each in listed(event, "permission_denials")]
    agent_output.text = text or agent_output.text
    if event.get("is_error") or event.get("subtype") != "success":
        agent_output.error = (
            words(inside(event, "error").get("message")) or text or words(event.get("subtype")) or "it failed"
        )
    elif text.startswith("[API Error"):
        agent_output.error = text
    if agent_output.error.startswith("[API Error"):
        agent_output.text = ""
        agent_output.fault = TurnFault.SILENT if "empty response" in agent_output.error else None
