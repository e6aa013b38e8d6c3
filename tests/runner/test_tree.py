"""Nothing of a run lives on, and nothing else dies with it."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system


@pytest.mark.smoke
def test_ten_kinds_of_children_are_ended(yard: Any, nasty: Path, living: Any, until: Any) -> None:
    token = f"nasty-{time.monotonic_ns()}"
    live = yard.start(f"{sys.executable} -S {nasty}/tree.py {token}", limits={"grace_s": 0.3})
    until(lambda: b"tree up" in live.log())
    until(lambda: len(living(token)) >= 10)  # not seen: one that is forking or in the middle of an exec
    live.ask_to_stop(reason="enough")
    record = live.record()
    assert living(token) == []
    assert record["left"] == []
    assert record["term_sent"] >= 9
    assert record["kill_sent"] >= 2


RABBIT = """
import os, time
until = time.monotonic() + 300
while time.monotonic() < until:
    time.sleep(0.02)
    if os.fork():
        os._exit(0)
    os.utime("alive")
"""


def test_one_that_is_faster_than_any_look_is_ended(yard: Any, until: Any) -> None:
    """As on a loaded machine: while /proc is read, the only process left forks and exits."""
    (yard.root / "rabbit.py").write_text(RABBIT)
    (alive := yard.root / "alive").touch()
    born = alive.stat().st_mtime_ns
    slow = "import time; read = processes.read_file; "
    slow += "processes.read_file = lambda path: (time.sleep(0.0005), read(path))[1]"
    live = yard.start(f"setsid {sys.executable} -S rabbit.py & sleep 1000", patch=slow, limits={"grace_s": 0.3})
    until(lambda: alive.stat().st_mtime_ns != born)
    live.ask_to_stop(reason="enough")
    assert live.record()["left"] == []
    last = alive.stat().st_mtime_ns
    with pytest.raises(AssertionError):
        until(lambda: alive.stat().st_mtime_ns != last, 0.5)


def test_what_a_finished_trainer_left_is_ended(yard: Any, living: Any) -> None:
    live, record = yard.ended("setsid sleep 3001 & (setsid sleep 3002 &) ; true")
    assert (record["ending"], record["returncode"]) == ("finished", 0)
    assert live.marked() == []
    assert record["term_sent"] == 2
    names = live.names()
    assert names.index("ended") < names.index("killed")


def test_children_are_kept_where_that_was_asked_for(yard: Any, until: Any) -> None:
    command = "setsid sleep 1000 > /dev/null 2>&1 & true"
    live, record = yard.ended(command, keep_children=True, cleanup=["true"])
    assert record["ending"] == "finished"
    (kept,) = until(live.marked)  # in the middle of an exec it shows no mark
    os.kill(kept, signal.SIGKILL)


def test_but_not_when_the_run_is_stopped(yard: Any, living: Any, until: Any) -> None:
    live = yard.start("setsid sleep 1000 & touch up; exec sleep 1000", keep_children=True)
    until((yard.root / "up").exists)  # what is forked while TERM is sent has all of the grace: a minute
    live.process.terminate()
    live.record()
    assert live.marked() == []


def test_a_run_of_another_id_is_spared(yard: Any, living: Any, until: Any) -> None:
    other = f"other-{time.monotonic_ns()}"
    nested = f"AUTORESEARCH_RUN_ID={other} setsid bash -c 'touch up; sleep 1000; true {other}' > /dev/null 2>&1 &"
    yard.runs.append(other)
    live, record = yard.ended(f"{nested} until [ -e up ]; do sleep 0.05; done; setsid sleep 1000 &")
    assert live.marked() == []
    until(lambda: len(living(other)) == 1)  # two: its child has not become `sleep` yet
    assert record["term_sent"] == 1


def test_a_tmux_server_that_the_trainer_started_is_spared(yard: Any, tmux: Any, until: Any) -> None:
    session = f"tmux -S {tmux.socket} -f /dev/null new-session -d -s mine 'sleep 1000'"
    live, record = yard.ended(f"{session}; setsid sleep 1000 &")
    assert tmux("list-sessions", "-F", "#{session_name}") == "mine"
    assert tmux("list-panes", "-a", "-F", "#{pane_dead}") == "0"
    assert record["term_sent"] == 1
    until(lambda: len(live.marked()) == 2)  # the server and its pane


def test_kill_of_the_runner_leaves_a_free_lock_and_a_marked_trainer(yard: Any, until: Any) -> None:
    live = yard.start("sleep 1000")
    pid = live.event("started")["pid"]
    live.process.kill()
    live.process.wait()
    assert not (live.dir / "exit.json").exists()
    until(lambda: live.marked() == [pid])
    with open(live.dir / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert yard.launch(live).process.wait(120) == 5  # a run is never started twice
    assert live.marked() == [pid]
