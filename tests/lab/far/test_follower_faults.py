"""What is damaged, unreadable or refused about one run, or said in the wrong place: it never stops the others."""

from __future__ import annotations

from typing import Any

from autoresearch.records.index import Entry


def turn(follower: Any, times: int = 3) -> None:
    for _ in range(times):
        follower.rung()
        follower.polls.at_once()
        follower.turn()


def test_a_directory_that_cannot_be_looked_at_keeps_no_other_run_from_being_found(ground: Any) -> None:
    ground.index.add(Entry("bad-000000", "bad", "", f"/{'x' * 300}", "", created=1.0))
    rundir = ground.order()
    assert ground.ended(ground.follower(), rundir).ending == "finished"
