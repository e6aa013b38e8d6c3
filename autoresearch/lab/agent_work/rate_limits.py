"""Wait out what passes by itself: a usage limit, an outage. Nobody is there at night to ask again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autoresearch.core.agents.agent import Answer, Ask, Turn, TurnFault, TurnRole, Usage
from autoresearch.core.run.limits import nap
from autoresearch.lab.agent_work.turn_dir import anew
from autoresearch.records.rundir import read_json, write_json
from autoresearch.records.secrets import mask_text

MOST_S = {TurnFault.QUOTA: 5 * 3600.0, TurnFault.OUTAGE: 16 * 60.0}  # between two tries, whatever the agent says
TOTAL_S = {TurnFault.QUOTA: 24 * 3600.0, TurnFault.OUTAGE: 2 * 3600.0}  # in all, where no deadline is set
LOOK_S = 60.0  # of wall time: a machine that slept goes on when it is time


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a question waits for, and until when; times are seconds since 1970."""

    role: TurnRole
    fault: TurnFault
    message: str  # the agent's words, masked
    since: float  # when it was first told to come back
    until: float  # when it is asked again
    tries: int  # so far

    @property
    def sentence(self) -> str:
        """For a log, and for `campaign status`."""
        what = "a usage limit" if self.fault is TurnFault.QUOTA else "an outage"
        clock = time.strftime("%H:%M", time.localtime(self.until))
        words = (
            f"the {self.role} turn waits for the end of {what}, and is tried again at {clock} (try {self.tries + 1})"
        )
        return f"{words}: {self.message}" if self.message else words


Tell = Callable[[Waiting | None], None]
"""Hears what is waited for, and None when that is over."""


def waiting_out_limits(
    ask: Ask,
    stop: threading.Event,
    tell: Tell,
    *,
    deadline: float | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] | None = None,
) -> Ask:
    """The same agent, asked again until it answers, each try in a turn directory of its own.

    The pauses are 30 s, 1, 2, 4, 8, 16 min, or what the agent asks for. It is given up where the next try would
    come after `deadline` (wall time; without one: 24 h for usage limits, 2 h for outages, since the first try), and
    the last answer is returned; Fault.STOPPED when `stop` is set meanwhile. Usage and steps are those of all tries.
    """
    rest = sleep or stop.wait

    def persist(turn: Turn) -> Answer:
        since, used, steps, tries = clock(), Usage(), 0, 0
        while True:
            answer = ask(turn if not tries else anew(turn))
            used, steps, tries = used + answer.usage, steps + answer.steps, tries + 1
            answer = replace(answer, usage=used, steps=steps)
            if answer.fault not in MOST_S:
                return answer
            pause = min(max(answer.retry_s or 0.0, nap(tries - 1)), MOST_S[answer.fault])
            until = clock() + pause
            if until > (since + TOTAL_S[answer.fault] if deadline is None else deadline):
                return answer
            tell(Waiting(turn.role, answer.fault, mask_text(answer.message)[:300], since, until, tries))
            while not stop.is_set() and clock() < until:
                rest(min(LOOK_S, until - clock()))
            tell(None)
            if stop.is_set():
                return replace(answer, fault=TurnFault.STOPPED)

    return persist


def notice_of_waiting(path: Path, say: Callable[[str], None]) -> Tell:
    """Says what is waited for, and keeps it in a file as long as it is: `read_waiting` reads that."""

    def tell(waiting: Waiting | None) -> None:
        if waiting is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, asdict(waiting), durable=False)
            say(waiting.sentence)

    return tell


def read_waiting(path: Path) -> Waiting | None:
    """What is waited for now; None for nothing. A controller that was killed leaves it there: see whether one lives."""
    record = read_json(path)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        if record is not None:
            return Waiting(**record | {"role": TurnRole(record["role"]), "fault": TurnFault(record["fault"])})
    return None
