"""A second campaign on the same question: it knows what the first one measured, kept and gave up."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

pytestmark = pytest.mark.system

def first(camp: Any, **more: Any) -> Any:
    """A campaign that keeps one idea and gives up another."""
    bad = {"slug": "bad", "overrides": {"lr": 1.0}, "parent": "baseline"}
    queue = camp.ideas({"slug": "good", "overrides": {"lr": 0.01}}, bad)
    return camp.run(queue=queue, count=3, baseline=3, confirm=False, **more)


def second(camp: Any, **more: Any) -> Any:
    """Another one of the same file, which only has a baseline."""
    keys = {"prefix": "autoresearch/two", "count": 1, "baseline": 4, "confirm": False, **more}
    return camp.run(queue=camp.ideas({"slug": "x", "overrides": {"lr": 0.5}}), **keys)


def test_its_baseline_is_that_of_the_first(camp: Any) -> None:
    old = first(camp)
    file = camp.file(prefix="autoresearch/two", count=1, baseline=4, confirm=False, queue="ideas.yaml")
    plan = camp.bench.ask("campaign", file, "--dry-run")["plan"]
    ids = [run.run for run in old.baseline.runs]
    told = f"the baseline is that of one: 3 runs of it ({', '.join(ids)})"
    assert plan["reused"] == f"{told}; `earlier: false` makes its own"
    assert "(1 of the baseline" in plan["runs"]
    new = second(camp)
    assert [(run.run, run.seed, run.reused) for run in new.baseline.runs[:3]] == [
        (run.run, run.seed, True) for run in old.baseline.runs
    ]
    rows = new.baseline.rows
    assert [row.metric_value for row in rows[:3]] == [row.metric_value for row in old.baseline.rows]
    assert {row.flags for row in rows[:3]} == {"reused: a run of the campaign one"} and rows[3].flags == ""
    assert (len(rows), new.baseline.runs[3].seed, rows[3].campaign) == (4, 9, "two")
    assert told in camp.said() and new.seed_check.seen
    assert camp.bench.ask("status", ids[0])["run"] == ids[0], "the run can be followed"
    third = second(camp, prefix="autoresearch/three", earlier=False)
    assert not third.spec.earlier and not any(run.reused for run in third.baseline.runs)


@pytest.mark.parametrize("change", ["code", "recipe", "seed", "input", "ledger", "records", "objective"])
def test_what_differs_is_measured_again(camp: Any, change: str) -> None:
    (camp.bench.repo / "data.txt").write_text("1\n")
    (camp.bench.repo / ".gitignore").write_text("data.txt\nreports/\n")
    old, keys = first(camp, include=["data.txt"]), dict[str, Any](include=["data.txt"])
    if change == "code":
        trainer = camp.bench.repo / "train.py"
        trainer.write_text(trainer.read_text() + "\n# another tree\n")
    elif change == "recipe":
        camp.recipe(noise=0.02)
    elif change == "seed":
        camp.recipe(data__seed=100)
    elif change == "input":
        os.utime(camp.bench.repo / "data.txt", (2e9, 2e9))
    elif change == "ledger":  # half written: the first run's end is gone
        shutil.rmtree(old.baseline.runs[0].run_dir)
    elif change == "records":
        shutil.rmtree(camp.place.path)
    else:
        keys["direction"] = "minimize"
    new = second(camp, baseline=2, **keys)
    assert len(new.baseline.rows) == 2 and not any(run.reused for run in new.baseline.runs)


def test_a_killed_controller_takes_it_over_once(camp: Any) -> None:
    first(camp)
    for point in ("campaign.reused_row", "campaign.conceived"):
        prefix = f"autoresearch/{point.partition('.')[2].replace('_', '-')}"
        file = camp.file(prefix=prefix, count=1, baseline=3, confirm=False, queue="ideas.yaml")
        env = {"AUTORESEARCH_FAILPOINT": f"{point}:kill"}
        payload = camp.known(dict(camp.bench.ask("campaign", file, "--yes", "--detach", check=None, **env)))
        camp.bench.until(lambda: not camp.place.controlled)
        camp.bench.ask("campaign", "resume", payload["directory"], "--detach")
        state = camp.over()
        assert [run.reused for run in state.baseline.runs] == [True] * 3 and len(state.baseline.rows) == 3
        assert camp.said().count("the baseline is that of ") == 1


def test_what_was_given_up_is_not_tried_again(camp: Any) -> None:
    """By an optimiser or an agent; what a person lists is tried, and so is what was kept."""
    from autoresearch.lab.agent_work.earlier_section import earlier_section

    first(camp)
    (camp.place.path / "findings.md").write_text("lr below 0.1 helps.\n")
    keys = {"count": 5, "baseline": 2, "confirm": False, "proposer": "random", "space": {"lr": [1.0, 0.01]}}
    camp.start(prefix="autoresearch/two", **keys)
    new = camp.phase("waiting")
    (refused,) = {reason for hypothesis, reason in new.skipped if hypothesis.overrides == {"lr": 1.0}}
    assert refused.startswith("it is the same as #3 lr=1 of the campaign one, which was discard at 0.1")
    told = earlier_section(new.spec)
    assert "- kept: #2 lr=0.01: " in told and "(keep at 0." in told and "> lr below 0.1 helps." in told
    assert "- given up: #3 lr=1: " in told and "(discard at 0.1" in told
    shutil.rmtree(camp.places[0].path)
    assert earlier_section(new.spec) == ""
