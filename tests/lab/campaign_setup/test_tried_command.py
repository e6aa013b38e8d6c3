"""A short run of a command that says what it prints, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoresearch.lab.campaign_setup.tried_command import tried_command
from tests.processes import is_dead
from tests.waiting import until

pytestmark = pytest.mark.system

LOOP = """
import pathlib, subprocess, time
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("left.txt").write_text("x")
pathlib.Path(%r).write_text(str(child.pid))
names = ["fps", %r]
for step in range(12_000):
    print("step", step, *(f"{name}={step + 0.5}" for name in names), flush=True)
    time.sleep(0.05)
"""


def commit_all(root: Path) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "start")):
        subprocess.run(["git", *words], cwd=root, check=True)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("mean reward", "mean_reward", "read `step` as the step, and fps, mean_reward, from "),
        ("entropy", "", "`python train.py` ran for 8 seconds; its last line: step "),
    ],
)
def test_a_run_is_ended_with_all_it_started(tmp_path: Path, text: str, name: str, words: str) -> None:
    note, root = tmp_path / "child", tmp_path / "project"
    root.mkdir()
    (root / "old.py").write_text("")
    commit_all(root)
    (root / "train.py").write_text(LOOP % (str(note), text))  # not committed, but on disk
    trial = tried_command("python train.py", root, 8.0, Path(sys.executable), os.environ)
    assert {one.name for one in trial.numbers} == {"fps", text.replace(" ", "_")} and trial.numbers[0].first == 0.5
    assert (trial.numbers[0].name if trial.sure else "") == name and trial.numbers[0].last > 1
    assert words in " ".join(trial.words), trial
    assert sorted(path.name for path in root.iterdir()) == [".git", "old.py", "train.py"]
    assert not list((root / ".git").glob("worktrees/*"))
    until(lambda: is_dead(int(note.read_text())))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_package", "ended with exit 1 within 30 seconds; its last line: ModuleNotFoundError: "),
        ("", "ended with exit 0 within 30 seconds, and printed nothing"),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()",
            "ended with exit 2 within 30 seconds; its last line: train.py: error: the following arguments are",
        ),
    ],
)
def test_without_a_repository_a_copy_is_run(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "train.py").write_text(text)
    trial = tried_command("python train.py", tmp_path, 30.0, Path(sys.executable), os.environ)
    assert (trial.numbers, words in trial.words[0], trial.sure) == ((), True, False), trial
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


WRITES = """
import json, os, struct, time
d = time.strftime("outputs/%Y-%m-%d/run_1")
os.makedirs(d)
with open(os.path.join(d, NAME), "w") as file:
    print("see", d)
    TEXT
"""
ROWS = "[file.write(json.dumps({'step': s, 'episode_reward': s + 0.5, 'fps': 31.5}) + '\\n') for s in range(5)]"
TABLE = "file.write('epoch,val_acc\\n1,0.25\\n2,0.5\\n')"


@pytest.mark.parametrize(
    ("name", "text", "metric", "source"),
    [
        ("metrics.jsonl", ROWS, "episode_reward", "jsonl outputs/*/run_*/metrics.jsonl"),
        ("20281128_log.csv", TABLE, "val_acc", "csv outputs/*/run_*/*.csv"),
        ("results.json", "json.dump({'eval': {'success_rate': 0.25}}, file)", "eval/success_rate",
         "json outputs/*/run_*/results.json"),
    ],
)  # fmt: skip
def test_what_it_writes_counts_where_nothing_is_printed(
    tmp_path: Path, name: str, text: str, metric: str, source: str
) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "old.csv").write_text("epoch,val_loss\n1,0.5\n")  # not of this run
    (tmp_path / "train.py").write_text(WRITES.replace("NAME", repr(name)).replace("TEXT", text))
    trial = tried_command("python train.py", tmp_path, 30.0, Path(sys.executable), os.environ)
    best = trial.numbers[0]
    assert trial.sure and best.file and (best.name, f"{best.file.format} {best.file.path}") == (metric, source)


def test_it_sees_what_git_ignores(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / ".gitignore").write_text("data/\n")
    (root / "data/x").write_text("0.5")
    commit_all(root)
    (root / "train.py").write_text("print('read', open('data/x').read())\nopen('data/x', 'w').write('1')\n")
    (words,) = tried_command("python train.py", root, 30.0, Path(sys.executable), os.environ).words
    assert "ended with exit 0" in words and "its last line: read 0.5" in words
    assert (root / "data/x").read_text() == "0.5"
