"""A short run of a command that says what it prints, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from autoresearch.git_repo.snapshot import begin_repository
from autoresearch.lab.campaign_setup.tried_command import tried_command

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


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("mean reward", "mean_reward", "step 0 fps=0.5 mean reward=0.5"),
        ("entropy", "", "none of its numbers (fps, entropy) looks like an objective; its last line: step "),
    ],
)
def test_a_run_is_ended_with_all_it_started(tmp_path: Path, text: str, name: str, words: str) -> None:
    note, root = tmp_path / "child", tmp_path / "project"
    root.mkdir()
    (root / "old.py").write_text("")
    begin_repository(root)
    (root / "train.py").write_text(LOOP % (str(note), text))  # not committed, but on disk
    found, said = tried_command("python train.py", root, 4.0, Path(sys.executable), os.environ)
    assert ([one.name for one in found], words in said) == ([name] if name else [], True), said
    assert sorted(path.name for path in root.iterdir()) == [".git", "old.py", "train.py"]
    assert not list((root / ".git").glob("worktrees/*"))
    state = Path(f"/proc/{note.read_text()}/stat")
    for _ in range(200):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("a process of the short run lives on")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_package", "ended with exit 1 within 30 seconds: nothing that it printed looks like an"),
        ("", "ended with exit 0 within 30 seconds and printed nothing, and wrote no file of metrics"),
    ],
)
def test_without_a_repository_a_copy_is_run(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "train.py").write_text(text)
    found, said = tried_command("python train.py", tmp_path, 30.0, Path(sys.executable), os.environ)
    assert (found, words in said) == ([], True), said
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
    found, _ = tried_command("python train.py", tmp_path, 30.0, Path(sys.executable), os.environ)
    assert [(one.name, *(f"{file.format} {file.path}" for file in one.sources)) for one in found] == [(metric, source)]


def test_it_sees_what_git_ignores(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    (root / ".gitignore").write_text("data/\n")
    (root / "data/x").write_text("0.5")
    begin_repository(root)
    (root / "train.py").write_text("print('read', open('data/x').read())\nopen('data/x', 'w').write('1')\n")
    _, said = tried_command("python train.py", root, 30.0, Path(sys.executable), os.environ)
    assert "ended with exit 0" in said and "its last line: read 0.5" in said
    assert (root / "data/x").read_text() == "0.5"
