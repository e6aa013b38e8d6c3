"""What a run's name means where it is typed, and that each command which changes something says what it took."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.system

OF_A_RUN: Sequence[str] = (
    "status {}",
    "wait {} --for 1s",
    "logs {} --events",
    "logs {}",
    "explain {}",
    "metrics {}",
    "compare {} {}",
    "ledger show {}",
    "repro {}",
    "note {} hello",
    "attach {}",
    "stop {} --reason x",
    "run exp.md --fix-of {} --dry-run",
)
WITHOUT_A_NAME = (
    "wait --for 1s",
    "logs --events",
    "logs",
    "explain",
    "metrics",
    "ledger show",
    "attach",
    "stop --reason x",
)


def test_names_and_no_name_stay_in_the_project(bench: Any) -> None:
    bench.blueprint(name="sort.md", title="Sort")
    typed_in = bench.root / "typed"
    typed_in.mkdir()
    first = replace(bench, repo=typed_in).ask("run", bench.repo / "sort.md")
    run, run_dir = first["run"], first["run_dir"]
    assert run.startswith("sort-")
    other, plain = bench.root / "other", bench.root / "plain"
    shutil.copytree(bench.repo, other, ignore=shutil.ignore_patterns("reports", "results*"))
    plain.mkdir()
    for directory in (other, plain, bench.root):  # another repository, no project, the parent of both
        stranger = replace(bench, repo=directory)
        stranger.blueprint()
        for line in OF_A_RUN if directory == other else OF_A_RUN[:1]:
            for name in ("last", "sort"):
                error = stranger.ask(*line.format(name, name).split(), check=4)["error"]
                assert str(directory) in error["message"] and f"{run} in {run_dir}" in error["hint"], line
        for line in WITHOUT_A_NAME if directory == other else ():
            stranger.ask(*line.split(), check=4)
        for name in (run, first["session"], first["result_dir"], run_dir):  # wherever it is typed
            assert stranger.ask("status", name)["run"] == run
    for directory in (bench.repo, bench.repo / "reports", typed_in):
        for name in ("last", "sort"):
            assert replace(bench, repo=directory).ask("status", name)["run"] == run
    # the other project's own run is its last one, and not ours
    stranger = replace(bench, repo=other)
    stranger.blueprint(codebase=str(other), result_dir=str(bench.root / "theirs"))
    theirs = stranger.ask("run", "exp.md")["run"]
    assert stranger.ask("stop")["run"] == stranger.ask("status", "last")["run"] == theirs
    assert bench.ask("note", "last", "hello")["run"] == run


def test_a_rows_recipe_is_a_path_inside_its_commit(crashes: Any) -> None:
    bench = crashes.bench
    crashes.recipe()
    (bench.repo / "conf").mkdir()
    for number, recipe in enumerate((bench.repo / "conf" / "a.yaml", bench.root / "b.yaml")):
        recipe.write_text("lr: 0.1\n")
        path = bench.blueprint(name=f"{number}.md", title=f"Recipe {number}")
        path.write_text(path.read_text().replace("- path: NA", f"- path: {recipe}"))
        row = rows(Path(bench.ask("run", path)["ledger"]))[0]
        assert row.recipe == ("conf/a.yaml", ".autoresearch/recipe/b.yaml")[number]
        assert bench.git("show", f"{row.commit}:{row.recipe}") == "lr: 0.1"
        bench.ask("stop")
    crashes.start(count=2, baseline=1)
    for row in crashes.ended(2).rows:
        assert row.recipe == "exp.yaml" and "lr: " in bench.git("show", f"{row.commit}:{row.recipe}")


def rows(ledger: Path) -> list[Any]:
    return list(Ledger(ledger).rows())


ON_A_RUN = ("note last hello", "stop last --reason x", "collect last", "repro last", "stop last")
ON_A_CAMPAIGN = (
    "campaign set one count={}",
    "campaign add one --set lr=0.{}",
    "campaign skip lr-0-{} --campaign one",
    "note one hello",
    "campaign pause one",
    "campaign resume one --detach",
    "report one",
    "campaign stop one --drain",
    "campaign stop one",
)


def test_what_changes_a_run_says_which(bench: Any) -> None:
    bench.blueprint("long")
    lone = bench.ask("run", "exp.md", "--detach")
    says(bench, lone["run_dir"], "stop last --reason x --no-wait")
    bench.ask("stop", "last", "--reason", "x")
    says(bench, lone["run_dir"], *ON_A_RUN)
    bench.blueprint(name="two.md", title="Two", result_dir=str(bench.root / "two"))
    says(bench, "reports/auto_research/", "run two.md --detach")
    bench.ask("wait", "last")


def test_what_changes_a_campaign_says_which(crashes: Any) -> None:
    crashes.recipe(mode="hold")
    crashes.bench.git("commit", "-qam", "hold")
    crashes.start(count=2)
    crashes.running("baseline")
    says(crashes.bench, str(crashes.place.path), *ON_A_CAMPAIGN)
    crashes.dead()


def says(bench: Any, directory: str, *lines: str) -> None:
    """Type each line for a person and for a program: both answers name the directory, the program's the whole path."""
    for line in lines:
        code, out, err = bench.here(*line.format(4).split())
        shown = os.path.relpath(directory, bench.repo) if directory.startswith(str(bench.repo)) else directory
        assert code == 0 and shown in out, f"{line}: {code} {out} {err}"
        if "--detach" in line or "stop one" in line:  # once is enough
            continue
        payload = bench.ask(*line.format(5).split())
        told = next(iter(payload.get("runs", ())), payload)
        assert told.get("run") or told.get("row") or told.get("campaign"), line
        assert directory in (told.get("run_dir"), told.get("row_dir"), told.get("directory")), line
