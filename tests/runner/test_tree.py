"""Nothing of a run lives on, and nothing else dies with it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner import runner

pytestmark = pytest.mark.system


def start_tree(yard: Any, nasty: Path, **changes: Any) -> tuple[Any, str]:
    token = f"nasty-{time.monotonic_ns()}"
    live = yard.start(f"{sys.executable} -S {nasty}/tree.py {token}", **changes)
    return live, token


@pytest.mark.smoke
def test_ten_kinds_of_children_are_ended(yard: Any, nasty: Path, living: Any, until: Any) -> None:
    live, token = start_tree(yard, nasty, limits={"grace_s": 0.3})
    until(lambda: b"tree up" in live.log())
    until(lambda: len(living(token)) >= 10)  # not seen: one that is forking or in the middle of an exec
    live.ask_to_stop(how="now", reason="enough")
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


@pytest.mark.smoke
def test_one_that_is_faster_than_any_look_is_ended(yard: Any, until: Any) -> None:
    """As on a loaded machine: while /proc is read, the only process left forks and exits."""
    (yard.root / "rabbit.py").write_text(RABBIT)
    (alive := yard.root / "alive").touch()
    born = alive.stat().st_mtime_ns
    slow = "import time; read = processes.read_file; "
    slow += "processes.read_file = lambda path: (time.sleep(0.0005), read(path))[1]"
    live = yard.start(f"setsid {sys.executable} -S rabbit.py & sleep 1000", patch=slow, limits={"grace_s": 0.3})
    until(lambda: alive.stat().st_mtime_ns != born)
    live.ask_to_stop(how="now", reason="enough")
    assert live.record()["left"] == []
    last = alive.stat().st_mtime_ns
    with pytest.raises(AssertionError):
        until(lambda: alive.stat().st_mtime_ns != last, 0.5)


def test_the_time_limit_ends_them_too(yard: Any, nasty: Path, living: Any) -> None:
    live, token = start_tree(yard, nasty, limits={"max_s": 0.7, "grace_s": 0.3})
    assert live.record()["ending"] == "max_time"
    assert living(token) == []


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


@pytest.mark.smoke
def test_a_run_of_another_id_is_spared(yard: Any, living: Any, until: Any) -> None:
    other = f"other-{time.monotonic_ns()}"
    nested = f"AUTORESEARCH_RUN_ID={other} setsid bash -c 'touch up; sleep 1000; true {other}' > /dev/null 2>&1 &"
    yard.runs.append(other)
    live, record = yard.ended(f"{nested} until [ -e up ]; do sleep 0.05; done; setsid sleep 1000 &")
    assert live.marked() == []
    until(lambda: len(living(other)) == 1)  # two: its child has not become `sleep` yet
    assert record["term_sent"] == 1


def test_a_runner_inside_a_run_is_spared_with_its_run(yard: Any, until: Any) -> None:
    inner = yard.make("sleep 1000")
    program = [sys.executable, "-S", "-E", "-s", str(Path(runner.__file__).parent), str(inner.dir)]
    (inner.dir / "go.sh").write_text(f"exec setsid {' '.join(program)}\n")
    up = f"grep -qs '\"started\"' {inner.dir}/events.jsonl"
    outer, _ = yard.ended(f"bash {inner.dir}/go.sh > /dev/null 2>&1 & until {up}; do sleep 0.05; done")
    assert outer.marked() == []
    until(lambda: len(inner.marked()) == 2)  # its Runner, marked anew, and its trainer
    inner.ask_to_stop(how="now", reason="enough")
    assert inner.record()["ending"] == "stopped"


def test_a_tmux_server_that_the_trainer_started_is_spared(yard: Any, tmux: Any, until: Any) -> None:
    session = f"tmux -S {tmux.socket} -f /dev/null new-session -d -s mine 'sleep 1000'"
    live, record = yard.ended(f"{session}; setsid sleep 1000 &")
    assert tmux("list-sessions", "-F", "#{session_name}") == "mine"
    assert tmux("list-panes", "-a", "-F", "#{pane_dead}") == "0"
    assert record["term_sent"] == 1
    until(lambda: len(live.marked()) == 2)  # the server and its pane


def test_a_stray_under_another_parent_is_found_by_its_mark(yard: Any) -> None:
    """As if a daemon that lived before the run had started it: not our child, but our run."""
    live = yard.make("sleep 0.3")
    stray = subprocess.Popen(["sleep", "1000"], env={"AUTORESEARCH_RUN_ID": live.run, "PATH": os.environ["PATH"]})
    yard.started.append(stray)
    yard.launch(live).record()
    assert stray.wait(120) == -signal.SIGTERM


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


def test_gpu_leases(yard: Any, until: Any, dead: Any) -> None:
    lease = str(yard.root / "gpu.lock")
    patch = "gpu_lease.LEASE_WAIT_S = 0.1"
    first = yard.start("sleep 1000", leases=[lease])
    pid = first.event("started")["pid"]
    assert json.loads(Path(lease).read_text()) == {"run": first.run, "pid": first.process.pid}
    _, record = yard.ended("true", leases=[lease], patch=patch)
    assert (record["ending"], record["cause"]) == ("launch_failed", "lease_busy")
    assert first.run in record["reason"]
    first.process.kill()  # the lease outlives the Runner ...
    first.process.wait()
    assert yard.ended("true", leases=[lease], patch=patch)[1]["cause"] == "lease_busy"
    os.kill(pid, signal.SIGKILL)  # ... and ends with the trainer
    until(lambda: dead(pid))
    assert yard.ended("true", leases=[lease])[1]["ending"] == "finished"


def test_runs_that_share_a_gpu_and_one_that_wants_it_alone_keep_each_other_out(yard: Any, until: Any) -> None:
    lease = str(yard.root / "gpu.lock")
    patch = "gpu_lease.LEASE_WAIT_S = 0.1"
    both = [yard.start("sleep 1000", leases=[lease], lease_shares=2) for _ in range(2)]
    for live in both:
        live.event("started")
    assert sorted(p.name for p in yard.root.glob("gpu.*")) == ["gpu.lock", "gpu.share-1", "gpu.share-2"]
    _, record = yard.ended("true", leases=[lease], lease_shares=2, patch=patch)
    assert (record["cause"], "all 2 shares" in record["reason"]) == ("lease_busy", True)
    assert yard.ended("true", leases=[lease], patch=patch)[1]["cause"] == "lease_busy"
    assert yard.ended("true", leases=[lease], lease_shares=3, patch=patch)[1]["ending"] == "finished"
    both[0].ask_to_stop(how="now", reason="enough")
    both[0].record()
    assert yard.ended("true", leases=[lease], patch=patch)[1]["cause"] == "lease_busy", "one share is held"
    assert yard.ended("true", leases=[lease], lease_shares=2, patch=patch)[1]["ending"] == "finished"
    both[1].ask_to_stop(how="now", reason="enough")
    both[1].record()
    alone = yard.start("sleep 1000", leases=[lease])
    alone.event("started")
    assert yard.ended("true", leases=[lease], lease_shares=2, patch=patch)[1]["cause"] == "lease_busy"
    alone.ask_to_stop(how="now", reason="enough")
    alone.record()


def test_several_leases_are_taken_all_or_none(yard: Any) -> None:
    a, b = str(yard.root / "a.lock"), str(yard.root / "b.lock")
    patch = "gpu_lease.LEASE_WAIT_S = 0.1"
    holder = yard.start("sleep 1000", leases=[b])
    holder.event("started")
    assert yard.ended("true", leases=[b, a], patch=patch)[1]["cause"] == "lease_busy"
    assert yard.ended("true", leases=[a], patch=patch)[1]["ending"] == "finished", "nothing is kept of a failed try"
    holder.ask_to_stop(how="now", reason="enough")
    holder.record()


def test_the_leases_are_free_when_the_record_is_there(yard: Any) -> None:
    """Whoever the record wakes starts the next run at once."""
    lease = str(yard.root / "gpu.lock")
    patch = "runner.exit_record = lambda *a, _real=runner.exit_record, **k: (runner.os.mkdir('free'), "
    patch += "runner.fcntl.flock(runner.os.open('gpu.lock', 0), runner.fcntl.LOCK_EX | runner.fcntl.LOCK_NB), "
    patch += "_real(*a, **k))[2]"
    _, record = yard.ended("true", leases=[lease], patch=f"runner.os.chdir({str(yard.root)!r})\n{patch}")
    assert record["ending"] == "finished" and (yard.root / "free").is_dir()


def test_the_memory_of_a_shared_gpu_tells_nothing_of_one_run(yard: Any) -> None:
    leases = {"leases": [str(yard.root / "gpu.lock")], "lease_shares": 2}
    _, record = yard.ended("touch on", gpus=["GPU-1"], env=fake_gpus(yard, 9216), **leases)
    assert (record["gpu_memory_bytes"], record["gpu_memory_returned"]) == (None, None)


NVIDIA_SMI = """#!/bin/sh
{before}
used=1024
[ ! -e {root}/on ] || used=5120
[ ! -e {root}/on ] || echo >> {root}/seen
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
    seen = "[ -e seen ] && [ $(wc -l < seen) -ge 2 ]"  # at the second question the answer to the first was taken in
    command = f"touch on; until {seen}; do sleep 0.05; done; touch over"
    patch = f"gpu_lease.RETURN_S = {600.0 if returned else 3.0}"
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


def test_a_driver_that_hangs_holds_neither_the_run_nor_its_lock(yard: Any, until: Any) -> None:
    env = fake_gpus(yard, before=f"echo $$ >> {yard.root}/asked; exec sleep 1000")
    live = yard.start("sleep 1000", gpus=["GPU-1"], patch="gpu_lease.ASK_S = 2.0", env=env)
    live.event("started")
    live.process.kill()
    live.process.wait()
    with open(live.dir / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    asked = [int(pid) for pid in (yard.root / "asked").read_text().split()]
    assert asked
    for pid in asked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
