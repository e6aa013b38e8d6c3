"""A second campaign on the same question: it knows what the first one measured, kept and gave up."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
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


def test_what_differs_is_measured_again(camp: Any) -> None:
    """One thing at a time, and then nothing any more, so that it is this one thing that keeps it from being reused."""
    repo = camp.bench.repo
    (repo / "data.txt").write_text("1\n")
    (repo / ".gitignore").write_text("data.txt\nreports/\n")
    old = first(camp, include=["data.txt"])
    run_dir = Path(old.baseline.runs[0].run_dir)

    def reuses(**more: Any) -> bool:
        keys = {"include": ["data.txt"], "queue": "ideas.yaml", "prefix": "autoresearch/two", **more}
        file = camp.file(count=1, baseline=2, confirm=False, **keys)
        return "reused" in camp.bench.ask("campaign", file, "--dry-run")["plan"]

    def with_text(path: Path, before: str, after: str) -> bool:
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
        try:
            return reuses()
        finally:
            path.write_text(text)

    host = json.dumps(os.uname().nodename)
    assert reuses()
    assert not with_text(repo / "train.py", "import math", "import math  # another tree\nimport math"), "code"
    assert not with_text(repo / "recipe.yaml", "noise: 0.01", "noise: 0.02"), "recipe"
    assert not with_text(repo / "recipe.yaml", "data.seed: 7", "data.seed: 100"), "the first seed"
    assert not with_text(repo / "exp.md", "train.py", "./train.py"), "command"
    assert not with_text(run_dir / "runner.json", host, '"elsewhere"'), "host"
    assert not reuses(direction="minimize"), "objective"
    assert not reuses(include=[]), "linked inputs"
    assert not reuses(min_steps=1), "what counts as a run"
    assert not reuses(constraints=["memory_gb <= 0.0001"]), "a constraint that its runs break"
    assert not reuses(earlier=False)
    assert reuses()
    os.utime(repo / "data.txt", (2e9, 2e9))
    assert not reuses(), "an input was changed since"
    os.utime(repo / "data.txt", (1e9, 1e9))
    assert reuses()
    (run_dir / "runner.json").unlink()
    assert not reuses(), "the records of a run are gone"
    shutil.rmtree(camp.place.path)
    new = second(camp, baseline=2, include=["data.txt"])
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
    new = camp.over()
    assert new.reason.startswith("every point of the space is tried: ")
    (refused,) = {reason for hypothesis, reason in new.skipped if hypothesis.overrides == {"lr": 1.0}}
    assert refused.startswith("it is the same as #3 lr=1 of the campaign one, which was discard at 0.1")
    told = earlier_section(new.spec)
    assert "- kept: #2 lr=0.01: " in told and "(keep at 0." in told and "> lr below 0.1 helps." in told
    assert "- given up: #3 lr=1: " in told and "(discard at 0.1" in told
    shutil.rmtree(camp.places[0].path)
    assert earlier_section(new.spec) == ""
