"""What is damaged, unreadable or refused about one run, or said in the wrong place: it never stops the others."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.far import Declined
from autoresearch.core.run import RunState
from autoresearch.records.index import Entry
from autoresearch.records.order_file import request_stop


def turn(follower: Any, times: int = 3) -> None:
    for _ in range(times):
        follower.rung()
        follower.polls.at_once()
        follower.turn()


def test_a_directory_that_cannot_be_looked_at_keeps_no_other_run_from_being_found(ground: Any) -> None:
    ground.index.add(Entry("bad-000000", "bad", "", f"/{'x' * 300}", "", created=1.0))
    rundir = ground.order()
    assert ground.ended(ground.follower(), rundir).ending == "finished"


@pytest.mark.parametrize("what", ["poll", "stop"])
def test_a_no_to_another_question_than_submit_ends_nothing(
    ground: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    ground.hold()
    rundir, follower = ground.order("sleep 300"), ground.follower()
    ground.until(follower, lambda: rundir.state() is RunState.PENDING)
    asked = []

    def no(*_: object, **__: object) -> None:
        asked.append(what)
        raise Declined("namespaces not found")

    monkeypatch.setattr(ground.jobs, what, no)
    request_stop(rundir, "enough")
    ground.until(follower, lambda: len(asked) > 2)
    assert not rundir.exit_record.exists()
    monkeypatch.undo()
    assert ground.ended(follower, rundir).reason == "enough"


@pytest.mark.parametrize("text", ['{"run": "x"}', '{"ending": "mad", "run": "x"}', '{"ending": ["x"]}', "{", ""])
def test_an_exit_record_that_says_no_ending_is_none(ground: Any, text: str) -> None:
    rundir, other = ground.order("sleep 300"), ground.order("exit 0")
    follower = ground.follower()
    ground.until(follower, lambda: ground.starts(rundir))
    (rundir.far / "exit.json").write_text(text)
    turn(follower)
    assert ground.ended(follower, other).ending == "finished"
    assert not rundir.exit_record.exists()
