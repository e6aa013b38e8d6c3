"""A coding agent called `parrot`: it reads its prompt on standard input, and prints its answer."""

from __future__ import annotations

from autoresearch.core.agents.agent import Agent, Answer, Chosen, Spoken, Traits, Turn, TurnFault


class Parrot(Agent):
    name = "parrot"
    traits = Traits()

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen

    def program(self) -> str:
        return self.chosen.program or "parrot"

    def argv(self, turn: Turn) -> tuple[str, ...]:
        model = ("--model", self.chosen.model) if self.chosen.model else ()
        return (self.program(), *model, *self.chosen.extra)

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        if spoken.fault or spoken.returncode:
            return Answer(fault=spoken.fault or TurnFault.ENDED, message=spoken.err.decode("utf-8", "replace")[-300:])
        text = spoken.out.decode("utf-8", "replace").strip()
        return Answer(text=text, fault=None if text else TurnFault.SILENT)
