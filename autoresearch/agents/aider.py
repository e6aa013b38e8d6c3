"""aider, headless: `aider --message-file FILE --yes-always`; it prints prose, no events.

Flags and lines were seen with 0.86.2. It exits with 0 whatever happened, an API that answered 400 included; its errors
are lines such as `litellm.AuthenticationError: ...`. It retries quotas and outages for a minute, then gives up. A
question is asked in its `ask` mode, which changes no file. It keeps no session.
"""

from __future__ import annotations

import re

from autoresearch.agents.adapter import Adapter, AgentOutput
from autoresearch.agents.events import added, money, plain
from autoresearch.core.agents.agent import Answer, Spoken, Traits, Turn
from autoresearch.core.text.regex import later

_FLAGS = (
    *("--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-pretty", "--no-stream"),
    *("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-suggest-shell-commands"),
    *("--no-detect-urls", "--no-fancy-input", "--no-analytics"),
)
_TOLD = later(
    r"^Tokens: (?P<sent>[\d.,]{1,15}[kM]?) sent,(?: [\d.,]{1,15}[kM]? cache (?:write|hit),){0,2}"
    r" (?P<got>[\d.,]{1,15}[kM]?) received\."
    r"(?: Cost: \$[\d.]{1,20} message, \$(?P<usd>[\d.]{1,20}) session)?[^\n]*$",
    re.MULTILINE,
)
_ERROR = later(
    r"^(?:litellm\.\w{1,60}(?:Error|Exceeded|Exception)\b|The API provider (?:is not able|has refused))[^\n]*"
    r"(?:\n(?!Retrying |litellm\.)\S[^\n]*){0,5}",
    re.MULTILINE,
)
_RETRYING = later(r"^Retrying in [^\n]*$", re.MULTILINE)
_APPLIED = later(r"^Applied edit to [^\n]+$", re.MULTILINE)
_PREAMBLE = later(r"^Aider v\d[^\n]*(?:\n[^\n]+)*$", re.MULTILINE)  # and all lines up to an empty one
_EMPTY = "Empty response received from LLM"
_TIMES = {"k": 1000, "M": 1000000}


class Aider(Adapter):
    """aider."""

    name = "aider"
    traits = Traits(money=True, leavings=(".aider*",))
    secrets = ("OPENAI_*", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY", "AIDER_*")
    home_paths = (("", ".aider", ""),)
    variables = (("COLUMNS", "10000"),)  # it folds what it prints, JSON too

    def argv(self, turn: Turn) -> tuple[str, ...]:
        argv = [self.program(), "--message-file", str(turn.prompt_file), *_FLAGS]
        places = {"chat": "chat.md", "input": "input.txt"}
        argv += [f"--{which}-history-file={turn.last_file.parent / name}" for which, name in places.items()]
        argv += [] if turn.role.writes else ["--chat-mode", "ask"]
        argv += self.model
        return (*argv, *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        out = plain(spoken.out[-(1 << 20) :].decode("utf-8", "replace"))
        begun = _PREAMBLE.search(out)
        text = out[begun.end() :] if begun else out
        told, failed = list(_TOLD.finditer(text)), list(_ERROR.finditer(text))
        heard = AgentOutput(steps=len(told), acts=len(_APPLIED.findall(text)))
        heard.tokens_in = added(*(_number(each["sent"]) for each in told))
        heard.tokens_out = added(*(_number(each["got"]) for each in told))
        heard.usd = _usd(told[-1]["usd"]) if told else None
        if failed and not (told and told[-1].start() > failed[-1].start()):
            said = failed[-1][0]
            heard.error, heard.trouble = ("", said) if spoken.returncode is None else (said, "")
        for pattern in (_ERROR, _RETRYING, _TOLD, _APPLIED):
            text = pattern.sub("", text)
        text = text.strip()
        heard.text = "" if heard.error or text.startswith(_EMPTY) else text
        return heard.answer(turn, spoken)


def _usd(text: str | None) -> float | None:
    try:
        return money(float(text or ""))
    except ValueError:
        return None


def _number(text: str) -> int:
    """`5`, `1.2k` or `3.4M`, as it rounds them."""
    size = _TIMES.get(text[-1], 1)
    try:
        return round(float(text.rstrip("kM").replace(",", "")) * size)
    except ValueError:
        return 0
