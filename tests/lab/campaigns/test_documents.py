"""How often the documents of a campaign are written."""

from __future__ import annotations

from typing import Any, cast

import pytest

from autoresearch.lab.campaigns import finish
from autoresearch.lab.campaigns.finish import Documents


def test_they_take_a_fiftieth_of_the_time_and_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [100.0], list[float]()

    class Context:
        def write_documents(self) -> None:
            clock[0] += 1.0
            written.append(clock[0])

    def look_at(now: float) -> None:
        clock[0] = now
        made.look()

    monkeypatch.setattr(finish.time, "monotonic", lambda: clock[0])
    made = Documents(cast("Any", Context()))
    made.look()  # a controller that was killed may have owed them
    assert written == [101.0]
    look_at(110.0)
    assert written == [101.0] and made.due_in(60.0) == 60.0  # nothing happened
    made.follow()
    assert written == [101.0] and made.due_in(60.0) == 40.0
    look_at(149.0)
    assert written == [101.0] and made.due_in(60.0) == 1.0
    look_at(150.0)
    assert written == [101.0, 151.0] and made.due_in(60.0) == 60.0
    clock[0] = 300.0
    made.follow()  # at once, if the last ones are old enough
    assert written == [101.0, 151.0, 301.0]
