"""What passes is waited out, at the pace that was promised, and no longer than makes sense."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.agent import TurnFault
from autoresearch.lab.agent_work.agent_turns import next_try

HOUR = 3600.0
DOWN, BUSY = TurnFault.OUTAGE, TurnFault.QUOTA


def times(fault: TurnFault | None, most: int = 500, deadline: float | None = None) -> list[float]:
    """When it is tried, by the seconds since the first try, where each takes no time and meets this fault."""
    found = [0.0]
    while len(found) <= most and (until := next_try(fault, len(found), 0.0, found[-1], deadline)) is not None:
        found.append(until)
    return found


def test_it_is_asked_again_at_the_promised_pace() -> None:
    assert times(DOWN, 7) == [0, 30, 90, 210, 450, 930, 1890, 2850]


@pytest.mark.parametrize("fault", [None, *(fault for fault in TurnFault if not fault.passes)])
def test_what_does_not_pass_is_no_limit(fault: TurnFault | None) -> None:
    assert times(fault) == [0]


@pytest.mark.parametrize(("fault", "most"), [(DOWN, 2 * HOUR), (BUSY, 24 * HOUR)])
def test_patience_ends(fault: TurnFault, most: float) -> None:
    assert most - 960 < times(fault)[-1] <= most


def test_nobody_waits_beyond_the_deadline() -> None:
    assert 9.7 * HOUR < times(DOWN, deadline=10 * HOUR)[-1] <= 10 * HOUR, "a deadline is more than two hours"
