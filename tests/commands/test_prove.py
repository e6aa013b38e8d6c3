"""`prove`: two versions, or two commands, by fresh runs of both; what it says, and what the same line does again."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import write_json
from autoresearch.records.index import state_home
from tests.commands.test_terminal_lines import at_terminal

pytestmark = pytest.mark.system

SCRIPT = """
import argparse, os, random
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
draws = random.Random(int(os.environ["AUTORESEARCH_SEED"]))
for step in (1, 2, 3):
    print(f"step {step} val_acc {0.5 + lr + draws.gauss(0, 0.01):.4f}", flush=True)
"""


@pytest.fixture
def project(undrawn: Any) -> Any:
    bench = undrawn
    (bench.repo / "train.py").write_text(SCRIPT)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a script")
    bench.git("checkout", "-qb", "mine")
    (bench.repo / "train.py").write_text(SCRIPT.replace("0.5 + lr", "lr + 0.5"))
    bench.git("commit", "-qam", "nothing that counts")
    return bench


def proof(bench: Any, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """What `prove --json WORDS` answers, by val_acc unless these name another metric, and what it says beside that."""
    found, out, err = bench.here("prove", "--json", *(() if "--metric" in words else ("--metric", "val_acc")), *words)
    assert found == code, out + err
    return dict(json.loads(out)), err


def test_a_better_command_is_proved(project: Any) -> None:
    words = ("--", "python train.py", "python train.py --lr 0.2")
    plan, _ = proof(project, "--dry-run", *words)
    assert plan["state"] == "planned" and plan["next"][0].endswith("'python train.py --lr 0.2'")
    found, _ = proof(project, *words)
    assert found["proved"] is True and found["state"] == "ended", found
    low, high = found["interval"]
    assert low < found["difference"] < high and 0.05 < low < 0.1 < high < 0.15
    assert 8 <= found["runs"] <= 16 and found["sentence"].startswith("proved: val_acc 0.")
    again, said = proof(project, *words)
    assert "before" in said and again["campaign"] == found["campaign"], "asked until it is yes, it would prove nothing"
    script = project.repo / "train.py"
    script.write_text(script.read_text().replace("lr + 0.5", "0.5"))
    other, _ = proof(project, *words)
    assert other["proved"] is False and other["campaign"] != found["campaign"], "of other code, it is another question"
    project.git("checkout", "-q", "train.py")
    assert proof(project, *words)[0]["sentence"] == found["sentence"]
    small, _ = proof(project, "--at-least", "50%", *words)
    assert small["proved"] is False and small["runs"] == 10 and small["difference"] > 0.05, "it ends early"


def test_both_sides_take_their_seed_from_the_recipe_that_their_command_names(project: Any) -> None:
    text = SCRIPT.replace('parser.add_argument("--lr"', 'parser.add_argument("--config")\nparser.add_argument("--lr"')
    text = text.replace('os.environ["AUTORESEARCH_SEED"]', 'open("conf.yaml").read().split()[1]')
    (project.repo / "train.py").write_text(text)
    (project.repo / "conf.yaml").write_text("seed: 7\n")
    found, _ = proof(project, "--", *(f"python train.py --config conf.yaml --lr {lr}" for lr in ("0.1", "0.2")))
    assert found["proved"] is True, found


def test_what_is_not_committed_is_put_to_the_proof(project: Any) -> None:
    words = ("--against", "HEAD", "--", "python", "train.py")
    assert "the same code" in project.here("prove", *words)[2]
    (project.repo / "lift.py").write_text("GAIN = 0.1\n")
    (project.repo / "train.py").write_text("from lift import GAIN\n" + SCRIPT.replace("0.5 + lr", "GAIN + 0.5 + lr"))
    before = project.git("status", "--porcelain")
    found, _ = proof(project, *words)
    assert found["proved"] is True and 0.05 < found["difference"] < 0.15, found
    assert project.git("status", "--porcelain") == before == "M train.py\n?? lift.py"
    again, said = proof(project, *words)
    assert "before" in said and again["campaign"] == found["campaign"]


def test_what_draws_anew_is_declared_on_the_line(project: Any) -> None:
    lasts = "import random, sys; print('latency', round(float(sys.argv[1]) + random.gauss(0, 5), 1))"
    (project.repo / "bench.py").write_text(lasts)
    words = ("--metric", "latency", "--", "python bench.py 100", "python bench.py 50")
    found, said = proof(project, *words, code=13)
    assert found["proved"] is None and "by `prove --seed`" in said, found
    found, _ = proof(project, "--seed", "random", *words)
    assert found["proved"] is True and -70 < found["difference"] < -30, found


def test_the_same_code_in_other_words_is_not(project: Any) -> None:
    words = ("mine", "--against", "mine~1", "--", "python", "train.py")
    found, _ = proof(project, *words)
    assert found["proved"] is False and abs(found["difference"]) < 0.02, found
    seen = re.search(r"a gain of 1.5 sd would have been seen in (\d+) of 100 cases", found["sentence"])
    assert seen and 78 <= int(seen[1]) <= 82, "simulated, and Python 3.12 draws other numbers than 3.11"
    assert project.git("status", "--porcelain") == "" and project.git("branch", "--show-current") == "mine"
    again, said = proof(project, *words)
    assert "before" in said and again["sentence"] == found["sentence"] and again["campaign"] == found["campaign"]


def test_a_worse_command_is_called_worse_wherever_the_proof_is_shown(project: Any) -> None:
    found, _ = proof(project, "--", "python train.py --lr 0.2", "python train.py")
    assert (found["proved"], found["worse"], found["exit_code"]) == (False, True, 0) and found["interval"][1] < 0
    assert found["sentence"].startswith("worse: val_acc 0.") and "interval -0.1" in found["sentence"]
    shown = {key: found[key] for key in ("proved", "worse", "sentence", "difference", "interval", "runs", "power")}
    for words in (("campaign", "status"), ("wait",), ("report",)):
        told = json.loads(project.here(*words, found["campaign"], "--json")[1])
        assert {key: told[key] for key in shown} == shown, words
        assert found["sentence"] in project.here(*words, found["campaign"])[1]
    assert found["sentence"] in (Path(found["directory"]) / "report.md").read_text()


@pytest.mark.parametrize(("gamed", "run"), [("lr > 0.15", 1), ("lr > 0.15 and seed >= 1000", 2)])
def test_the_first_run_that_breaks_a_constraint_ends_the_proof(project: Any, gamed: str, run: int) -> None:
    printed = f"seed = int(os.environ['AUTORESEARCH_SEED'])\nprint('step 3 tox', 0.5 if {gamed} else 0.05)\n"
    (project.repo / "train.py").write_text(SCRIPT + printed)
    words = ("--set", "constraints=tox < 0.1", "--", "python train.py", "python train.py --lr 0.2")
    found, _ = proof(project, *words)
    why = f"its run {run} broke a constraint: tox is 0.5, and the constraint is tox < 0.1"
    assert (found["proved"], found["sentence"]) == (False, f"not shown: {why}")
    assert found["runs"] == (0 if run == 1 else 2), "one fresh run of each side"


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("pass", 13, "not decided: no run of the baseline printed val_f1: finished (metric_unread): val_f1 was "),
        ("raise SystemExit('no data')", 10, "not decided: no run of the baseline printed val_f1: crashed"),
        ("lr == 0.2 or print(f'val_f1: {lr + draws.random()}')", 13, "not decided: no run of it printed val_f1: "),
    ],
)
def test_a_proof_that_could_not_measure_is_no_success(project: Any, line: str, code: int, told: str) -> None:
    (project.repo / "train.py").write_text(f"{SCRIPT}{line}\n")
    words = ("--metric", "val_f1", "--", "python train.py", "python train.py --lr 0.2")
    found, _ = proof(project, *words, code=code)
    assert found["proved"] is None and found["exit_code"] == code and found["sentence"].startswith(told), found
    assert json.loads(project.here("campaign", "status", found["campaign"], "--json")[1])["sentence"].startswith(told)
    if told.startswith("not decided: no run of the baseline"):
        again = proof(project, *words, code=code)[0]
        assert again["campaign"] != found["campaign"] and again["rows"] == found["rows"]


@pytest.mark.parametrize(("ours", "theirs", "change"), [("0.2", "0.1", 0.1), ("0.1", "0.2", -0.1), ("0.1", "1e-1", 0)])
def test_one_seed_proves_nothing(project: Any, ours: str, theirs: str, change: float) -> None:
    script = project.repo / "train.py"
    script.write_text(SCRIPT.replace('int(os.environ["AUTORESEARCH_SEED"])', "7"))
    words = ("--", f"python train.py --lr {theirs}", f"python train.py --lr {ours}")
    found, _ = proof(project, *words, code=13)
    assert (found["proved"], found["worse"], found["exit_code"]) == (None, False, 13)
    assert found["difference"] == pytest.approx(change) and found["interval"] is None
    outcome = "differs for this seed: val_acc " if change else "no difference for this seed: val_acc +0 "
    assert found["sentence"].startswith(outcome)
    assert "nothing is known of other seeds; to let the seed vary, let the training read $AUTO" in found["sentence"]
    assert {claim["claim"] for claim in found["claims"]} <= {"differs for this seed"} and not found["confirmed"]
    assert "before" in proof(project, *words, code=13)[1]


def test_a_candidate_that_fixes_its_seed_proves_nothing(project: Any) -> None:
    damaged = project.root / "other/campaign.json"  # a campaign of another project
    damaged.parent.mkdir()
    damaged.write_text("{}")
    (registered := state_home(project.env) / "campaigns").mkdir(parents=True)
    write_json(registered / "other.json", {"name": "20260101-other", "directory": str(damaged.parent)})
    words = ("import random; random.Random = lambda seed, made=random.Random: made(7)", "python train.py --lr 0.2")
    (project.repo / "pinned.py").write_text(f"{words[0]}\nexec(open('train.py').read())\n")
    found, _ = proof(project, "--", "python train.py", "python pinned.py --lr 0.2", code=13)
    assert found["proved"] is None and found["sentence"].startswith("not decided: its fresh runs are equal")
    assert found["interval"] is None and "to let the seed vary" in found["sentence"]


def test_where_nothing_is_random_one_run_of_each_side_tells(project: Any) -> None:
    """As the notes declare it and as equal runs show; runs that differ are not believed to be without chance."""
    exact = SCRIPT.replace("draws.gauss(0, 0.01)", "0.0").replace("0.5 + lr", "0.5")
    for branch, value in (("low", "0.5"), ("high", "0.7")):
        project.git("checkout", "-qB", branch, "mine")
        (project.repo / "train.py").write_text(exact.replace("{0.5", f"{{{value}"))
        blueprint = project.here("init", "--json", "--metric", "val_acc", "--", "python", "train.py")
        notes = project.repo / "experiment.md"
        notes.write_text(f"{notes.read_text()}- seed: none\n")
        project.git("add", "-A")
        project.git("commit", "-qm", value)
        assert blueprint[0] == 0, blueprint
    found, _ = proof(project, "high", "--against", "low")
    assert found["proved"] is True and found["sentence"].startswith("better, deterministic: val_acc +0.2"), found
    assert not found["confirmed"] and {claim["claim"] for claim in found["claims"]} == {"deterministic"}
    found, _ = proof(project, "low", "--against", "high")
    assert (found["proved"], found["worse"]) == (False, True)
    assert found["sentence"].startswith("worse, deterministic: val_acc -0.2"), found


def test_after_a_crash_of_the_controller_the_same_line_goes_on(project: Any) -> None:
    """Also in the confirmation round, when no idea is left to be tried."""
    slow = project.repo / "slow.py"
    slow.write_text(SCRIPT + "import time\ntime.sleep(0.5)\n")
    words = ("--", "python slow.py", "python slow.py --lr 0.2")
    begun, _ = proof(project, "--detach", *words)
    campaign_dir = CampaignDir(Path(begun["directory"]))
    project.until(lambda: campaign_dir.ledger.is_file() and campaign_dir.ledger.read_text().count("\n") > 4)
    os.kill(json.loads(campaign_dir.controller.read_bytes())["pid"], signal.SIGKILL)
    project.until(lambda: not campaign_dir.controlled)
    found, _ = proof(project, *words)
    assert found["proved"] is True and found["campaign"] == begun["campaign"], found


def test_a_seed_that_the_script_takes_and_never_reads_makes_no_copies(project: Any) -> None:
    fresh = SCRIPT.replace('random.Random(int(os.environ["AUTORESEARCH_SEED"]))', "random")
    fresh = fresh.replace("(1, 2, 3)", "range(1, 40)")
    fresh = fresh.replace("lr = parser", 'parser.add_argument("--seed", type=int)\nlr = parser')
    (project.repo / "train.py").write_text(fresh)
    found, _ = proof(project, "--", "python train.py --seed 1", "python train.py --seed 1 --lr 0.3")
    assert found["proved"] is True and found["seed"]["randomness"] == "random", found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "what is to be compared?"),
        (("--budget", "soon", "mine", "HEAD"), "--budget: 'soon' is not a duration"),
        (("--", "python train.py"), "what is to be compared?"),
        (("--", "python train.py", "python a.py", "--json"), "as one word, and `--json` follows them"),
        (("HEAD",), "HEAD is compared with nothing"),
        (("a", "b", "c"), "two revisions are compared, and 3 are named"),
        (("HEAD", "mine", "--", "python", "train.py"), "HEAD and mine have the same code"),
        (("nobody", "mine"), "nobody is no commit"),
        (("python a.py", "python b.py"), "commands stand behind `--`"),
        (("mine", "mine~1", "--at-least", "much"), "at_least is no gain: 'much'"),
        (("--", "python gone.py", "python train.py"), "autoresearch: the script gone.py is not there"),
        (("--", "python train.py", "python gone.py"), "autoresearch: the script gone.py is not there"),
    ],
)
def test_what_cannot_be_compared(project: Any, words: tuple[str, ...], told: str) -> None:
    code, _, err = project.here("prove", *words)
    assert code == (3 if "gone.py" in told else 2) and told in err, err
    assert not list(project.repo.glob("**/typed")) and project.git("status", "--porcelain") == "", "nothing is left"


def test_which_number_counts_is_said_before_anything_starts(project: Any) -> None:
    code, out, _ = project.here("prove", "--json", "--", "python train.py", "python train.py --lr 0.2")
    error = json.loads(out)["error"]
    assert (code, error["code"]) == (2, "no_metric") and error["fix"].startswith("autoresearch prove --metric NAME ")
    assert not list(project.repo.glob("**/typed"))


NAMELESS = SCRIPT.replace("val_acc", "foldedness")


def test_a_direction_that_no_name_says_is_asked_for_before_anything_starts(project: Any) -> None:
    """By a line to type without a terminal, by a question on one; it was maximized in silence."""
    (project.repo / "train.py").write_text(NAMELESS)
    project.git("commit", "-qam", "another name")
    words = ["prove", "--metric", "foldedness", "--", "python train.py", "python train.py --lr 0.2"]
    code, out, _ = project.here(*words[:1], "--json", *words[1:])
    refused = json.loads(out)
    assert code == 2 and refused["error"]["code"] == "no_direction" and refused["missing"] == ["direction"]
    line = "autoresearch prove --metric foldedness --direction minimize"
    assert refused["error"]["fix"].startswith(line), refused
    assert not list(project.repo.glob("**/typed"))
    said = at_terminal(words, project.repo, project.env, typed="yes\nlower\n")
    assert said.count("are higher or lower values of foldedness better?") == 2, said
    assert "lower is better" in said and "worse: foldedness " in said


def test_audit_says_what_noise_gives_and_what_to_prove(bench: Any) -> None:
    draws, best, rows = random.Random(4), 9.0, ["commit\tval_loss\tstatus\tdescription"]
    for number in range(40):
        value = 1.0 + draws.gauss(0, 0.01) - (0.05 if number == 20 else 0)
        kept = value < best
        best = min(best, value)
        rows.append(f"{number:07x}\t{value:.5f}\t{'keep' if kept else 'discard'}\tidea {number}")
    (bench.repo / "results.tsv").write_text("\n".join(rows))
    code, out, err = bench.here("audit", "--json", "results.tsv", "--", "uv", "run", "train.py")
    assert code == 0, err
    found = json.loads(out)
    assert (found["metric"], found["direction"], found["measured"]) == ("val_loss", "minimize", 40)
    assert found["by_noise"] == 3.28 and found["more_than_noise"] is False
    line = found["next"][0]
    assert max(found["steps"], key=lambda step: step["gain"])["name"] == "0000014"
    assert line.startswith("autoresearch prove 0000014 --against ") and line.endswith(" -- uv run train.py")
    assert bench.here("audit", "nowhere.tsv")[0] == 4
