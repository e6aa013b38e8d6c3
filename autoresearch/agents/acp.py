"""Any agent that speaks the Agent Client Protocol, by the command that starts it: `agent_command: [opencode, acp]`.

A turn is our `acp_client`, which starts the agent and answers what it asks; its lines are read here. Of an agent that
is known by name (also within a word: `claude-agent-acp`) the homes, keys and variables are those of its own adapter, or
of the table below.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

from autoresearch.agents.adapter import Adapter, AgentOutput
from autoresearch.agents.claude import Claude
from autoresearch.agents.codex import Codex
from autoresearch.agents.events import added, count, events, money, words
from autoresearch.agents.gemini import Gemini
from autoresearch.agents.opencode import OpenCode
from autoresearch.agents.qwen import Qwen
from autoresearch.core.agents.agent import Answer, Chosen, Spoken, Traits, Turn, TurnFault
from autoresearch.errors import UsageError

CLIENT = Path(__file__).with_name("acp_client.py")
_STOPS = {  # reasons other than `end_turn` for which a turn can stop
    "max_turn_requests": (TurnFault.TURNS, "it used up its requests to the model"),
    "max_tokens": (TurnFault.ENDED, "it used up its tokens"),
    "refusal": (TurnFault.ENDED, "its model refused to go on"),
    "cancelled": (TurnFault.ENDED, "it was cancelled"),
}


class Goose(Adapter):
    """Goose: `goose acp`. Source: its documentation; not tried."""

    name = "goose"
    secrets = ("GOOSE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY")
    home_paths = (
        ("XDG_CONFIG_HOME", ".config", "goose"),
        ("XDG_DATA_HOME", ".local/share", "goose"),
        ("XDG_STATE_HOME", ".local/state", "goose"),
    )


class Cursor(Adapter):
    """Cursor's CLI: `cursor-agent acp`. Source: its documentation; not tried."""

    name = "cursor"
    secrets = ("CURSOR_API_KEY",)
    home_paths = (("CURSOR_CONFIG_DIR", ".cursor", ""), ("XDG_CONFIG_HOME", ".config", "cursor"))


class Kimi(Adapter):
    """Kimi's CLI: `kimi acp`. Source: its documentation; not tried."""

    name = "kimi"
    secrets = ("KIMI_*", "MOONSHOT_*")
    home_paths = (("KIMI_SHARE_DIR", ".kimi", ""),)


_KNOWN: tuple[type[Adapter], ...] = (OpenCode, Gemini, Qwen, Goose, Cursor, Kimi, Claude, Codex)


class Acp(Adapter):
    """An agent behind ACP. It changes nothing when it is only asked if it asks before it does, or is confined."""

    name = "acp"
    traits = Traits(resumes=True)

    def __init__(self, chosen: Chosen) -> None:
        """Raises UsageError (`bad_template`) where no command is given."""
        super().__init__(chosen)
        if not chosen.template and not chosen.program:
            hint = "give the command that makes it speak ACP, such as `agent_command: [opencode, acp]`"
            raise UsageError("`agent: acp` needs `agent_command`", hint=hint, code="bad_template")
        heard = [PurePath(word).name for word in (self.program(), *chosen.template)]
        known = (one for name in heard for one in _KNOWN if one.name in name)
        self._inner = next(known, Adapter)(chosen)
        self.traits = Traits(resumes=True, money=self._inner.traits.money)

    def program(self) -> str:
        return self.chosen.program or self.chosen.template[0]

    def argv(self, turn: Turn) -> tuple[str, ...]:
        argv = [sys.executable, "-I", "-S", str(CLIENT)]
        argv += ["--writes"] if turn.role.writes else []
        argv += ["--confined"] if self.chosen.outside else []
        argv += self.model
        argv += ["--session", _parts(turn.session)[0]] if turn.session else []
        return (*argv, "--", self.program(), *self.chosen.template[1:], *self.chosen.extra)

    def environment(self, turn: Turn) -> Mapping[str, str]:
        return self._inner.environment(turn)

    def needs(self) -> tuple[str, ...]:
        return self._inner.needs()

    def homes(self, environ: Mapping[str, str]) -> tuple[PurePath, ...]:
        return self._inner.homes(environ)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        heard, stop, before = AgentOutput(), "", _parts(turn.session)[1]
        total = before
        for event in events(spoken.out):
            match event.get("acp"):
                case "session":
                    heard.session = words(event.get("id"))
                case "text":
                    heard.text = words(event.get("text"))
                case "tool":
                    heard.acts, heard.text = heard.acts + 1, ""
                case "refused":
                    heard.denied.append(words(event.get("what")))
                case "usage":
                    heard.tokens_in = added(heard.tokens_in, count(event.get("in")))
                    heard.tokens_out = added(heard.tokens_out, count(event.get("out")))
                case "cost" if told := money(event.get("usd")):  # 0 is said of every model without a price
                    total = max(told, total)
                    heard.usd = total - before
                case "end":
                    stop = words(event.get("stop"))
                case "error":
                    heard.error = words(event.get("message"))
                    heard.fault = next((fault for fault in TurnFault if fault == event.get("fault")), None)
        heard.steps = heard.acts + bool(heard.text)
        if heard.session:
            heard.session = f"{heard.session}:{total:.6f}"
        if stop not in ("", "end_turn") and not heard.error:
            heard.fault, heard.error = _STOPS.get(stop, (TurnFault.ENDED, f"it stopped early ({stop})"))
        return heard.answer(turn, spoken)


def _parts(session: str) -> tuple[str, float]:
    """The session as the agent calls it, and what it had cost when the last turn ended: `NAME:USD` in ours."""
    name, colon, spent = session.rpartition(":")
    try:
        return (name, float(spent)) if colon else (session, 0.0)
    except ValueError:
        return session, 0.0
