"""What runs write in their worktrees is kept below their run directories, within a limit, and the winner's always."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAIN = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--out", default="out")
args = parser.parse_args()
os.makedirs(args.out, exist_ok=True)
os.makedirs("__pycache__", exist_ok=True)
open("__pycache__/x.pyc", "w").write("x")
os.symlink("/etc", "elsewhere")
os.makedirs("data")
open("data/mnist", "w").write("x")
open(args.out + "/w.npz", "w").write(str(args.lr) * 100_000)
open("notes.txt", "w").write("mine")
for step in (1, 2, 3):
    print(f"step: {step} | loss: 0.5 | score: {args.lr:.6f}", flush=True)
"""
WRITES = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--config")
parser.add_argument("--lr", type=float, default=0.1)
os.makedirs("data", exist_ok=True)
args = parser.parse_args()
json.dump({"score": args.lr}, open("data/eval.json", "w"))
"""
FAST = {"proposer": "grid", "baseline": 1, "retests": 0, "confirm": False}


def project(bench: Any, command: str) -> None:
    (bench.repo / "train.py").write_text(textwrap.dedent(TRAIN))
    (bench.repo / ".gitignore").write_text("out/\n")
    bench.blueprint("ok", command=command, trainer="generic", notes="- step_line: pairs step\n", metric="score")
    bench.commit("a script that writes")


def kept(row: Any) -> list[str]:
    root = Path(row.run_dir) / "outputs"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_what_every_run_wrote_is_there_at_the_end(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.1")
    keys = {"space": {"lr": [0.2, 0.3, 0.4]}, "count": 4, **FAST}
    plan = camp.bench.ask("campaign", camp.file(**keys), "--dry-run")["plan"]
    assert "at most 20 GB of outputs are kept" in plan["disk"]
    state = camp.run(**keys)
    assert [kept(row) for row in state.rows] == [["notes.txt", "out/w.npz"]] * 4, camp.said()
    texts = [(Path(row.run_dir) / "outputs/out/w.npz").read_text()[:3] for row in state.rows]
    assert texts == ["0.1", "0.2", "0.3", "0.4"]
    report = (Path(state.spec.directory) / "report.md").read_text()
    assert "## What the runs wrote" in report and f"{state.best.name}: " in report
    assert "kept its outputs: notes.txt, out/w.npz" in Path(state.rows[1].result_dir, "experiment_log.md").read_text()


def test_a_source_is_kept_where_a_run_in_the_checkout_left_one_that_got_into_the_commit(camp: Any) -> None:
    (camp.bench.repo / "train.py").write_text(textwrap.dedent(WRITES))
    (camp.bench.repo / "conf.toml").write_text("[optim]\nlr = 0.1\n")  # named, and neither read nor varied
    command, notes = "python train.py --config conf.toml", "- source: json data/eval.json"
    camp.bench.blueprint("ok", command=command, trainer="generic", notes=notes, metric="score")
    camp.bench.commit("a script with a file of its own")
    camp.bench.ask("run", "exp.md")
    state = camp.run(space={"lr": [0.3, 0.4]}, count=2, **FAST)
    assert [kept(row) for row in state.rows] == [["data/eval.json"]] * 2, camp.said()
    assert [camp.bench.ask("metrics", row.run_id)["metric_value"] for row in state.rows] == [0.1, 0.3]


def test_beyond_the_limit_losers_go_first_by_name_and_the_winner_s_stays(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.9")  # the baseline is the best
    state = camp.run(space={"lr": [0.2, 0.3, 0.4]}, count=4, keep_gb=0.00065, **FAST)
    assert [bool(kept(row)) for row in state.rows] == [True, False, False, True], camp.said()
    name = state.rows[1].run_id
    assert "removed its outputs, notes.txt, out/w.npz: all runs together keep 0.00065 GB (keep_gb)" in camp.said()
    assert f"{name}: removed notes.txt, out/w.npz" in (Path(state.spec.directory) / "report.md").read_text()
    claims = {row["run_id"]: row.get("claim") for row in camp.bench.ask("ledger", "show", "one")["rows"]}
    assert [claims[row.run_id] or "" for row in state.rows] == ["", *["its outputs were removed"] * 2, ""]
    assert "removed its outputs" in Path(state.rows[1].result_dir, "experiment_log.md").read_text()
    gone = "its outputs were removed (all runs together keep 0.00065 GB (keep_gb)): notes.txt, out/w.npz"
    assert gone in camp.bench.ask("metrics", name)["warnings"]


def test_a_winner_larger_than_the_limit_is_kept(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.9")
    state = camp.run(space={"lr": [0.2, 0.3]}, count=2, keep_gb=0.0001, **FAST)
    assert [bool(kept(row)) for row in state.rows] == [True, False]
    assert "all runs together keep 0.0001 GB" in camp.said()


def test_a_place_that_all_runs_share_is_warned_of(camp: Any) -> None:
    project(camp.bench, f"python train.py --out {camp.bench.root}/shared")
    said = camp.bench.ask("campaign", camp.file(space={"lr": [0.2, 0.3]}, count=2, **FAST), "--dry-run")
    assert any(f"all runs write to the same place (out {camp.bench.root}/shared)" in word for word in said["remarks"])
    shutil.rmtree(camp.bench.root / "shared", ignore_errors=True)


def test_a_controller_killed_before_it_kept_them_keeps_them_when_it_goes_on(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.1")
    camp.killed_at("campaign.recorded", space={"lr": [0.2, 0.3]}, count=2, **FAST)
    (row,) = camp.state().rows
    assert kept(row) == []
    camp.bench.ask("campaign", "resume", "one", "--detach")
    state = camp.over()
    assert [kept(row) for row in state.rows] == [["notes.txt", "out/w.npz"]] * 2, camp.said()


def test_the_plan_and_the_status_say_what_the_disk_holds(camp: Any) -> None:
    project(camp.bench, "python train.py --lr 0.9")
    keys = {"space": {"lr": [0.2, 0.3]}, "count": 3, **FAST}
    before = camp.bench.ask("campaign", camp.file(keep_gb=0.0005, **keys), "--dry-run")
    assert before["plan"]["disk"].startswith("at most 0.0005 GB of outputs are kept; ")
    assert before["disk"]["keep_at_most"] == 500_000 and before["disk"]["free"] > 0
    state = camp.run(keep_gb=0.0005, **keys)
    wrote = sum(path.stat().st_size for path in (Path(state.rows[0].run_dir) / "outputs").rglob("*") if path.is_file())
    now = camp.bench.ask("campaign", "status", "one")["disk"]
    assert wrote == now["kept"] > 200_000  # those of two runs were removed
    assert now["worktrees"] == 0 and now["keep_at_most"] == 500_000 and now["results"] > 0
    _, said, _ = camp.bench.here("campaign", "status", "one")
    assert "disk: 0.3 MB of at most 0.0005 GB kept, " in said, said
