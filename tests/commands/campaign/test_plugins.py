"""The example package is installed by pip, and a campaign uses its trainer, reader, proposer and launcher by name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugin_dirs import on_path

pytestmark = pytest.mark.system

EXAMPLE = Path(__file__).parents[2] / "example_plugin"
DICE = """
import os, sys
lr = float(open(sys.argv[1]).read().split("lr: ")[1].split()[0])
with open("scores.txt", "w") as file:
    for turn in range(1, 4):
        score = 1.0 - lr + turn / 1000
        print(f"[dice] turn={turn} score={score:.2f}", flush=True)
        file.write(f"{turn} {score:.6f}\\n")
"""
BROKEN = "the plug-in broken (trainers) of autoresearch-example 0.3"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed the example package."""
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copytree(EXAMPLE, folder / "source")  # the build writes beside it
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", folder / "source"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder / "site"


@pytest.fixture
def dice(camp: Any, site: Path) -> Iterator[Any]:
    """A camp whose trainer is the example's, in an environment with the example."""
    bench = camp.bench
    bench.env["PYTHONPATH"] += f":{site}"
    (bench.repo / "dice.py").write_text(DICE)
    (bench.repo / "recipe.yaml").write_text("lr: 0.8\n")
    bench.blueprint("ok", command="python dice.py recipe.yaml", trainer="dice", metric="", recipe="recipe.yaml")
    bench.commit("dice")
    yield camp


def test_a_campaign_of_plugins(dice: Any, site: Path) -> None:
    bench = dice.bench
    keys: dict[str, object] = {"proposer": "halves", "launcher": "pool:1", "count": 3, "baseline": 1, "retests": 0}
    file = dice.file(**keys, confirm=False)
    started = bench.cli("campaign", file, "--yes", "--detach", "--json")
    assert "plug-in" not in started.stderr  # of the broken one
    dice.known(json.loads(started.stdout))
    state = dice.over()
    assert [row.ending for row in state.rows] == ["finished"] * 3, dice.said()
    assert [row.metric_value for row in state.rows] == [0.203, 0.603, 0.803]  # the reader's, with all digits
    assert [(row.trainer, row.launcher) for row in state.rows] == [("dice", "pool")] * 3
    assert [idea.hypothesis.proposer for idea in state.ideas[1:]] == ["halves", "halves"]

    # without the package: its run can still be looked at, and the campaign does not go on
    without = {"PYTHONPATH": bench.env["PYTHONPATH"].removesuffix(f":{site}")}
    seen = bench.cli("metrics", state.rows[0].run_id, **without)
    assert "is read without its trainer: there is no trainer 'dice'" in seen.stderr
    refused = bench.cli("campaign", "set", "count=4", check=6, **without)
    assert "one cannot go on: there is no trainer 'dice'" in refused.stderr


def test_a_run_with_a_plugin_and_what_doctor_says(dice: Any, site: Path) -> None:
    bench = dice.bench
    done = json.loads(bench.cli("run", "exp.md", "--json").stdout)
    read = json.loads(bench.cli("metrics", done["run"], "--json").stdout)
    assert (done["ending"], read["trainer"], read["metric_value"]) == ("finished", "dice", 0.203)
    assert read["source_kind"] == "scores"
    told = json.loads(bench.cli("doctor", "--json", check=None).stdout)["plugins"]
    assert {(one["group"], one["name"]): one["fault"] for one in told} == {
        ("trainers", "broken"): "ModuleNotFoundError: No module named 'autoresearch_example.no_such_module'",
        ("trainers", "dice"): None,
        ("launchers", "pool"): None,
        ("proposers", "halves"): None,
        ("agents", "parrot"): None,
        ("readers", "scores"): None,
    }
    refused = bench.cli("run", "exp.md", "--trainer", "broken", check=6).stderr
    assert f"{BROKEN} cannot be used: ModuleNotFoundError" in refused


def test_an_agent_that_is_a_plugin(dice: Any) -> None:
    bench = dice.bench
    file = dice.file(proposer="agent", agent="parrot", count=3)
    refused = bench.cli("campaign", file, "--yes", "--detach", check=6).stderr
    assert "the agent parrot is not installed: parrot is not on PATH" in refused


def test_the_example_fulfils_what_it_says(site: Path) -> None:
    with on_path(site):
        from autoresearch.agents.registry import researcher
        from autoresearch.core.agents.agent import Chosen

        agent = researcher("parrot", Chosen(model="green"))
        assert agent.argv(None) == ("parrot", "--model", "green")  # type: ignore[arg-type]
