"""The plan: what would be done, where each value came from, and not one byte changed before somebody agrees."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_without_a_yes_not_one_byte_is_changed(camp: Any) -> None:
    camp.recipe(lr=0.05)  # a dirty file, which the plan names
    queue = camp.ideas({"overrides": {"lr": 0.2}})
    path = camp.file(queue=queue, timeout="1m", parallel=2)
    home = Path(os.environ["HOME"])
    before = camp.bench.picture(), sorted(home.rglob("*"))
    flags = ("--count", "24", "--deadline", "5m", "--set", "target=task_pass_rate@1>=0.8")
    found = camp.bench.ask("campaign", path, *flags, check=2)
    code, out, err = camp.bench.here("campaign", path, *flags, "--full")
    short = camp.bench.here("campaign", path, *flags)[1].splitlines()
    usual = [line for line in short if not line.startswith(("dirty", "remark"))]
    assert len(usual) <= 10 and "--full: all of it" in short[0]
    assert (camp.bench.picture(), sorted(home.rglob("*"))) == before

    assert (code, found["exit_code"], found["state"]) == (2, 2, "planned")  # nothing was started: no success
    assert "nothing was started: --yes starts it" in err
    assert "nothing was changed" in out
    plan = found["plan"]
    assert plan["objective"].startswith("task_pass_rate@1, maximize")
    stops = r"24 ideas, the baseline among them  \(flag --count\); in (5m|4m\d+s)  \(flag --deadline\); "
    assert re.fullmatch(stops + r"task_pass_rate@1 reaching 0\.8.*", plan["stops at"]), plan["stops at"]
    assert plan["each run"].startswith("at most 1m; 2 at a time") and "campaign.yaml" in plan["each run"]
    assert plan["ideas from"].startswith("queue  (a queue is named)")
    assert "recipe.yaml" in plan["dirty"] and plan["branches"].startswith("autoresearch/one/")
    assert plan["runs"].startswith("24 ideas: at most ")
    assert plan["hours"] == "unknown until the baseline ran; a run is cut after 1m"
    assert found["cost"]["run_s"] is None and found["cost"]["runs_at_least"] == 25
    for key, value in plan.items():
        assert key in out and value.replace(f"{camp.bench.repo}/", "") in out

    (line,) = found["next"]
    assert shlex.split(line) == ["autoresearch", "campaign", str(path), *flags, "--yes", "--detach", "--json"]
    dry = camp.bench.ask("campaign", path, *flags, "--yes", "--dry-run")
    assert (dry["state"], dry["next"]) == ("planned", [line])
    assert camp.bench.picture() == before[0]


def test_an_earlier_run_tells_how_long_one_takes(camp: Any) -> None:
    run = camp.bench.ask("run", "exp.md")["run"]
    path = camp.file(space={"lr": [0.5, 0.2]}, proposer="grid", baseline=None)
    found = camp.bench.ask("campaign", path, "--count", "3", "--dry-run")
    assert f"(as the run {run} took) on 1 slot" in found["plan"]["hours"] and found["cost"]["run_s"]
    assert "4 runs, on" in found["plan"]["baseline"] and "5 are for 8 ideas or more" in found["plan"]["baseline"]
    assert "8 to 16 fresh runs" in found["plan"]["claims"]
    given_up = camp.bench.ask("campaign", path, "--count", "3", "--set", "confirm=false", "--dry-run")["plan"]["claims"]
    assert "none (confirm: false)" in given_up and "likely too good" in given_up


def test_the_file_is_found_and_without_a_rule_there_are_four_ideas(camp: Any) -> None:
    """`autoresearch campaign --yes` alone; the approving line of the plan is what is typed."""
    camp.file(queue=camp.ideas(*({"overrides": {"lr": n}} for n in (1, 2, 3, 4, 5))), retests=0, confirm=False)
    found = camp.bench.ask("campaign", "--set", "baseline=1", check=2)
    assert "no stop rule was given: the baseline and three ideas" in found["plan"]["stops at"]
    words = [word for word in shlex.split(found["next"][0])[1:] if word != "--detach"]
    ended = camp.known(camp.bench.ask(*words))
    assert (ended["state"], ended["attempted"], ended["remaining"]) == ("ended", 4, 0)
    assert ended["reason"] == "stop condition met: 4/4 ideas attempted"
    assert any(line.startswith("autoresearch campaign set one count=") for line in ended["next"])  # the question
    assert [idea.index for idea in camp.state().ideas if idea.attempted] == [1, 2, 3, 4]
    assert len(camp.state().baseline.rows) == 1


def test_edits_of_the_user_are_a_commit_of_their_own(camp: Any) -> None:
    (camp.bench.repo / "notes.txt").write_text("mine, and none of an idea's\n")
    queue = camp.ideas({"slug": "lower", "overrides": {"lr": 0.01}})
    state = camp.run(queue=queue, count=2, baseline=1, retests=0, confirm=False)
    git, base = camp.bench.git, state.spec.base_commit
    assert git("log", "-1", "--format=%s", base).strip() == "base: your uncommitted changes"
    assert "notes.txt" in git("show", "--name-only", "--format=", base)
    for idea in state.ideas:
        own = git("diff-tree", "-r", "--name-only", "--no-commit-id", idea.commit)
        assert own and "notes.txt" not in own, idea.slug
