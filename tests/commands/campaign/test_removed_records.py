"""Records that `git clean -fdx` removed while a campaign ran, and those of a repository that was moved."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import is_dead

pytestmark = pytest.mark.system


def test_where_records_are_removed_the_controller_ends_and_what_runs_goes_on(camp: Any) -> None:
    bench = camp.bench
    camp.recipe(mode="hold")
    camp.file(queue=camp.ideas({"slug": "a", "overrides": {"lr": 0.2}}), baseline=1, retests=0, confirm=False, count=2)
    bench.commit("all")
    camp.known(bench.ask("campaign", "--yes", "--detach"))
    (run,) = camp.until(lambda: [run for _, run in camp.state().live])
    camp.until(lambda: "first_step" in Path(run.run_dir, "events.jsonl").read_text())
    controller = camp.pid()
    clean = ["git", "clean", "-fdxq"]  # it gives up at a file that is renamed while it looks: a user asks again
    bench.until(lambda: not subprocess.run(clean, cwd=bench.repo, check=False, capture_output=True).returncode)
    bench.until(lambda: is_dead(controller))
    assert bench.carriers()  # the Runner and its trainer
    for words in (("campaign", "status"), ("campaign", "resume", "one"), ("campaign", "resume", str(camp.place.path))):
        assert "the records of one are gone" in bench.ask(*words, check=4)["error"]["hint"]
    for words in ("status", "wait", "logs", "explain", "stop"):
        assert "somebody removed it" in bench.ask(words, run.run, check=4)["error"]["hint"]
    camp.go.touch()
    bench.until(lambda: not bench.carriers())


def test_a_repository_that_was_moved_loses_nothing(camp: Any) -> None:
    """Its campaign is read where it is now, the same line begins another one, and a run is found by its directory."""
    bench = camp.bench
    space = {"space": {"lr": [0.2, 0.3]}, "proposer": "grid", "prefix": None}
    path = camp.file(**space, baseline=1, retests=0, confirm=False)
    camp.known(bench.ask("campaign", path, "--count", 1, "--yes", "--detach"))
    camp.over()
    moved = bench.root / "moved"
    bench.repo.rename(moved)
    before, bench.repo = bench.repo, moved
    assert bench.ask("campaign", "status")["attempted"] == 1
    where = bench.ask("status", "last", check=4)["error"]["hint"].partition(" in ")[2].split(",")[0]
    assert bench.ask("status", where.replace(str(before), str(moved)))["ending"] == "finished"
    (moved / "exp.md").write_text((moved / "exp.md").read_text().replace(str(before), str(moved)))
    assert bench.ask("campaign", "campaign.yaml", "--count", 2, "--dry-run")["campaign"].endswith("-campaign-2")
