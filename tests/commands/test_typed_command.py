"""`run -- COMMAND`: a command as it stands, without a file; the blueprint that says the same is written and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import BlueprintError, UsageError
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
for step in (1, 2, 3):
    print(f"step {step} loss {1 / step:.3f} val_acc {lr + step / 100:.4f}", flush=True)
"""
PAIR = ("python train.py", "python other.py")


def typed(bench: Any, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """What `run --json --metric val_acc -- WORDS` answers, and what it says beside that."""
    found, out, err = bench.here("run", "--json", "--metric", "val_acc", "--", *words)
    assert found == code, out + err
    return dict(json.loads(out)), err


def project(bench: Any) -> Path:
    (bench.repo / "train.py").write_text(SCRIPT)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a script")
    return Path(bench.repo)


def test_a_command_runs_as_it_stands_and_its_blueprint_says_the_same(bench: Any) -> None:
    repo = project(bench)
    line = ("--dry-run", "--json", "--first-step-timeout", "5m", "--", "python", "train.py", "--lr", "0.3", "--json")
    plan = json.loads(bench.here("run", *line)[1])
    typed_again = "autoresearch run --first-step-timeout 5m --detach --json -- python train.py --lr 0.3 --json"
    assert plan["next"] == [typed_again], "the command's own words stay with it"
    assert not (repo / "reports").exists(), "a plan writes nothing"
    done, said = typed(bench, "python", "train.py", "--lr", "0.3")
    assert (done["ending"], done["verdict"], done["metrics"]["val_acc"]) == ("finished", "keep", 0.33)
    path = repo / "reports/auto_research/typed/train-lr-0-3.md"
    assert done["blueprint"] == str(path) and f"edit {path.relative_to(repo)}" in said
    assert bench.git("status", "--porcelain") == "", "what was written is among the records"
    path.write_text(path.read_text().replace("24 hours", "2 hours"))
    again, _ = typed(bench, "python", "train.py", "--lr", "0.3")
    assert again["run"] != done["run"] and "2 hours" in path.read_text(), "what somebody edited is kept"
    other, _ = typed(bench, "python train.py --lr 0.3 | cat")
    assert other["metrics"]["val_acc"] == 0.33 and other["blueprint"] != done["blueprint"]
    assert len(list(path.parent.iterdir())) == 2, "one for each line"
    short = json.loads(bench.here("run", "--dry-run", "--json", "--", "python", "go.py")[1])
    assert short["session"].startswith("ajet_run_go_")


def test_from_a_directory_below_and_outside_of_git(bench: Any, tmp_path: Path) -> None:
    (project(bench) / "sub").mkdir()
    (bench.repo / "train.py").rename(bench.repo / "sub/train.py")
    bench.repo = bench.repo / "sub"
    done, _ = typed(bench, "python", "train.py")
    assert done["metrics"]["val_acc"] == 0.13 and Path(done["result_dir"]).is_relative_to(bench.repo)
    assert Path(done["blueprint"]).parent == bench.repo.parent / "reports/auto_research/typed"
    bench.repo = tmp_path / "plain"
    bench.repo.mkdir()
    (bench.repo / "train.py").write_text(SCRIPT)
    done, _ = typed(bench, "python", "train.py")
    assert done["metrics"]["val_acc"] == 0.13 and Path(done["blueprint"]).is_relative_to(bench.repo)
    bench.git("init", "-q")
    again, _ = typed(bench, "python", "train.py")
    assert again["blueprint"] == done["blueprint"] and Path(again["result_dir"]).is_relative_to(bench.repo)


def test_the_same_words_in_another_directory_are_another_command(bench: Any) -> None:
    (project(bench) / "sub").mkdir()
    (bench.repo / "sub/train.py").write_text(SCRIPT.replace("0.1)", "0.5)"))
    first, _ = typed(bench, "python", "train.py")
    bench.repo = bench.repo / "sub"
    second, _ = typed(bench, "python", "train.py")
    assert (first["metrics"]["val_acc"], second["metrics"]["val_acc"]) == (0.13, 0.53)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("exp.md", "train.py"), ("`train.py` follows it", "autoresearch run -- exp.md train.py")),
        (("--", "python train.py", "--detach"), ("whole shell line", "autoresearch run --detach -- 'python train.py'")),
        (("--",), ("no command behind `--`", "autoresearch run -- python train.py")),
        (("--", " "), ("no command behind `--`", "autoresearch run -- python train.py")),
        (("--", "exp.md"), ("there is no blueprint exp.md", "")),
    ],
)
def test_what_is_no_command(bench: Any, words: tuple[str, ...], told: tuple[str, str]) -> None:
    code, _, err = bench.here("run", *words)
    assert code == UsageError.exit_code or "no blueprint" in told[0]
    assert all(text in err for text in told), err
    assert not (bench.repo / "reports").exists()


def test_a_wrong_word_leaves_nothing(bench: Any) -> None:
    project(bench)
    code, _, err = bench.here("run", "--", "python", "trian.py")
    assert code == BlueprintError.exit_code and err.startswith("autoresearch: the script trian.py is not there")
    assert not list(bench.repo.glob("**/typed")) and bench.git("status", "--porcelain") == ""


def test_the_objective_is_named_on_the_line_alike(bench: Any) -> None:
    """`prove` alone took --metric, and nothing took --direction: a name that says neither was refused."""
    repo = project(bench)
    (repo / "train.py").write_text(SCRIPT.replace("val_acc", "zork"))
    (repo / "other.py").write_text((repo / "train.py").read_text())
    bench.git("add", "-A")
    bench.git("commit", "-qm", "numbers whose names say nothing")
    bench.ask("blueprint", "new", "exp.md", "--purpose", "What it does.", "--command", "python train.py")
    objective = ("--metric", "zork", "--direction", "minimize", "--dry-run", "--json")
    for line in (("exp.md",), ("--", "python", "train.py")):
        plan = json.loads(bench.here("run", *objective, *line)[1])
        assert (plan["metric"], plan["direction"]) == ("zork", "minimize"), plan
    space = ("--set", "space={--lr: [0.1, 0.2]}")
    for words in (("campaign", "start", *objective, *space, "exp.md"), ("prove", *objective, "--", *PAIR)):
        answer = json.loads(bench.here(*words)[1])
        assert answer["plan"]["objective"].startswith("zork, minimize"), answer
    code, out, _ = bench.here("run", "--direction", "up-ish", "--json", "exp.md")
    assert code == 2 and json.loads(out)["error"]["message"].startswith("--direction is maximize or")
    done = json.loads(bench.here("run", "--metric", "zork", "--json", "exp.md")[1])
    (row,) = ledger_rows(done["ledger"], done["run"])
    assert (done["verdict"], row["metric_name"], row["metric_value"]) == ("keep", "zork", "0.13"), done
    assert "zork" not in (repo / "exp.md").read_text()
