"""`pkill`, `killall`, `ray stop` and `tmux kill-server` within a run: other runs and processes go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A shim stands only where the real command does. The tests ask for Python, git and tmux alone, so a
# machine may lack pkill (Debian's procps) or killall (its psmisc), and then there is nothing to replace.
NO_PKILL = pytest.mark.skipif(not shutil.which("pkill"), reason="there is no pkill (procps) to replace")
NO_KILLALL = pytest.mark.skipif(
    not (shutil.which("killall") and shutil.which("pgrep")), reason="there is no killall (psmisc), or no pgrep (procps)"
)

pytestmark = pytest.mark.system

BECOMES = 'becomes() { until grep -qa "^$1" /proc/$!/cmdline; do sleep 0.01; done; }; becomes'  # what was just started


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else, whose name and command line match what the runs kill."""
    with subprocess.Popen(["sleep", "300.25"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param("pkill -9 sleep", marks=NO_PKILL),
        pytest.param("pkill -f --signal KILL 'sleep 300'", marks=NO_PKILL),
        pytest.param("pkill -SIGTERM -x sleep", marks=NO_PKILL),
        pytest.param("killall -9 sleep", marks=NO_KILLALL),
    ],
)
def test_a_kill_by_name_ends_what_is_of_this_run_and_nothing_else(
    yard: Any, until: Any, stranger: Any, kill: str
) -> None:
    other = yard.start("echo up; sleep 300.25")
    until(lambda: b"up" in other.log())
    program = f"import os; os.system({kill!r})"  # no word of the command shows it
    (yard.root / "train.py").write_text(program)
    live = yard.start(f"sleep 300.25 & {BECOMES} sleep; python3 train.py; echo killed $?; wait %1; echo ended $?")
    record = live.record()
    assert record["ending"] == "finished", live.log()
    assert b"killed 0" in live.log() and b"ended 1" in live.log(), "128 and the signal's number"
    assert stranger.poll() is None and other.marked(), "somebody else's, and another run's"


@NO_PKILL
def test_what_matches_nothing_of_this_run_is_told_as_pkill_does(yard: Any, stranger: Any) -> None:
    live = yard.start("pkill -9 sleep; echo code $?; command -v ray || echo no ray; pkill; echo code $?")
    live.record()
    assert b"code 1" in live.log() and b"code 2" in live.log() and stranger.poll() is None
    assert (b"no ray" in live.log()) is (shutil.which("ray") is None)


def test_ray_stop_ends_rays_processes_of_this_run_alone(yard: Any, tmp_path: Path) -> None:
    (tmp_path / "ray").write_text("#!/bin/sh\necho the real ray: $@\n")
    (tmp_path / "raylet").write_text("#!/bin/sh\nsleep 300.5\n")
    for name in ("ray", "raylet"):
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    theirs = subprocess.Popen([tmp_path / "raylet"], start_new_session=True)
    try:
        live = yard.start(f"raylet & {BECOMES} /bin/sh; ray status; ray stop --force; wait; echo ended", env=env)
        live.record()
        log = live.log()
        assert b"the real ray: status" in log and b"Killed" in log and b"the real ray: stop" not in log
        assert theirs.poll() is None
    finally:
        os.killpg(theirs.pid, signal.SIGKILL)
        theirs.wait()


def test_tmux_keeps_its_server(yard: Any, tmp_path: Path) -> None:
    socket = f"-S {tmp_path}/socket"
    subprocess.run(f"tmux -f /dev/null {socket} new-session -d -s mine sleep 300", shell=True, check=True)
    try:
        live = yard.start(f"tmux {socket} kill-server; echo code $?; tmux {socket} ls")
        live.record()
        assert b"code 1" in live.log() and b"mine: 1 windows" in live.log()
    finally:
        subprocess.run(f"tmux {socket} kill-server", shell=True, check=False)
