"""Two projects on one account whose campaigns have the same name: each measures its own code."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_campaigns_of_one_name_share_no_worktree(crashes: Any) -> None:
    """The other project is a clone of the first one."""
    bench = crashes.bench
    crashes.recipe(mode="hold")
    bench.git("commit", "-qam", "hold")
    root = bench.root / "other"
    bench.git("clone", "-q", str(bench.repo), str(root / "repo"))
    other = replace(crashes, bench=replace(bench, repo=root / "repo", root=root), go=root / "go")
    text = (other.bench.repo / "exp.md").read_text()
    (other.bench.repo / "exp.md").write_text(text.replace(str(bench.repo), str(other.bench.repo)))
    other.recipe(lr=0.9)  # 0.59, where the first one has 0.51
    other.bench.git("commit", "-qam", "another project")

    crashes.start(count=1, baseline=2)
    run = crashes.running("baseline").run
    shared = other.file(count=1, trees=crashes.state().spec.trees)
    refused = other.bench.ask("campaign", shared, "--yes", check=5)["error"]
    assert refused["code"] == "slot_taken" and str(bench.repo) in refused["message"] and refused["hint"]
    (_, place) = crashes.began(run)[0]
    before = Path(place, "exp.yaml").read_text()
    other.start(count=1, baseline=2)
    theirs = other.view_when_ended()
    assert Path(place, "exp.yaml").read_text() == before
    crashes.go.touch()
    ours = crashes.view_when_ended()
    assert ours.spec.trees != theirs.spec.trees
    assert baseline(ours) == pytest.approx([0.51] * 2, abs=0.003)
    assert baseline(theirs) == pytest.approx([0.59] * 2, abs=0.003)


def baseline(state: Any) -> list[float]:
    return [row.metric_value for row in state.rows if row.branch.endswith("/baseline")]


def test_a_name_and_no_name_stay_in_the_project(crashes: Any) -> None:
    bench = crashes.bench
    crashes.recipe(mode="hold")
    bench.git("commit", "-qam", "hold")
    crashes.start(count=1, baseline=1)
    crashes.running("baseline")
    plain = bench.root / "plain"
    shutil.copytree(bench.repo, bench.root / "other", ignore=shutil.ignore_patterns("reports", "results*"))
    plain.mkdir()
    for directory in (bench.root / "other", plain, bench.root):  # the last one holds both, and is neither
        stranger = replace(bench, repo=directory)
        for words in (("stop",), ("stop", "one"), ("pause",), ("set", "count=40"), ("resume", "one"), None):
            typed = ("campaign", *words) if words else ("report",)
            error = stranger.ask(*typed, check=4)["error"]
            assert str(directory) in error["message"] and str(crashes.place.path) in error["hint"]
        stranger.ask("ledger", "show", "one", check=4)
    below = replace(bench, repo=bench.repo / "reports")
    assert below.ask("campaign", "status")["campaign"] == "one"
    assert below.ask("campaign", "status", "last-campaign")["campaign"] == "one"
    assert stranger.ask("campaign", "status", crashes.place.path)["campaign"] == "one"  # a directory is that directory
    assert crashes.state().phase == "running" and crashes.state().spec.rules.count == 1
    crashes.go.touch()
    crashes.ended(1)


def test_where_it_was_typed_is_its_project_too(crashes: Any) -> None:
    home = crashes.bench.root / "home"
    home.mkdir()
    path = crashes.file(count=1)
    elsewhere = replace(crashes.bench, repo=home)
    elsewhere.ask("campaign", path, "--yes", "--detach")
    assert elsewhere.ask("campaign", "status")["campaign"] == "one"
    crashes.ended(1)
