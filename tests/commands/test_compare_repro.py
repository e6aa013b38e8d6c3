"""`compare` and `repro` on real runs: what differs is told, and a row is made again without touching the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

RECIPE = "experiment_name: one\nlr: 0.1\nseed: 5\nmetrics_jsonl_path: {out}/metrics.jsonl\n"
PROGRAM = """
import json, os, sys
text = dict(line.split(": ", 1) for line in open(sys.argv[2]).read().splitlines())
path = text["metrics_jsonl_path"]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "a") as file:
    for n in (1, 2):
        file.write(json.dumps({"step": n, "data": {"task_pass_rate@1": float(text["lr"]) * n}}) + "\\n")
        print(f"step:{n} - actor/kl_loss:0.1 - critic/rewards/mean:0.{n}", flush=True)
"""


def one(bench: Any, name: str, lr: str) -> dict[str, Any]:
    """A run of the little program with a recipe of its own."""
    out = bench.root / f"results-{name}"
    (bench.repo / "recipe.yaml").write_text(RECIPE.format(out=out).replace("0.1", lr))
    (bench.repo / "train.py").write_text(PROGRAM)
    path = bench.blueprint(
        name,
        name=f"{name}.md",
        command="python train.py --conf recipe.yaml",
        result_dir=str(out),
        trainer="tinygrpo",
    )
    path.write_text(path.read_text().replace("- path: NA", "- path: recipe.yaml"))
    return dict(bench.ask("run", path))


@pytest.fixture
def pair(bench: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two runs whose recipes differ in one key."""
    return one(bench, "first", "0.1"), one(bench, "second", "0.3")


def test_two_runs_are_compared_and_one_is_made_again(bench: Any, pair: Any) -> None:
    first, second = pair
    found = bench.ask("compare", first["run"], second["run"])
    assert found["config"] == {"lr": [0.1, 0.3]}
    assert list(found["per_run"]) == ["metrics_jsonl_path"]
    assert (found["metrics"]["a"]["last"], found["metrics"]["b"]["last"]) == (0.2, 0.6)
    assert found["metrics"]["difference"] == pytest.approx(0.4)
    code, out, _ = bench.here("compare", first["run"], second["run"])
    assert code == 0 and len(out.splitlines()) <= 30
    assert "lr: 0.1 -> 0.3" in out and "not a confirmation" in out

    before = {p: p.read_bytes() for p in Path(first["result_dir"]).rglob("*") if p.is_file()}
    status = bench.git("status", "--porcelain")
    ledger = Path(first["ledger"]).parent.name
    said = bench.ask("repro", f"{ledger}:1")
    assert said["commit"] == first["commit"] and said["seed"] == 5 and said["value"] == 0.2
    assert first["commit"][:12] in said["lines"][0]
    assert said["lines"][-1] == "bash -c 'python train.py --conf recipe.yaml'"
    assert f"such as {first['result_dir']}; --run does not:" in bench.here("repro", first["run"])[1]
    assert len(bench.git("worktree", "list").splitlines()) == 1, "nothing was made"

    again = bench.ask("repro", first["run"], "--run")
    tree = Path(again["worktree"])
    recipe = (tree / "recipe.yaml").read_text()
    assert "lr: 0.1" in recipe and "seed: 5" in recipe and f"{again['result_dir']}/metrics.jsonl" in recipe
    bench.until(lambda: bench.ask("status", again["run"])["state"] == "ended")
    ended = bench.ask("status", again["run"])
    assert (ended["ending"], ended["metrics"]["task_pass_rate@1"]) == ("finished", 0.2)
    assert bench.git("rev-parse", again["branch"]) == again["checked_out"]
    assert bench.git("rev-parse", f"{again['branch']}^") == first["commit"]
    after = bench.ask("compare", first["run"], again["run"])
    assert after["config"] == {} and after["code"] == "the same"
    assert {p: p.read_bytes() for p in before} == before and bench.git("status", "--porcelain") == status

    assert bench.ask("repro", first["run"], "--run")["worktree"] != again["worktree"], "no run switches another's"


def test_names_that_mean_nothing(bench: Any) -> None:
    for args in (("compare", "no", "such"), ("repro", "no:3.4"), ("repro", "nothing")):
        error = bench.ask(*args, check=4)["error"]
        assert error["message"].isprintable() and error["hint"]
