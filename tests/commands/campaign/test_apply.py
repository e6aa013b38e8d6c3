"""`apply`: an idea comes into the user's own files, and the user's plain command trains with its gain."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=3)
parser.add_argument("--conf", default="conf.yaml")
args = parser.parse_args()
conf = dict(line.split("#")[0].strip().split(": ") for line in open(args.conf) if ": " in line.split("#")[0])
bonus = 0.0
gain = float(conf["gain"])
print("training", args.lr)
for step in (1, 2, 3):
    print(f"step: {step} | loss: 0.5 | score: {args.lr + gain + bonus + args.seed / 1e6:.6f}", flush=True)
"""
CONF = """# mine; this comment stays
gain: 0.0  # what it adds
name: first
"""
EDIT = """--- a/train.py
+++ b/train.py
@@ -7,3 +7,3 @@
 conf = dict(line.split("#")[0].strip().split(": ") for line in open(args.conf) if ": " in line.split("#")[0])
-bonus = 0.0
+bonus = 0.3
 gain = float(conf["gain"])
"""


@pytest.fixture
def tried(camp: Any) -> Any:
    """A campaign over a flag, a recipe's key and a line of code, all merged in the last idea; nothing is confirmed."""
    repo = camp.bench.repo
    (repo / "train.py").write_text(textwrap.dedent(TRAIN))
    (repo / "conf.yaml").write_text(CONF)
    (repo / "edit.patch").write_text(EDIT)
    (repo / "notes.txt").write_text("one\n")
    notes = "- step_line: pairs step"
    command, purpose = "python train.py --lr 0.1", "See what `python train.py --lr 0.1` comes to."
    camp.bench.blueprint("ok", command=command, purpose=purpose, trainer="generic", metric="score", notes=notes)
    camp.bench.commit("a script of one's own")
    ideas = [
        {"slug": "flag", "overrides": {"lr": 0.2}, "parent": "baseline"},
        {"slug": "all", "overrides": {"lr": 0.4, "gain": 0.25}, "patches": ["edit.patch"], "parent": "baseline"},
    ]
    camp.run(queue=camp.ideas(*ideas), count=3, baseline=1, retests=0, confirm=False)
    assert [round(row.metric_value or 0, 3) for row in camp.state().rows] == [0.1, 0.2, 0.95], camp.said()
    return camp


def looks(repo: Path, bench: Any) -> tuple[str, ...]:
    """What must stay as it is: branch, index, working tree and stash of the checkout."""
    return (bench.git("branch", "--show-current"), bench.git("status", "--porcelain"), bench.git("diff"))


def test_code_recipe_and_flag_come_home_and_the_plain_command_gains(tried: Any) -> None:
    bench, repo = tried.bench, tried.bench.repo
    (repo / "notes.txt").write_text("one\ntwo\n")  # a dirty checkout, and a commit since the campaign began
    (repo / "conf.yaml").write_text(CONF.replace("first", "second"))
    bench.git("commit", "-qm", "other work", "--", "conf.yaml")
    (repo / "scratch").write_text("mine")
    before = looks(repo, bench)
    refused = bench.ask("apply", "all", check=5)["error"]
    assert refused["code"] == "not_confirmed" and "campaign confirm all" in refused["fix"]
    shown = bench.ask("apply", "all", "--diff")
    assert "+bonus = 0.3" in shown["diff"] and "+gain: 0.25  # what it adds" in shown["diff"]
    assert not bench.git("branch", "--list", "autoresearch/apply*")
    done = bench.ask("apply", "all", "--yes")
    assert looks(repo, bench) == before
    assert (done["branch"], done["command"]) == ("autoresearch/apply/all", "python train.py --lr 0.4")
    assert bench.ask("apply", "all", "--yes")["branch"] == done["branch"], "applied twice is applied once"
    message = bench.git("log", "-1", "--format=%B", done["branch"])
    assert "score 0.95" in message and "campaign one" in message
    bench.git("merge", "-q", done["branch"])
    assert (repo / "conf.yaml").read_text() == CONF.replace("first", "second").replace("0.0 ", "0.25 ")
    assert bench.ask("run", "exp.md")["metrics"]["score"] == pytest.approx(0.95, abs=1e-3)


def test_a_clash_is_named_and_nothing_is_half_done(tried: Any) -> None:
    bench, repo = tried.bench, tried.bench.repo
    text = (repo / "train.py").read_text()
    (repo / "train.py").write_text(text.replace("bonus = 0.0", "bonus = 0.1"))
    bench.git("commit", "-qam", "another bonus")
    refused = bench.ask("apply", "all", "--yes", check=5)["error"]
    assert refused["code"] == "apply_conflict" and "train.py" in refused["message"]
    assert not bench.git("branch", "--list", "autoresearch/apply*")
    (repo / "train.py").write_text(text)
    (repo / "conf.yaml").write_text("title: other\n" + CONF.replace("0.0  # what it adds", "0.1  # more"))
    bench.git("commit", "-qam", "the line of the recipe is another one")
    done = bench.ask("apply", "all", "--yes")
    assert bench.git("show", f"{done['branch']}:conf.yaml").splitlines()[2] == "gain: 0.25  # more"


def test_a_blueprint_that_git_does_not_hold_is_written_beside_its_own(tried: Any) -> None:
    bench, repo = tried.bench, tried.bench.repo
    bench.git("rm", "-q", "--cached", "exp.md")
    bench.git("commit", "-qm", "the blueprint is mine alone")
    done = bench.ask("apply", "flag", "--yes")
    assert (done["branch"], done["blueprint"]) == ("", str(repo / "exp-applied.md"))
    assert bench.ask("run", "exp-applied.md")["metrics"]["score"] == pytest.approx(0.2, abs=1e-3)


def test_where_nothing_is_better_there_is_nothing_to_bring(tried: Any) -> None:
    assert tried.bench.ask("apply", "baseline", check=5)["error"]["code"] == "nothing_to_apply"
    assert tried.bench.ask("apply", "nobody", check=4)["error"]["message"]
