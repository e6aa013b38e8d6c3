"""Any other agent, by the command line that starts it.

The template is an argv, no shell. `{prompt_file} {cwd} {schema_file} {last_file} {role} {session}` stand for what they
say; `{{` and `}}` are braces. The program gets the prompt on standard input and works in the worktree. Its answer is
what it writes into `{last_file}`, else its standard output. It may print one line of JSON on standard error:
`{"autoresearch": {"usd": 0.02, "tokens_in": 900, "tokens_out": 80, "session": "abc"}}`. It exits with 0, with 75
(EX_TEMPFAIL of sysexits.h: try later), with 77 (EX_NOPERM: not logged in), or with anything else for a failure.
"""

from __future__ import annotations

import string

from autoresearch.agents.adapter import Adapter, AgentOutput, last_lines
from autoresearch.agents.events import count, events, inside, money, words
from autoresearch.core.agents.agent import Answer, Chosen, Spoken, Traits, Turn, TurnFault
from autoresearch.errors import UsageError

PLACEHOLDERS = ("prompt_file", "cwd", "schema_file", "last_file", "role", "session")
_EXITS = {75: TurnFault.QUOTA, 77: TurnFault.LOGIN}


class CommandAgent(Adapter):
    """An agent that nobody named; whether it changes nothing when it is only asked is up to its template."""

    name = "command"

    def __init__(self, chosen: Chosen) -> None:
        """Raises UsageError (`bad_template`) for an empty template, an unknown placeholder, or a lone brace."""
        super().__init__(chosen)
        if not chosen.template:
            hint = "give its command line, such as `agent_command: [my-agent, --ask, '{prompt_file}']`"
            raise UsageError("`agent: command` needs `agent_command`", hint=hint, code="bad_template")
        if _placeholders(chosen.template[0]):
            raise UsageError("`agent_command` must begin with the program itself", code="bad_template")
        used = {name for word in chosen.template for name in _placeholders(word)}
        self.traits = Traits(resumes="session" in used, money=True, web=True)

    def program(self) -> str:
        return self.chosen.program or self.chosen.template[0]

    def argv(self, turn: Turn) -> tuple[str, ...]:
        given = {
            "prompt_file": str(turn.prompt_file),
            "cwd": str(turn.cwd),
            "schema_file": str(turn.schema_file) if turn.schema is not None else "",
            "last_file": str(turn.last_file),
            "role": turn.role.value,
            "session": turn.session,
        }
        return (self.program(), *(word.format(**given) for word in self.chosen.template[1:]), *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        out = spoken.out[-(1 << 20) :].decode("utf-8", "replace")
        heard = AgentOutput(text=words(spoken.last).strip() or out.strip())
        for event in events(spoken.err):
            if told := inside(event, "autoresearch"):
                heard.usd = money(told.get("usd"))
                heard.tokens_in, heard.tokens_out = count(told.get("tokens_in")), count(told.get("tokens_out"))
                heard.session = words(told.get("session"))
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
