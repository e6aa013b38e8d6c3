"""Agents that speak the Agent Client Protocol: those of the table below by name, any other by its command line.

A turn is our `acp_client`, which starts the agent and answers what it asks; its lines are read here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from autoresearch.agents.adapter import Adapter, AgentOutput, added, count, events, money, words
from autoresearch.core.agents.agent import Answer, Chosen, Spoken, Traits, Turn, TurnFault
from autoresearch.errors import UsageError

_HERE = Path(__file__).parent
CLIENT = _HERE / "acp_client.py"
_STOPS = {  # reasons other than `end_turn` for which a turn can stop
    "max_turn_requests": (TurnFault.TURNS, "it used up its requests to the model"),
    "max_tokens": (TurnFault.ENDED, "it used up its tokens"),
    "refusal": (TurnFault.ENDED, "its model refused to go on"),
    "cancelled": (TurnFault.ENDED, "it was cancelled"),
}
_NO_ANSWER = 408  # HTTP's request timeout


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """How an agent is started, where its keys and files are, and what keeps its hands still.

    A turn that may change nothing is read-only because the agent asks before it does and is refused, or by
    `permissions`. Without the bubblewrap sandbox an agent that has neither is not held.
    """

    command: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    home_paths: tuple[tuple[str, str, str], ...] = ()
    no_web: tuple[str, ...] = ()  # arguments that take its tools for the web away
    permissions: str = ""  # the variable that takes its permissions, as OpenCode writes them
    money: bool = False  # whether it reports its cost
    tokens: bool = True  # whether those that it reports are all; OpenCode's are of the turn's last request


KNOWN = {
    "opencode": KnownAgent(  # 1.18.33; edits unasked, and a wish that is refused ends its turn
        ("opencode", "acp"),
        ("OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        (
            *(("XDG_CONFIG_HOME", ".config", "opencode"), ("XDG_DATA_HOME", ".local/share", "opencode")),
            *(("XDG_STATE_HOME", ".local/state", "opencode"), ("XDG_CACHE_HOME", ".cache", "opencode")),
        ),
        permissions="OPENCODE_PERMISSION",
        money=True,
        tokens=False,
    ),
    "gemini": KnownAgent(  # 0.61.0; asks
        ("gemini", "--acp", "--skip-trust"),
        ("GEMINI_API_KEY", "GOOGLE_*"),
        (("GEMINI_CLI_HOME", "", ".gemini"),),
        no_web=("--policy", str(_HERE / "gemini_no_web.toml")),
    ),
    "qwen": KnownAgent(  # 0.15.10; asks
        ("qwen", "--acp"),
        ("OPENAI_*", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY", "QWEN_*"),
        (("QWEN_HOME", ".qwen", ""),),
        no_web=("--exclude-tools", "web_fetch", "--exclude-tools", "web_search"),
    ),
    # these three by their documentation; not tried
    "goose": KnownAgent(
        ("goose", "acp"),
        ("GOOSE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
        (
            ("XDG_CONFIG_HOME", ".config", "goose"),
            ("XDG_DATA_HOME", ".local/share", "goose"),
            ("XDG_STATE_HOME", ".local/state", "goose"),
        ),
    ),
    "cursor": KnownAgent(
        ("cursor-agent", "acp"),
        ("CURSOR_API_KEY",),
        (("CURSOR_CONFIG_DIR", ".cursor", ""), ("XDG_CONFIG_HOME", ".config", "cursor")),
    ),
    "kimi": KnownAgent(("kimi", "acp"), ("KIMI_*", "MOONSHOT_*"), (("KIMI_SHARE_DIR", ".kimi", ""),)),
}
_WORKING = {"edit": "allow", "external_directory": "deny"}  # what it would have to ask for ends the whole turn
# better than its plan agent, which keeps the shell
_LOOKING = {**_WORKING, "edit": "deny", "bash": "deny", "task": "deny"}


class Acp(Adapter):
    """An agent by ACP: one of the table, or, under the name `acp`, the one that the template starts.

    Keys, homes and permissions of one that the template names are those of the table.
    """

    def __init__(self, chosen: Chosen, name: str = "acp") -> None:
        """Raises UsageError (`bad_template`) for `acp` without a command."""
        super().__init__(chosen)
        self.name = name
        if name == "acp" and not chosen.template and not chosen.program:
            hint = "give the command that makes it speak ACP, such as `agent_command: [my-agent, acp]`"
            raise UsageError("`agent: acp` needs `agent_command`", hint=hint, code="bad_template")
        known = KNOWN.get(name) or _named_in(chosen.program, *chosen.template)
        self._command, self._no_web = (known.command, known.no_web) if name in KNOWN else (chosen.template, ())
        self._permissions = known.permissions
        self.secrets, self.home_paths = known.secrets, known.home_paths
        web = name in KNOWN and bool(known.no_web or known.permissions)
        self.traits = Traits(money=known.money, tokens=known.tokens, web=web)

    def program(self) -> str:
        return self.chosen.program or self._command[0]

    def argv(self, turn: Turn) -> tuple[str, ...]:
        argv = [sys.executable, "-I", "-S", str(CLIENT)]
        argv += ["--writes"] if turn.role.writes else []
        argv += ["--confined"] if self.chosen.outside else []
        argv += ["--web"] if self.searches(turn) else []
        argv += self.model
        quiet = () if self.searches(turn) else self._no_web
        return (*argv, "--", self.program(), *self._command[1:], *quiet, *self.chosen.extra)

    def environment(self, turn: Turn) -> Mapping[str, str]:
        if not self._permissions:
            return {}
        permission = dict(_LOOKING)
        if turn.role.writes:
            permission = _WORKING | {"external_directory": "allow"} if self.chosen.outside else dict(_WORKING)
        searches = self.searches(turn)
        permission |= dict.fromkeys(("webfetch", "websearch"), "allow" if searches else "deny")
        variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", self._permissions: json.dumps(permission)}
        return variables | ({"OPENCODE_ENABLE_EXA": "1"} if searches else {})  # else only its own models may search

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, stop, opened = AgentOutput(), "", False
        for event in events(spoken.out):
            match event.get("acp"):
                case "session":
                    opened = True
                case "text":
                    heard.text = words(event.get("text"))
                case "tool":
                    heard.acts, heard.text = heard.acts + 1, ""
                case "refused":
                    heard.denied.append(words(event.get("what")))
                case "usage":
                    heard.tokens_in = added(heard.tokens_in, count(event.get("in")))
                    heard.tokens_out = added(heard.tokens_out, count(event.get("out")))
                case "cost" if usd := money(event.get("usd")):  # 0 is reported for every model without a price
                    heard.usd = max(usd, heard.usd or 0.0)
                case "end":
                    stop = words(event.get("stop"))
                case "error":
                    heard.error = words(event.get("message"))
                    heard.fault = next((fault for fault in TurnFault if fault == event.get("fault")), None)
        answered = heard.acts or heard.text or heard.denied or heard.error or stop or heard.tokens_in
        if opened and not answered:
            # all that were tried retry usage limits and outages without a word, for longer than a turn may take
            heard.trouble, heard.status = "its model did not answer, or only with errors", _NO_ANSWER
        if stop not in ("", "end_turn") and not heard.error:
            heard.fault, heard.error = _STOPS.get(stop, (TurnFault.ENDED, f"it stopped early ({stop})"))
        return heard.answer(turn, spoken)


def _named_in(*command: str) -> KnownAgent:
    """The agent that a command line names, also within a word: `npx -y opencode-ai acp`."""
    names = (PurePath(word).name for word in command)
    return next((KNOWN[key] for name in names for key in KNOWN if key in name), KnownAgent())
