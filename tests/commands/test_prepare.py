"""A run that is prepared while another still trains: it starts at a word, and leaves nothing without it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.spec import RunState
from autoresearch.lab import settings as project
from autoresearch.lab.launch.experiment import Experiment
from autoresearch.lab.launch.launch import prepare
from autoresearch.lab.launch.prepared_run import PreparedRun
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import adopt_all

pytestmark = pytest.mark.system

PREPARE = """
import os, signal, sys
from pathlib import Path
from autoresearch.commands.wiring import parts
from autoresearch.lab import settings
from autoresearch.lab.launch.experiment import Experiment
from autoresearch.lab.launch.launch import prepare
path = Path(sys.argv[1])
ready = prepare(Experiment(path, settings.load(path.parent, environ=os.environ, flags={}), parts()).resolve(),
                ahead=sys.argv[2] == "ahead")
print(ready.spec.run_dir, flush=True)
signal.pause()
"""


@contextlib.contextmanager
def at_home(bench: Any) -> Iterator[Parts]:
    with mock.patch.dict(os.environ, bench.env, clear=True):
        yield real_parts()


def ready(bench: Any, path: Path, parts: Parts) -> PreparedRun:
    settings = project.load(path.parent, environ=os.environ, flags={"max_time": "10m"})
    return prepare(Experiment(path, settings, parts).resolve(), ahead=True)


def test_it_starts_at_a_word_and_its_clocks_with_it(bench: Any) -> None:
    with at_home(bench) as parts:
        prepared = ready(bench, bench.blueprint("ok"), parts)
        branch = bench.git("rev-parse", prepared.spec.branch)
        assert branch == prepared.spec.commit  # the code is kept before the word
        assert not prepared.rundir.runner.exists()
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        prepared.go()
        assert json.loads(prepared.rundir.runner.read_text())["started_boot"] >= before
        bench.until(prepared.rundir.collected.exists)
    record = json.loads(prepared.rundir.exit_record.read_text())
    assert record["ending"] == "finished"
    bench.settled({"run": prepared.spec.run, "ledger": prepared.spec.ledger, "result_dir": bench.root}, "finished")


def test_withdrawn_it_was_never_there(bench: Any) -> None:
    with at_home(bench) as parts:
        prepared = ready(bench, bench.blueprint("ok"), parts)
        prepared.withdraw()
        bench.until(lambda: not bench.carriers())
        assert parts.index.live() == []
        assert list(adopt_all(parts)) == []
    assert not Path(prepared.spec.ledger).exists()
    assert not prepared.rundir.path.exists()
    assert not list(bench.root.rglob("finish.flag"))
    assert prepared.session.session not in bench.tmux("list-sessions", "-F", "#{session_name}").stdout


@pytest.mark.parametrize("how", ["ahead", "now"])
def test_kill_9_of_the_command_that_prepared_it(bench: Any, how: str) -> None:
    path = bench.blueprint("ok")
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARE, str(path), how], env=bench.env, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        run_dir = Path(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
    spec = run_dir / "spec.json"
    # what the server forked for the pane may not be the Runner yet, and carry no mark
    bench.until((run_dir / "exit.json").exists if how == "now" else lambda: not spec.exists())
    bench.until(lambda: not bench.carriers())
    if how == "now":  # somebody typed `run`: they are told
        assert json.loads((run_dir / "exit.json").read_text())["ending"] == "launch_failed"
        return
    assert not spec.exists()
    with at_home(bench) as parts:
        late = Parts(parts.environ, parts.index, parts.launcher, clock=lambda: parts.clock() + 3600)
        assert list(adopt_all(late)) == []
        assert parts.index.live() == []
    assert not list(bench.root.rglob("results.tsv"))


def test_it_is_starting_until_the_word(bench: Any) -> None:
    with at_home(bench) as parts:
        prepared = ready(bench, bench.blueprint("long"), parts)
        try:
            assert prepared.rundir.state() is not RunState.DEAD
            assert prepared.rundir.state() is not RunState.ENDED
        finally:
            prepared.withdraw()
        bench.until(lambda: not bench.carriers())
