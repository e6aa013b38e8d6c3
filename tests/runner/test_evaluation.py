"""The evaluation of a run: what measures it once its trainer is over, in a log that the trainer cannot write."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def told(live: Any) -> str:
    return str((live.dir / "evaluation.log").read_text())


def test_it_runs_after_the_trainer_with_its_results_and_a_log_of_its_own(yard: Any, tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    live, record = yard.ended(
        "echo trained > $AUTORESEARCH_RESULT_DIR/weights; echo 'score: 0.9'",
        evaluate=["pwd; cat $AUTORESEARCH_RESULT_DIR/weights", "echo 'score: 0.4'; echo $WHERE $AUTORESEARCH_CODEBASE"],
        evaluate_in=str(apart),
        cleanup=["echo cleaned"],
    )
    assert (record["ending"], record["returncode"]) == ("finished", 0)
    assert record["evaluation"]["returncode"] == 0 and record["evaluation"]["reason"] == ""
    log = told(live)
    assert f"{apart}\ntrained\n" in log and "score: 0.4" in log and str(yard.root) in log
    assert b"score: 0.4" not in live.log() and b"score: 0.9" in live.log() and b"cleaned" in live.log()
    names = live.names()
    assert names.index("ended") < names.index("evaluating") < names.index("evaluated") < names.index("cleaned")


def test_what_the_trainer_left_as_its_log_is_gone(yard: Any, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    live, _ = yard.ended(
        f"ln -s {precious} $AUTORESEARCH_RUN_DIR/evaluation.log; (setsid sh -c 'sleep 300; true' &)",
        evaluate=["echo 'score: 0.4'"],
    )
    assert told(live).splitlines() == ["$ echo 'score: 0.4'", "score: 0.4"]
    assert precious.read_text() == "mine\n"


def test_variables_for_it_alone_reach_nobody_else(yard: Any) -> None:
    live = yard.make("echo trainer=$WHERE; env", evaluate=["echo evaluation=$WHERE"])
    pairs = f"PATH={os.environ['PATH']}\0WHERE=training\0AUTORESEARCH_EVALUATION:WHERE=apart"
    (live.dir / "environment").write_text(pairs)
    yard.launch(live).record()
    assert "evaluation=apart" in told(live)
    assert b"trainer=training" in live.log() and b"EVALUATION" not in live.log()


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("exit 3", {}),
        ("sleep 600", {"limits": {"max_s": 0.3, "grace_s": 0.2}, "timed_by": "timeout"}),
        ("sleep 600", {"limits": {"first_step_s": 0.3, "grace_s": 0.2}}),
    ],
)
def test_a_run_that_failed_is_not_evaluated(yard: Any, command: str, changes: dict[str, Any]) -> None:
    live, record = yard.ended(command, evaluate=["echo 'score: 0.4'"], **changes)
    assert record["evaluation"] is None
    assert not (live.dir / "evaluation.log").exists()


def test_one_whose_time_was_over_is_and_its_own_limit_is_another(yard: Any) -> None:
    limits = {"max_s": 0.3, "grace_s": 0.2, "stall_s": 0.1}
    live, record = yard.ended("sleep 600", evaluate=["sleep 0.6; echo 'score: 0.4'"], limits=limits)
    assert record["ending"] == "max_time"
    assert record["evaluation"]["returncode"] == 0 and "score: 0.4" in told(live)


def test_what_it_leaves_behind_is_ended(yard: Any) -> None:
    live, record = yard.ended("true", evaluate=["setsid sleep 600 & echo 'score: 1'"])
    assert record["evaluation"]["returncode"] == 0
    assert not live.marked()


def test_our_own_command_comes_first_in_our_own_environment(yard: Any, tmp_path: Path) -> None:
    place = tmp_path / "made"
    live = yard.make(
        "true",
        evaluate_place=f"mkdir {place}; echo own=$MINE",
        evaluate=["pwd; echo its=$MINE"],
        evaluate_in=str(place),
    )
    (live.dir / "environment").write_text(f"PATH={os.environ['PATH']}\0MINE=the trainer's")
    yard.launch(live, env={"MINE": "ours"})
    assert live.record()["evaluation"]["returncode"] == 0
    assert "own=ours" in told(live) and f"{place}\nits=the trainer's" in told(live)


@pytest.mark.parametrize("point", ["runner.before_evaluation", "runner.evaluated"])
def test_a_runner_that_dies_around_it_leaves_no_record(yard: Any, point: str) -> None:
    live = yard.start("true", evaluate=["echo 'score: 1'"], env={"AUTORESEARCH_FAILPOINT": f"{point}:kill"})
    assert live.process.wait(120) == -signal.SIGKILL
    assert not (live.dir / "exit.json").exists()
