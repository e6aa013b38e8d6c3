"""The watcher wakes on what matters and sleeps through the rest."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autoresearch.lab.runs.run_status import Watcher, wait_for_news
from autoresearch.records.files import locked, write_json
from autoresearch.records.rundir import RunDir


def run_dir(path: Path) -> RunDir:
    path.mkdir()
    rundir = RunDir(path)
    rundir.events.write_bytes(b"")
    rundir.log.write_bytes(b"")
    return rundir


def emit(rundir: RunDir, event: str) -> None:
    with rundir.events.open("ab") as file:
        file.write(json.dumps({"t": 1.0, "s": 2.0, "event": event}).encode() + b"\n")


def test_an_event_of_any_run_wakes(tmp_path: Path) -> None:
    runs = [run_dir(tmp_path / str(n)) for n in range(3)]
    watcher = Watcher(runs)
    assert watcher.wait(0) == []
    threading.Timer(0.05, emit, (runs[1], "ended")).start()
    assert watcher.wait(120) == [runs[1]]
    assert watcher.wait(0) == []


def test_what_happened_between_construction_and_waiting_is_not_lost(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "a")
    watcher = Watcher([run])
    emit(run, "first_step")
    assert watcher.wait(0) == [run]


@pytest.mark.system
def test_a_runner_that_dies_without_a_word_wakes(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "a")
    hold = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(6000)"
    argv = [sys.executable, "-c", hold, str(run.lock)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)  # whatever fails below
        assert process.stdout is not None and process.stdout.readline()
        watcher = Watcher([run])
        assert watcher.wait(0) == []
        threading.Timer(0.05, process.kill).start()
        assert watcher.wait(120) == [run]
        assert watcher.wait(0) == []


def test_a_run_is_watched_before_its_files_are_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    run = RunDir(tmp_path / "a")
    watcher = Watcher([run])
    threading.Timer(0.05, emit, (run, "started")).start()
    assert watcher.wait(120) == [run]
    threading.Timer(0.05, emit, (run, "ended")).start()
    assert watcher.wait(120) == [run]


def test_the_log_and_the_heartbeat_do_not_wake(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "a")
    watcher = Watcher([run])
    run.log.write_bytes(b"step:1 - a:1\n" * 1000)
    run.lock.write_bytes(b"")
    assert watcher.wait(0.2) == []


def test_waiting_for_news_skips_what_nobody_is_woken_for(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "a")
    emit(run, "started")
    with locked(run.lock):  # it lives
        news, upto = wait_for_news(run, since=0, seconds=0)
        assert news == [] and upto == 1
        emit(run, "validation")
        threading.Timer(0.05, emit, (run, "first_step")).start()
        news, upto = wait_for_news(run, since=upto, seconds=120)
    assert [e.event for e in news] == ["first_step"] and upto == 3


def test_a_run_that_is_over_is_not_waited_for(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "a")
    write_json(run.exit_record, {"ending": "finished"})
    assert wait_for_news(run, since=0, seconds=3600) == ([], 0)
