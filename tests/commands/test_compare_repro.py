"""`compare` and `repro` on real runs: what differs is told, and what is printed makes a row again."""

from __future__ import annotations

import subprocess
import sys
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


def test_two_runs_are_compared_and_one_is_made_again(bench: Any) -> None:
    first, second = one(bench, "first", "0.1"), one(bench, "second", "0.3")
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
    assert f"such as {first['result_dir']};" in bench.here("repro", first["run"])[1]
    assert len(bench.git("worktree", "list").splitlines()) == 1, "nothing was made"
    assert {p: p.read_bytes() for p in before} == before and bench.git("status", "--porcelain") == status

    (bench.repo / "recipe.yaml").unlink()
    script = "set -e\n" + "\n".join(said["lines"])
    subprocess.run(["bash", "-c", script], env=bench.env, check=True, capture_output=True)
    metrics = Path(first["result_dir"], "metrics.jsonl").read_bytes()
    assert metrics == 2 * before[Path(first["result_dir"], "metrics.jsonl")], "the same once more"


def test_one_of_a_src_layout_is_made_again_with_its_own_package_not_with_an_editable_install(bench: Any) -> None:
    package, venv = bench.repo / "src/pkg/__init__.py", bench.root / "venv"
    package.parent.mkdir(parents=True)
    package.write_text("RATE = 0.25\n")
    (bench.repo / "train.py").write_text("import pkg\nprint('task_pass_rate@1:', pkg.RATE)\n")
    bench.commit("a package")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/*/site-packages")
    (site / "pkg.pth").write_text(f"{package.parents[1]}\n")
    path = bench.blueprint(command="python train.py", trainer="", python=str(venv / "bin/python"))
    ran = bench.ask("run", path)
    package.write_text("RATE = 0.75\n")
    script = "set -e\n" + "\n".join(bench.ask("repro", ran["run"])["lines"])
    again = subprocess.run(["bash", "-c", script], env=bench.env, check=True, capture_output=True, text=True)
    assert "task_pass_rate@1: 0.25" in again.stdout
