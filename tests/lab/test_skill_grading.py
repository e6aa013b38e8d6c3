"""Evals: what a check of each kind takes for proved, each with its near miss; and what several attempts come to."""

from __future__ import annotations

from typing import Any

import pytest

from skills.grading import (
    WITH,
    WITHOUT,
    EvalEvidence,
    EvalTask,
    Score,
    benchmark,
    counted,
    grade,
    triggers_from,
)

SEEN = EvalEvidence(
    calls=("autoresearch run exp.md --detach", "cat 'a sleep 30'"),
    files={"a.py": "x = 2", "b.py": "y", "results/finish.flag": "{}"},
    files_before={"a.py": "x = 1", "b.py": "y"},
    rows=({"ending": "finished", "status": "keep"}, {"ending": "crashed", "status": "crash"}),
    answer="Accuracy is 0.62.",
    read_skill=True,
)


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        ({"called": "^autoresearch run .*exp"}, True),
        ({"called": "^autoresearch wait"}, False),
        ({"never": "^sleep"}, True),
        ({"never": "sleep"}, False),
        ({"file": "results/*.flag"}, True),
        ({"file": "*.flag", "holds": "done"}, False),
        ({"file": "a.py", "holds": "x = 2"}, True),
        ({"file": "c.py"}, False),
        ({"unchanged": "b.py"}, True),
        ({"unchanged": "a.py"}, False),
        ({"unchanged": "gone.py"}, False),
        ({"row": {"ending": "^finished$", "status": "keep"}}, True),
        ({"row": {"ending": "^finished$", "status": "crash"}}, False),
        ({"row": {"ending": "."}, "times": 2}, True),
        ({"row": {"ending": "."}, "times": 1}, False),
        ({"row": {"ending": "lost"}, "times": 0}, True),
        ({"row": {"nothing": "."}}, False),
        ({"says": "0\\.62"}, True),
        ({"says": "0\\.63"}, False),
        ({"skill": True}, True),
        ({"skill": False}, False),
        (None, None),
    ],
)
def test_a_check(check: dict[str, Any] | None, holds: bool | None) -> None:
    (found,) = grade(EvalTask(1, "t", "p", assertions=(("it holds", check),)), SEEN)
    assert (found.text, found.passed) == ("it holds", holds)
    assert found.evidence


def test_whether_the_skill_was_read_is_no_uplift_by_definition() -> None:
    both = EvalTask(1, "t", "p", assertions=(("read", {"skill": True}), ("said", {"says": "0"}), ("reader", None)))
    assert counted(both, grade(both, SEEN)) == ([True], True)
    assert counted(both, grade(both, EvalEvidence(answer="0"))) == ([True], None)  # it was given none
    assert counted(both, grade(both, EvalEvidence(answer="0", read_skill=False))) == ([True], False)
    (alone,) = triggers_from([{"query": "q", "should_trigger": False}])
    assert counted(alone, grade(alone, SEEN)) == ([False], False)
    assert counted(alone, grade(alone, EvalEvidence(read_skill=False))) == ([True], True)


def score(variant: str, passed: int, tokens: int | None = 100, fault: str = "") -> Score:
    return Score("t", variant, passed, 4, 2.0 * passed, tokens, fault, triggered=True if variant == WITH else None)


def test_the_benchmark_tells_means_deviations_and_the_difference() -> None:
    told = benchmark([score(WITH, 4), score(WITH, 2, fault="timeout"), score(WITHOUT, 1, tokens=50)])
    runs = told["run_summary"]
    assert runs[WITH]["pass_rate"] == {"mean": 0.75, "stddev": 0.25}
    assert runs[WITHOUT]["pass_rate"]["mean"] == 0.25
    assert runs["delta"] == {"pass_rate": 0.5, "time_seconds": 4.0, "tokens": 50.0}
    assert (runs[WITH]["triggered_rightly"], runs[WITHOUT]["triggered_rightly"]) == (1.0, None)
    assert (told["attempts"], told["faults"]) == (3, 1)
