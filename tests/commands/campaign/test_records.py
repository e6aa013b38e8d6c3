"""Ten ideas in two slots, from a dirty checkout: what is recorded, and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.blueprint.parser import parse_blueprint

pytestmark = pytest.mark.system

LR = {"lr": {"low": 0.001, "high": 1.0, "log": True}}


def dirty(camp: Any) -> None:
    """Something staged, something changed, something untracked, something stashed, something ignored."""
    repo, git = camp.bench.repo, camp.bench.git
    (repo / ".gitignore").write_text("data/\n")
    git("add", ".gitignore")
    git("commit", "-qm", "ignore")
    (repo / "data").mkdir()
    (repo / "data" / "set.txt").write_text("tasks\n")
    (repo / "exp.md").write_text((repo / "exp.md").read_text() + "\n")
    git("stash")
    (repo / "staged.txt").write_text("staged\n")
    git("add", "staged.txt")
    (repo / "staged.txt").write_text("and changed\n")
    (repo / "trainer.py").write_text("# changed\n")
    (repo / "untracked.txt").write_text("mine\n")


@pytest.mark.waits
def test_ten_ideas_in_two_slots(camp: Any) -> None:
    dirty(camp)
    camp.file(count=10, parallel=2, space=LR, retests=2, confirm_runs=8, include=["data"])
    before = camp.checkout()
    camp.start(count=10, parallel=2, space=LR, retests=2, confirm_runs=8, include=["data"])
    state = camp.over()
    assert camp.checkout() == before
    assert state.reason == "stop condition met: 10/10 ideas attempted"
    assert [idea.index for idea in state.ideas] == list(range(1, 11))

    the_baseline_came_first(camp, state)
    every_row_says_what_ran(camp, state)
    every_run_had_places_of_its_own(camp, state)
    every_idea_has_a_branch_and_a_blueprint(camp, state)
    the_end_is_written(camp, state)


def the_baseline_came_first(camp: Any, state: Any) -> None:
    rows = state.baseline.rows
    assert [row.status for row in rows][:2] == ["keep", "keep"]
    assert {row.index for row in rows} == {1}
    assert [row.replicate for row in rows] == list(range(1, len(rows) + 1))
    first = min(row.started for row in state.rows if row.index > 1)
    assert sorted(row.ended for row in rows)[1] <= first
    assert camp.bench.git("rev-parse", f"{state.baseline.commit}~1") == state.spec.base_commit


def every_row_says_what_ran(camp: Any, state: Any) -> None:
    """The tree that the trainer saw is that of the row's commit; the commit is on the idea's branch."""
    git = camp.bench.git
    trees = dict(line.split() for line in git("log", "--format=%H %T", "--branches").splitlines())
    ideas = {idea.index: idea for idea in state.ideas}
    for row in state.rows:
        idea = ideas[row.index]
        assert camp.told(row, "TREE") == trees[row.commit], row.run_id
        assert int(camp.told(row, "SEED")) == row.seed
        assert row.branch == idea.branch == f"autoresearch/one/{idea.slug}"
        assert row.parent_commit == idea.parent_commit
        parent = state.by_slug(idea.parent)
        assert row.parent_branch == (parent.branch if parent else "")
        assert row.metric_name == "task_pass_rate@1" and row.campaign == "one"
    for idea in state.ideas:
        runs = [run for run in idea.runs if run.why != "confirm"]
        again = idea.hypothesis.is_baseline  # the claim had its third run made, which repeats the first one's seed
        assert [run.seed for run in runs] == ([7, 8, 7] if again else [7 + n for n in range(len(runs))])
        assert all(run.seed > 1000 for run in idea.runs if run.why == "confirm")


def every_run_had_places_of_its_own(camp: Any, state: Any) -> None:
    repo, rows = camp.bench.repo, state.rows
    assert len({row.result_dir for row in rows}) == len({row.run_dir for row in rows}) == len(rows)
    names = set()
    for row in rows:
        place = Path(row.result_dir)
        assert {"results.md", "finish.flag", "experiment_log.md"} <= {path.name for path in place.iterdir()}
        (name,) = (place / "checkpoints" / "weights").read_text().split()  # once: nobody else wrote there
        names.add(name)
        assert not Path(camp.told(row, "DIRECTORY")).is_relative_to(repo)
    assert len(names) == len(rows)
    assert not (repo / "out").exists()
    assert len({camp.told(row, "DIRECTORY") for row in rows}) <= 3


def every_idea_has_a_branch_and_a_blueprint(camp: Any, state: Any) -> None:
    git = camp.bench.git
    branches = git("for-each-ref", "--format=%(refname:short)", "refs/heads/autoresearch").splitlines()
    assert sorted(branches) == sorted(idea.branch for idea in state.ideas)
    for idea in state.ideas:
        assert int(git("rev-list", "--count", f"{idea.parent_commit}..{idea.branch}")) >= 1
    idea = state.ideas[1]
    told = parse_blueprint(git("show", f"{idea.branch}:.autoresearch/blueprint.md").encode(), "blueprint.md")
    assert told.title == idea.slug and "python train.py recipe.yaml" in told.launch_command
    first = parse_blueprint(git("show", f"{idea.commit}:.autoresearch/blueprint.md").encode(), "blueprint.md")
    assert "Differs from its parent" in first.purpose and "lr: 0.1 -> " in first.purpose
    assert "# the recipe of a small trainer; this comment stays" in git("show", f"{idea.branch}:recipe.yaml")


def the_end_is_written(camp: Any, state: Any) -> None:
    files = {path.name for path in camp.place.path.iterdir()}
    documents = {"report.md", "report.html", "session_state.md", "timeline.md", "files.md", "handoff.md"}
    assert documents | {"packages.txt"} <= files
    flag = json.loads(camp.place.flag.read_text())
    assert (flag["attempted"], flag["ending"]) == (10, state.reason)
    assert flag["best"] == state.best.slug and state.best.index > 1, camp.said()
    assert state.best.confirmed == "confirmed", camp.said()  # the effect is ten times the noise
    assert not list(Path(state.spec.trees).glob("slot-*"))
    assert camp.bench.git("worktree", "list", "--porcelain").count("worktree ") == 1
    sessions = camp.bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split()
    assert [name for name in sessions if not name.startswith("ajet_campaign")] == []


def test_a_parent_whose_branch_had_to_be_called_otherwise(camp: Any) -> None:
    camp.bench.git("branch", "autoresearch/one/first")  # somebody's
    queue = camp.ideas(
        {"slug": "first", "overrides": {"lr": 0.2}, "parent": "baseline"},
        {"slug": "second", "overrides": {"lr": 0.3}, "parent": "first"},
    )
    state = camp.run(queue=queue, count=3, retests=0, confirm=False)
    assert state.by_slug("first").branch == "autoresearch/one/first-2"
    (row,) = state.by_slug("second").rows
    assert row.parent_branch == "autoresearch/one/first-2"
    assert row.parent_commit == state.by_slug("first").commit
