"""The turns of a campaign's coding agent: asked one after another, their limits waited out, their cost remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import Agent, Answer, Turn, TurnRole
from autoresearch.core.agents.turns import TurnNote
from autoresearch.lab.agents.rate_limits import notice_of_waiting, waiting_out_limits
from autoresearch.lab.agents.turn import lost_turns, run_turn
from autoresearch.lab.agents.turn_dir import TurnDir, next_directory, read_result
from autoresearch.lab.agents.turn_environment import TurnEnvironment, guard_in
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.failpoint import failpoint

Line = tuple[str, dict[str, Any]]  # of the journal: what was done, and its fields


@dataclass(slots=True)
class AgentTurns:
    """Asks the agent; `stop` ends the turn that is under way."""

    campaign_dir: CampaignDir
    researcher: Agent
    turn_environment: TurnEnvironment
    stop: threading.Event
    say: Callable[[str], None]
    deadline: Callable[[], float | None]  # of the campaign: a limit is not waited out beyond it
    clock: Callable[[], float]
    _lines: list[Line] = field(default_factory=list)  # of turns that are over, and not handed out yet

    def next_directory(self, role: TurnRole) -> Path:
        """The directory of the next turn."""
        return next_directory(self.campaign_dir.turns, role)

    def confined(self) -> Callable[[str, Path], str]:
        """How a guard's command is confined in a directory: as the agent itself is."""
        return guard_in(self.turn_environment)

    def take_lines(self) -> list[Line]:
        """The journal lines of turns that are over, each handed out once."""
        lines, self._lines = self._lines, []
        return lines

    def ask(self, turn: Turn) -> Answer:
        """Ask the agent, wait out its limits, and remember what it cost."""
        notice = notice_of_waiting(self.campaign_dir.waiting, self.say)
        ask = waiting_out_limits(self._ask_once, self.stop, notice, deadline=self.deadline(), clock=self.clock)
        return ask(turn)

    def _ask_once(self, turn: Turn) -> Answer:
        answer = run_turn(self.researcher, turn, self.turn_environment, self.stop)
        fields = {"name": Path(turn.directory).name, **turn_fields(turn.role, self.researcher, answer)}
        self._lines.append(("turn", fields))
        failpoint("research.asked")
        return answer

    def unwritten(self, turn_notes: Mapping[str, TurnNote]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The turns that the journal does not know: their controller was killed. Ends what lives of them."""
        lost_turns(self.campaign_dir.turns, self.researcher)
        for path in sorted(self.campaign_dir.turns.iterdir()) if self.campaign_dir.turns.is_dir() else ():
            answer = read_result(TurnDir(path)) if path.name not in turn_notes else None
            if answer is not None:
                role = TurnRole(path.name.partition("-")[2].split("-")[0])
                yield path.name, turn_fields(role, self.researcher, answer)


def turn_fields(role: TurnRole, researcher: Agent, answer: Answer) -> dict[str, Any]:
    """The journal's fields of a turn."""
    usage = answer.usage
    fields: dict[str, Any] = {
        "role": role.value,
        "agent": researcher.name,
        "usd": usage.usd,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "seconds": round(usage.seconds, 3),
    }
    if answer.fault is not None:
        fields |= {"fault": answer.fault.value, "said": answer.message[:500]}
    return fields
