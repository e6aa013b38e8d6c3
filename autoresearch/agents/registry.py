"""Agents by name; and any other one, by the command line that starts it.

The template of `command` is an argv, no shell. `{prompt_file} {cwd} {last_file} {role}` stand for what they say; `{{`
and `}}` are braces. The program gets the prompt on standard input and works in the worktree. Its answer is what it
writes into `{last_file}`, else its standard output. It may print one line of JSON on standard error:
`{"autoresearch": {"usd": 0.02, "tokens_in": 900, "tokens_out": 80}}`. It exits with 0, with 75 (EX_TEMPFAIL of
sysexits.h: try later), with 77 (EX_NOPERM: not logged in), or with anything else for a failure.
"""

from __future__ import annotations

import json
import string
from functools import partial

from autoresearch.agents.acp import KNOWN, Acp
from autoresearch.agents.adapter import Adapter, AgentOutput, count, events, inside, last_lines, money, words
from autoresearch.agents.claude import Claude
from autoresearch.agents.codex import Codex
from autoresearch.core.agents.agent import Agent, Answer, Chosen, Spoken, Traits, Turn, TurnFault
from autoresearch.errors import UsageError
from autoresearch.plugins import Registry

PLACEHOLDERS = ("prompt_file", "cwd", "last_file", "role")
_EXITS = {75: TurnFault.QUOTA, 77: TurnFault.LOGIN}


class CommandAgent(Adapter):
    """An agent that nobody named; whether it changes nothing when it is only asked is up to its template."""

    name = "command"
    traits = Traits(money=True, web=True)

    def __init__(self, chosen: Chosen) -> None:
        """Raises UsageError (`bad_template`) for an empty template, an unknown placeholder, or a lone brace."""
        super().__init__(chosen)
        if not chosen.template:
            hint = "give its command line, such as `agent_command: [my-agent, --ask, '{prompt_file}']`"
            raise UsageError("`agent: command` needs `agent_command`", hint=hint, code="bad_template")
        if _placeholders(chosen.template[0]):
            raise UsageError("`agent_command` must begin with the program itself", code="bad_template")
        for word in chosen.template:
            _placeholders(word)

    def program(self) -> str:
        return self.chosen.program or self.chosen.template[0]

    def argv(self, turn: Turn) -> tuple[str, ...]:
        given = {
            "prompt_file": str(turn.prompt_file),
            "cwd": str(turn.cwd),
            "last_file": str(turn.last_file),
            "role": turn.role.value,
        }
        return (self.program(), *(word.format(**given) for word in self.chosen.template[1:]), *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        out = spoken.out[-(1 << 20) :].decode("utf-8", "replace")
        heard = AgentOutput(text=words(spoken.last).strip() or out.strip())
        for event in events(spoken.err):
            if told := inside(event, "autoresearch"):
                heard.usd = money(told.get("usd"))
                heard.tokens_in, heard.tokens_out = count(told.get("tokens_in")), count(told.get("tokens_out"))
        if spoken.returncode:
            heard.fault = _EXITS.get(spoken.returncode, TurnFault.ENDED)
            heard.error = last_lines(spoken.err) or f"it exited with {spoken.returncode}"
        return heard.answer(turn, spoken)


def _placeholders(word: str) -> list[str]:
    hint = f"known are {' '.join(f'{{{name}}}' for name in PLACEHOLDERS)}; a brace itself is written twice"
    try:
        found = [(name, spec, how) for _, name, spec, how in string.Formatter().parse(word) if name is not None]
    except ValueError as error:
        raise UsageError(f"`agent_command`: {word!r}: {error}", hint=hint, code="bad_template") from None
    for name, spec, how in found:
        if name not in PLACEHOLDERS or spec or how:
            raise UsageError(f"`agent_command` knows no {{{name}}}", hint=hint, code="bad_template")
    return [name for name, _, _ in found]


AGENTS = Registry(  # each a class, or a function: Chosen -> Agent
    "agents",
    {
        **{"claude": Claude, "codex": Codex},
        **{name: partial(Acp, name=name) for name in KNOWN},
        **{"acp": Acp, "command": CommandAgent},
    },
)
NAMES = tuple(AGENTS.own)
PROGRAMS = tuple(name for name in NAMES if name not in ("acp", "command"))  # the others run what they are given
AIDER = (  # the `agent_command` that drives it; it folds lines at COLUMNS, JSON too
    *("bash", "-c"),
    'case $0 in propose|review) set -- "$@" --chat-mode ask;; esac; COLUMNS=10000 exec aider'
    " --yes-always --no-auto-commits --no-dirty-commits --no-gitignore --no-pretty --no-stream --no-check-update"
    " --no-suggest-shell-commands --no-detect-urls --chat-history-file /dev/null --input-history-file /dev/null"
    ' --message-file "$@"',
    *("{role}", "{prompt_file}"),
)


def researcher(name: str, chosen: Chosen) -> Agent:
    """The agent of that name.

    Raises UsageError for an unknown one, and for a template of `acp` or `command` that cannot be used.
    """
    if name.strip().lower() == "aider" and "aider" not in AGENTS:
        hint = f"`agent: command` drives it, with `agent_command: {json.dumps(AIDER)}` and its key in `agent_env`"
        raise UsageError(f"there is no agent {name!r}", hint=hint, code="unknown_agent")
    made: Agent = AGENTS.get(name)(chosen)
    return made


def others(agent: Agent, chosen: Chosen) -> list[Agent]:
    """Every other agent of ours that has a program of its own."""
    return [researcher(name, chosen) for name in PROGRAMS if name != agent.name]
