"""A prepared run is taken back if, and only if, nobody gave it the word."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.lab.runs.adopt import never_begun, take_back
from autoresearch.records.rundir import RunDir

HOLD = """
import fcntl, os, sys, time
from pathlib import Path
place = Path(sys.argv[1])
fd = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
(place / sys.argv[2]).unlink() if sys.argv[2] == "spec.json" else (place / sys.argv[2]).write_text("{}")
"""


@pytest.fixture
def prepared(tmp_path: Path) -> RunDir:
    rundir = RunDir(tmp_path / "run")
    rundir.path.mkdir()
    rundir.spec.write_text(json.dumps({"run": "a-1", "await_launch": "ahead"}))
    rundir.launching.touch()
    return rundir


def test_without_the_word_nothing_stays(prepared: RunDir) -> None:
    assert never_begun(prepared)
    assert take_back(prepared, "a-1", real_parts())
    assert not prepared.path.exists()


@pytest.mark.parametrize("sign", ["environment", "runner.json", "exit.json"])
def test_with_the_word_all_stays(prepared: RunDir, sign: str) -> None:
    """The environment is the word: its Runner may be slow to take it, and will."""
    (prepared.path / sign).write_text("{}")
    assert not never_begun(prepared)
    assert not take_back(prepared, "a-1", real_parts())
    assert prepared.spec.exists()


@pytest.mark.system
@pytest.mark.parametrize(("does", "taken"), [("spec.json", True), ("runner.json", False)])
def test_a_runner_that_is_at_it_decides(prepared: RunDir, does: str, taken: bool) -> None:
    """It holds its lock: it has taken the environment and will say so, or it goes."""
    argv = [sys.executable, "-c", HOLD, str(prepared.path), does]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None and runner.stdin is not None
        assert runner.stdout.readline() == "held\n"
        runner.stdin.write("go\n")
        runner.stdin.flush()
        assert take_back(prepared, "a-1", real_parts()) is taken
    assert prepared.path.exists() is not taken


def test_a_run_that_a_person_launches_is_never_taken_back(prepared: RunDir) -> None:
    prepared.spec.write_text(json.dumps({"run": "a-1", "await_launch": "now"}))
    assert not never_begun(prepared)
