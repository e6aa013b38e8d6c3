"""What passes is waited out, at the pace that was promised, and no longer than makes sense."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.agent import Answer, TurnFault
from autoresearch.core.agents.turns import AgentJob, Waiting
from autoresearch.lab.agent_work.agent_turns import next_try, waiting_sentence

HOUR = 3600.0
DOWN = Answer(fault=TurnFault.OUTAGE, message="no network")
BUSY = Answer(fault=TurnFault.QUOTA, message="429")


def times(answer: Answer, most: int = 500, deadline: float | None = None) -> list[float]:
    """When it is tried, by the seconds since the first try, where each takes no time and gets this answer."""
    found = [0.0]
    while len(found) <= most and (until := next_try(answer, len(found), 0.0, found[-1], deadline)) is not None:
        found.append(until)
    return found


PASSING = {
    "the promised pace": (DOWN, [0, 30, 90, 210, 450, 930, 1890, 2850]),
    "too soon": (Answer(fault=TurnFault.QUOTA, retry_s=5.0), [0, 30]),
    "as it wishes": (Answer(fault=TurnFault.QUOTA, retry_s=3 * HOUR), [0, 3 * HOUR, 6 * HOUR]),
    "not for days": (Answer(fault=TurnFault.QUOTA, retry_s=90 * HOUR), [0, 5 * HOUR]),
    "an outage is not trusted with its time": (Answer(fault=TurnFault.OUTAGE, retry_s=HOUR), [0, 960]),
}


@pytest.mark.parametrize(("answer", "tries"), PASSING.values(), ids=PASSING)
def test_when_it_is_asked_again(answer: Answer, tries: list[float]) -> None:
    assert times(answer, len(tries) - 1) == tries


@pytest.mark.parametrize("fault", [None, *(fault for fault in TurnFault if not fault.passes)])
def test_what_does_not_pass_is_no_limit(fault: TurnFault | None) -> None:
    assert times(Answer(fault=fault)) == [0]


@pytest.mark.parametrize(("answer", "most"), [(DOWN, 2 * HOUR), (BUSY, 24 * HOUR)])
def test_patience_ends(answer: Answer, most: float) -> None:
    assert most - 960 < times(answer)[-1] <= most


def test_nobody_waits_beyond_the_deadline() -> None:
    """Nor for something that would come after it: the campaign has better to do."""
    assert times(Answer(fault=TurnFault.QUOTA, retry_s=2 * HOUR), deadline=HOUR) == [0]
    assert 9.7 * HOUR < times(DOWN, deadline=10 * HOUR)[-1] <= 10 * HOUR, "a deadline is more than two hours"


def test_what_is_waited_for_in_words() -> None:
    waits = Waiting("propose", TurnFault.QUOTA, "come back at noon", 1_790_000_000.0, 1)
    words = waiting_sentence(AgentJob("propose", agent="claude", waits=waits))
    assert words.startswith("claude: the propose turn waits for the end of a usage limit, and is tried again at ")
    assert words.endswith(" (try 2): come back at noon")
