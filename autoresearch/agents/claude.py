"""Claude Code, headless: `claude -p --output-format stream-json`.

Flags and events were seen with 2.1.197 and 2.1.329. `subtype: success` is said of a turn whose API was down
(`is_error` with `api_error_status`) and of one whose every edit was denied (`permission_denials`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autoresearch.agents.adapter import Adapter, AgentOutput, added, count, events, inside, listed, money, wish, words
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn, TurnFault

_LOOKING = "Read,Glob,Grep"
_WEB = "WebSearch,WebFetch"
_WORKING = f"{_LOOKING},Edit,Write,Bash"
_FAULTS = {"error_max_turns": TurnFault.TURNS, "error_max_budget_usd": TurnFault.MONEY}
_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_READ_BY_MODEL = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class Claude(Adapter):
    """Claude Code."""

    name = "claude"
    traits = Traits(money=True, web=True)
    secrets = ("ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*", "CLAUDE_CONFIG_DIR")
    home_paths = (("CLAUDE_CONFIG_DIR", ".claude", ""), ("CLAUDE_CONFIG_DIR", ".claude.json", ""))

    def environment(self, turn: Turn) -> Mapping[str, str]:
        return {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # they are killed with the turn, and reported as a success
            "CLAUDE_CODE_MAX_RETRIES": "3",  # its own ten take minutes of the turn; the lab has more patience
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_ENV_FILE": str(turn.shell_file),  # it gives its shells its own PATH, and reads this after that
        }

    def argv(self, turn: Turn) -> tuple[str, ...]:
        # not its plan mode: that bids the model to write a plan into a file, above all that it was told
        mode, tools = ("acceptEdits", _WORKING) if turn.role.writes else ("dontAsk", _LOOKING)
        argv = [self.program(), "-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
        argv += ["--permission-mode", mode, "--tools", f"{tools},{_WEB}" if self.searches(turn) else tools]
        argv += ["--allowedTools", _WEB] if self.searches(turn) else []
        argv += ["--allowedTools", tools] if turn.role.writes and self.chosen.outside else []
        argv += self.model
        argv += ["--max-turns", str(turn.bounds.turns)] if turn.bounds.turns is not None else []
        argv += ["--max-budget-usd", f"{turn.bounds.usd:g}"] if turn.bounds.usd is not None else []
        return (*argv, *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, messages, ended = AgentOutput(), list[Mapping[str, Any]](), False
        for event in events(spoken.out):
            match event.get("type"):
                case "assistant":
                    messages.append(inside(event, "message"))
                    content = listed(inside(event, "message"), "content")
                    heard.acts += sum(inside(each).get("type") == "tool_use" for each in content)
                case "system" if event.get("subtype") == "api_retry":
                    heard.trouble = words(event.get("error")) or f"status {event.get('error_status')}"
                    heard.status = count(event.get("error_status"))
                case "result":
                    _result(event, heard)
                    ended = True
        if not ended:
            heard.tokens_in, heard.tokens_out = _so_far(messages)
        return heard.answer(turn, spoken)


def _result(event: Mapping[str, Any], agent_output: AgentOutput) -> None:
    text, subtype = words(event.get("result")), words(event.get("subtype"))
    agent_output.trouble, agent_output.status = "", count(event.get("api_error_status"))
    agent_output.usd = money(event.get("total_cost_usd"))
    agent_output.tokens_in, agent_output.tokens_out = _tokens(event)
    agent_output.fault = _FAULTS.get(subtype)
    agent_output.denied = [wish(each, "tool_input") for each in listed(event, "permission_denials")]
    if event.get("is_error") or subtype != "success":
        agent_output.error = "; ".join(map(words, listed(event, "errors"))) or text or subtype or "it failed"
    else:
        agent_output.text = text


def _so_far(messages: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None]:
    """Tokens of a turn that was ended before it could tell: of each of its messages, counted once."""
    last = {words(message.get("id")): inside(message, "usage") for message in messages}
    return (
        added(*(count(usage.get(key)) for usage in last.values() for key in _READ)),
        added(*(count(usage.get("output_tokens")) for usage in last.values())),
    )


def _tokens(event: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """By model, where it says so: `usage` leaves out the last request of a turn that met its budget."""
    models = [inside(each) for each in inside(event, "modelUsage").values()]
    read = added(*(count(each.get(key)) for each in models for key in _READ_BY_MODEL))
    written = added(*(count(each.get("outputTokens")) for each in models))
    usage = inside(event, "usage")
    return (
        added(*(count(usage.get(key)) for key in _READ)) if read is None else read,
        count(usage.get("output_tokens")) if written is None else written,
    )
