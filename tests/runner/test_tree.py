"""Nothing of a run lives on, and nothing else dies with it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner import runner


def start_tree(yard: Any, nasty: Path, **changes: Any) -> tuple[Any, str]:
    token = f"nasty-{time.monotonic_ns()}"
    live = yard.start(f"{sys.executable} -S {nasty}/tree.py {token}", **changes)
    return live, token


def test_ten_kinds_of_children_are_ended(yard: Any, nasty: Path, living: Any, until: Any) -> None:
    live, token = start_tree(yard, nasty)
    until(lambda: b"tree up" in live.log())
    assert len(living(token)) >= 9
    live.ask_to_stop(how="now", reason="enough")
    record = live.record()
    assert living(token) == []
    assert record["left"] == []
    assert record["term_sent"] >= 9
    assert record["kill_sent"] >= 2


def test_the_time_limit_ends_them_too(yard: Any, nasty: Path, living: Any) -> None:
    live, token = start_tree(yard, nasty, limits={"max_s": 0.7})
    assert live.record()["ending"] == "max_time"
    assert living(token) == []


def test_what_a_finished_trainer_left_is_ended(yard: Any, living: Any) -> None:
    live, record = yard.ended("setsid sleep 3001 & (setsid sleep 3002 &) ; true")
    assert (record["ending"], record["returncode"]) == ("finished", 0)
    assert live.marked() == []
    assert record["term_sent"] == 2
    names = live.names()
    assert names.index("ended") < names.index("killed")


def test_children_are_kept_where_that_was_asked_for(yard: Any, living: Any) -> None:
    command = "setsid sleep 30 > /dev/null 2>&1 & true"
    live, record = yard.ended(command, keep_children=True, cleanup=["true"])
    assert record["ending"] == "finished"
    (kept,) = live.marked()
    os.kill(kept, signal.SIGKILL)


def test_but_not_when_the_run_is_stopped(yard: Any, living: Any) -> None:
    live = yard.start("setsid sleep 30 & sleep 30", keep_children=True)
    live.event("started")
    live.process.terminate()
    live.record()
    assert live.marked() == []


def test_a_run_of_another_id_is_spared(yard: Any, living: Any) -> None:
    other = f"other-{time.monotonic_ns()}"
    nested = f"AUTORESEARCH_RUN_ID={other} setsid bash -c 'sleep 30; true {other}' > /dev/null 2>&1 &"
    yard.runs.append(other)
    live, record = yard.ended(f"{nested} sleep 0.2; setsid sleep 30 &")
    assert live.marked() == []
    assert len(living(other)) == 1
    assert record["term_sent"] == 1


def test_a_runner_inside_a_run_is_spared_with_its_run(yard: Any, living: Any) -> None:
    inner = yard.make("sleep 30")
    program = [sys.executable, "-S", "-E", "-s", str(Path(runner.__file__).parent), str(inner.dir)]
    (inner.dir / "go.sh").write_text(f"exec setsid {' '.join(program)}\n")
    outer, _ = yard.ended(f"bash {inner.dir}/go.sh > /dev/null 2>&1 & sleep 1")
    assert outer.marked() == []
    assert len(inner.marked()) == 2  # its Runner, marked anew, and its trainer
    inner.ask_to_stop(how="now", reason="enough")
    assert inner.record()["ending"] == "stopped"


def test_a_tmux_server_that_the_trainer_started_is_spared(yard: Any, tmux: Any, living: Any) -> None:
    session = f"tmux -S {tmux.socket} -f /dev/null new-session -d -s mine 'sleep 30'"
    live, record = yard.ended(f"{session}; setsid sleep 30 &")
    assert tmux("list-sessions", "-F", "#{session_name}") == "mine"
    assert tmux("list-panes", "-a", "-F", "#{pane_dead}") == "0"
    assert record["term_sent"] == 1
    assert len(live.marked()) == 2  # the server and its pane


def test_a_stray_under_another_parent_is_found_by_its_mark(yard: Any, living: Any) -> None:
    """As if a daemon that lived before the run had started it: not our child, but our run."""
    live = yard.make("sleep 0.3")
    stray = os.fork()
    if stray == 0:
        os.execve("/bin/sleep", ["sleep", "30"], {"AUTORESEARCH_RUN_ID": live.run})
    yard.launch(live).record()
    assert os.waitstatus_to_exitcode(os.waitpid(stray, 0)[1]) == -signal.SIGTERM


def test_kill_of_the_runner_leaves_a_free_lock_and_a_marked_trainer(yard: Any) -> None:
    live = yard.start("sleep 30")
    pid = live.event("started")["pid"]
    live.process.kill()
    live.process.wait()
    assert not (live.dir / "exit.json").exists()
    assert live.marked() == [pid]
    with open(live.dir / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert yard.launch(live).process.wait(10) == 5  # a run is never started twice
    assert live.marked() == [pid]


def test_gpu_leases(yard: Any, living: Any) -> None:
    lease = str(yard.root / "gpu.lock")
    patch = "gpus.LEASE_WAIT_S = 0.1"
    first = yard.start("sleep 30", leases=[lease])
    pid = first.event("started")["pid"]
    assert json.loads(Path(lease).read_text()) == {"run": first.run, "pid": first.process.pid}
    _, record = yard.ended("true", leases=[lease], patch=patch)
    assert (record["ending"], record["cause"]) == ("launch_failed", "lease_busy")
    assert first.run in record["reason"]
    first.process.kill()  # the lease outlives the Runner ...
    first.process.wait()
    assert yard.ended("true", leases=[lease], patch=patch)[1]["cause"] == "lease_busy"
    os.kill(pid, signal.SIGKILL)  # ... and ends with the trainer
    assert yard.ended("true", leases=[lease])[1]["ending"] == "finished"


NVIDIA_SMI = """#!/bin/sh
{before}
used=1024
[ ! -e {root}/on ] || used=5120
[ ! -e {root}/over ] || used={after}
echo "GPU-2, 77"
echo "GPU-1, $used"
"""


def fake_gpus(yard: Any, after: int = 1024, before: str = "") -> dict[str, str]:
    """An nvidia-smi first on PATH; GPU-1 is used while the file `on` is there."""
    (yard.root / "bin").mkdir()
    program = yard.root / "bin" / "nvidia-smi"
    program.write_text(NVIDIA_SMI.format(root=yard.root, after=after, before=before))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("after", "returned"), [(1024, True), (9216, False)])
def test_gpu_memory(yard: Any, after: int, returned: bool) -> None:
    command, patch = "touch on; sleep 0.6; touch over", "gpus.RETURN_S = 0.2"
    _, record = yard.ended(command, gpus=["GPU-1"], patch=patch, env=fake_gpus(yard, after))
    assert record["gpu_memory_bytes"] == 4 << 30
    assert record["gpu_memory_returned"] is returned


@pytest.mark.parametrize("uuid", ["GPU-none", "GPU-1"])
def test_gpu_memory_that_nobody_tells_is_unknown(yard: Any, uuid: str) -> None:
    env = fake_gpus(yard) if uuid == "GPU-none" else {"PATH": "/nowhere"}
    live = yard.make("true", gpus=["GPU-1", uuid])
    (live.dir / "environment").write_text(f"PATH={os.environ['PATH']}")
    record = yard.launch(live, env=env).record()
    assert (record["ending"], record["gpu_memory_bytes"], record["gpu_memory_returned"]) == ("finished", None, None)


def test_a_driver_that_hangs_holds_neither_the_run_nor_its_lock(yard: Any) -> None:
    env = fake_gpus(yard, before=f"echo $$ >> {yard.root}/asked; exec sleep 60")
    live = yard.start("sleep 30", gpus=["GPU-1"], patch="gpus.ASK_S = 0.2", env=env)
    live.event("started")
    time.sleep(0.3)  # the next question hangs as well
    live.process.kill()
    live.process.wait()
    with open(live.dir / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    asked = [int(pid) for pid in (yard.root / "asked").read_text().split()]
    assert asked
    for pid in asked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
