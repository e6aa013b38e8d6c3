"""Campaigns whose runs are evaluated: in a worktree at the base commit, whatever an idea does to code and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

# What measures: it says which tree it stands in, and takes the weights' word for how good they are.
MEASURE = """
import os, subprocess, sys
sys.dont_write_bytecode = True  # what is ignored here was put here by somebody else
import ruler
here = os.path.dirname(os.path.abspath(__file__))
status = subprocess.run(["git", "status", "--porcelain", "--ignored"], cwd=here, capture_output=True, text=True).stdout
print("PATH", os.environ["PYTHONPATH"])
print("HEAD", subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True).stdout, end="")
print("RULER", os.path.dirname(os.path.abspath(ruler.__file__)), "STATUS", repr(status), flush=True)
if os.environ.get("MEET"):  # until another evaluation is under way too
    import time
    open(os.environ["MEET"] + "/" + os.environ["AUTORESEARCH_RUN_ID"], "w").close()
    while len(os.listdir(os.environ["MEET"])) < 2:
        time.sleep(0.02)
rate = ruler.length(open(os.environ["AUTORESEARCH_RESULT_DIR"] + "/weights").read())
print(f"task_pass_rate@1: {rate}", flush=True)
"""
TRAINER = """
import os
rate = 0.4
open(os.environ["AUTORESEARCH_RESULT_DIR"] + "/weights", "w").write(str(rate))
print("step:1 - actor/kl_loss:0.001 - actor/pg_loss:0.1 - critic/rewards/mean:0.1", flush=True)
print(f"step:1 - global_steps:1 - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
"""
RULER = "def length(text):\n    return float(text)\n"
# Its console is silent, its file differs from seed to seed, and how good it is has two digits, which seeds share.
WRITER = """
import json, os, random
draws = random.Random(os.environ["AUTORESEARCH_SEED"])
os.makedirs("outputs/a/b")
open(os.environ["AUTORESEARCH_RESULT_DIR"] + "/weights", "w").write("0.45")
with open("outputs/a/b/metrics.jsonl", "w") as file:
    for n in range(30):
        print(json.dumps({"step": n, "loss": 1 / (n + 2) + draws.gauss(0, 1e-3)}), file=file)
"""
FAKE = """
print("step:2 - global_steps:2 - pass_n:2 - task_pass_rate@1:0.99 - mean_reward:0.99", flush=True)
print("task_pass_rate@1: 0.99", flush=True)
open(os.environ["AUTORESEARCH_RUN_DIR"] + "/evaluation.log", "w").write("task_pass_rate@1: 0.98\\n")
"""
SPOILS = """
import glob
for place in (os.getcwd(), *glob.glob(os.path.join(os.path.dirname(os.getcwd()), "evaluation-*/"))):
    for name in ("ruler.py", "sitecustomize.py", "junk.txt", "junk.ignored"):
        open(os.path.join(place, name), "w").write("def length(text):\\n    return 0.97\\n")
    open(os.path.join(place, ".git-is-fine"), "w").close()
"""


def patch(repo: Path, name: str, more: str) -> str:
    """A patch that puts code at the end of the trainer."""
    old = (repo / "odd.py").read_text().splitlines()
    added = more.strip("\n").splitlines()
    body = [f"@@ -{len(old)},1 +{len(old)},{1 + len(added)} @@", f" {old[-1]}", *(f"+{line}" for line in added)]
    text = "\n".join(["--- a/odd.py", "+++ b/odd.py", *body, ""])
    (repo / name).write_text(text)
    return name


@pytest.fixture
def measured(camp: Any) -> Any:
    """A repository with a trainer, what measures it, and a blueprint that names both by whole paths."""
    repo = camp.bench.repo
    (repo / "measure.py").write_text(MEASURE)
    (repo / "ruler.py").write_text(RULER)
    (repo / "odd.py").write_text(TRAINER)
    (repo / ".gitignore").write_text("*.ignored\n__pycache__/\n")
    camp.bench.blueprint("ok", command="python odd.py", notes=f"- evaluate: python {repo}/measure.py")
    camp.bench.commit("a trainer that is measured")
    return camp


def evaluated(row: Any) -> str:
    return Path(row.run_dir, "evaluation.log").read_text()


def test_edited_code_changes_neither_the_number_nor_who_measures(measured: Any) -> None:
    repo = measured.bench.repo
    queue = measured.ideas(
        {"slug": "fake", "patches": [patch(repo, "fake.diff", FAKE)]},
        {"slug": "spoils", "patches": [patch(repo, "spoils.diff", SPOILS)], "parent": "baseline"},
    )
    state = measured.run(queue=queue, count=3, confirm=False, retests=0)
    rows = {idea.slug: idea.rows[0] for idea in state.ideas}
    assert {slug: row.metric_value for slug, row in rows.items()} == {"baseline": 0.4, "fake": 0.4, "spoils": 0.4}
    assert rows["fake"].flags == "the training printed task_pass_rate@1 = 0.99, the evaluation measured 0.4"
    assert rows["spoils"].flags == "it changed tracked files: ruler.py" and rows["baseline"].flags == ""
    base = state.spec.base_commit
    for row in rows.values():
        log = evaluated(row)
        assert f"HEAD {base}\n" in log and "STATUS ''" in log, log
        assert f"RULER {state.spec.trees}/evaluation-" in log and f"PATH {state.spec.trees}/evaluation-" in log, log
        assert "slot-" not in log
        assert "0.98" not in log and "0.97" not in log
    assert rows["fake"].commit != base
    story = Path(rows["fake"].result_dir, "experiment_log.md").read_text()
    assert f"mapped to the worktree of the evaluation: {repo}/measure.py -> {state.spec.trees}/evaluation-" in story
    assert not list(Path(state.spec.trees).glob("evaluation-*")), "its worktrees are gone"


def test_two_runs_are_measured_at_once(measured: Any) -> None:
    meet = measured.bench.root / "meet"
    meet.mkdir()
    measured.bench.env["MEET"] = str(meet)
    state = measured.run(queue=measured.ideas(), count=1, baseline=2, parallel=2, confirm=False)
    rows = state.by_slug("baseline").rows
    assert [(row.status, row.metric_value) for row in rows] == [("keep", 0.4)] * 2
    assert len(list(meet.iterdir())) == 2
    assert len({line for row in rows for line in evaluated(row).splitlines() if "RULER" in line}) == 2


def test_an_evaluation_that_the_base_does_not_have_is_refused(measured: Any) -> None:
    nowhere = f"{measured.bench.repo}/nowhere/measure.py"
    measured.bench.blueprint("ok", command="python odd.py", notes=f"- evaluate: python {nowhere}")
    path = measured.file(queue=measured.ideas(), count=1, baseline=1, confirm=False)
    told = measured.bench.ask("campaign", path, "--yes", "--detach", check=3)
    assert "nowhere/measure.py is not there" in told["error"]["message"], "before anything is trained"


@pytest.mark.parametrize("source", ["", "- source: jsonl outputs/*/*/metrics.jsonl"])
def test_what_the_training_wrote_tells_seeds_apart_and_is_read_where_it_is_kept(measured: Any, source: str) -> None:
    bench = measured.bench
    (bench.repo / "odd.py").write_text(WRITER)
    notes = f"- evaluate: python measure.py\n{source}"
    bench.blueprint("ok", command="python odd.py", trainer="generic", notes=notes)
    bench.commit("a trainer that is silent")
    state = measured.run(queue=measured.ideas(), count=1, baseline=3, confirm=False)
    rows = state.by_slug("baseline").rows
    assert [row.metric_value for row in rows] == [0.45] * 3 and not any(row.flags for row in rows)
    assert state.seed_check.seen, measured.said()
    found = bench.ask("metrics", rows[0].run_id)
    kept = Path(rows[0].run_dir, "outputs/outputs/a/b/metrics.jsonl").read_text().splitlines()
    assert found["metric_value"] == 0.45 and found["steps"][-1]["metrics"]["loss"] == json.loads(kept[-1])["loss"]
    assert not any("was not written" in one for one in found["warnings"]), found["warnings"]
