"""The GPUs of a run: leases, peak memory, whether they were used at all, whether their memory came back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from autoresearch.runner import gpu_memory
from autoresearch.runner.gpu_memory import Gpus

MIB, GIB = 1 << 20, 1 << 30


class Driver(Gpus):
    """One GPU whose memory is a function of the seconds since the trainer's start; it answers at once, or slowly."""

    def __init__(self, at: Sequence[tuple[float, int | None]], takes_s: float = 0.0) -> None:
        super().__init__(["GPU-1"])
        self.now, self._at, self._takes = 0.0, at, takes_s
        self.asked: list[float] = []

    def _used(self, tick: Any, until: float) -> int | None:
        self.asked.append(self.now)
        self.now += self._takes
        return next(used for begins, used in reversed(self._at) if begins <= self.now)

    def watched(self, seconds: float) -> Driver:
        """As the Runner watches a trainer of that many seconds."""
        self.measure_before(None)
        self.now, self.asked = 0.0, []
        self.start()
        while self.next_at <= seconds:
            self.now = self.next_at
            self.look(None, seconds)
        return self


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[Driver] = []

    def make(*at: tuple[float, int | None], takes_s: float = 0.0) -> Driver:
        made.append(Driver(at, takes_s))
        return made[-1]

    monkeypatch.setattr(gpu_memory, "clock", lambda: made[-1].now)
    return make


def test_a_short_peak_is_met_and_a_long_run_is_asked_seldom(driver: Any) -> None:
    short = driver((0, GIB), (3.0, GIB + 300 * MIB), (4.0, 3 * GIB), (5.0, GIB)).watched(6)
    assert short.peak == 2 * GIB
    assert max(b - a for a, b in zip(short.asked, short.asked[1:], strict=False)) < 1.3
    long = driver((0, GIB)).watched(36_000)
    assert len(long.asked) < 1000 and long.asked[-1] - long.asked[-2] == pytest.approx(60)
    slow = driver((0, GIB), takes_s=2.0).watched(60)
    assert len(slow.asked) <= 6, "a driver that takes seconds is not kept busy"


@pytest.mark.parametrize(
    ("at", "seconds", "used"),
    [
        ([(0, GIB)], 30, False),
        ([(0, GIB), (10, GIB + 8 * MIB)], 30, False),
        ([(0, GIB), (10, GIB + 200 * MIB), (20, GIB)], 30, True),
        ([(0, 5 * GIB), (10, 4 * GIB)], 30, True),
        ([(0, GIB)], 3, None),
        ([(0, GIB), (10, None), (12, GIB)], 30, None),
        ([(0, None)], 30, None),
    ],
    ids=["idle", "a display", "used for a while", "freed by another", "too short", "silent for a while", "unreadable"],
)
def test_whether_they_were_used(driver: Any, at: list[tuple[float, int | None]], seconds: float, used: Any) -> None:
    assert driver(*at).watched(seconds).used is used


@pytest.fixture
def leased(yard: Any) -> Any:
    """Starts or ends a run that leases GPUs; their lease files lie in the yard."""

    def make(how: Any, command: str, *gpus: str, count: int = 0, shares: int = 1, **more: Any) -> Any:
        env = {"AUTORESEARCH_GPU_LEASES": str(yard.root / "leases"), **more.pop("env", {})}
        patch = "gpu_lease.LEASE_WAIT_S = 0.1"
        return how(command, gpus=gpus, gpu_count=count, lease_shares=shares, patch=patch, env=env, **more)

    return make


def stopped(live: Any) -> None:
    live.ask_to_stop(reason="enough")
    live.record()


@pytest.mark.system
def test_gpu_leases(yard: Any, leased: Any, until: Any, dead: Any) -> None:
    before = os.umask(0o077)  # a strict user must not shut the others out
    first = leased(yard.start, "sleep 1000", "MIG-1/1/0")
    pid = first.event("started")["pid"]
    os.umask(before)
    lease = yard.root / "leases" / "MIG-1_1_0.lock"
    assert json.loads(lease.read_text()) == {"run": first.run, "pid": first.process.pid}
    assert [stat.S_IMODE(path.stat().st_mode) for path in (lease.parent, lease)] == [0o1777, 0o666]
    assert json.loads((first.dir / "runner.json").read_text())["gpus"] == ["MIG-1/1/0"]
    _, record = leased(yard.ended, "true", "MIG-1/1/0")
    assert (record["ending"], record["cause"]) == ("launch_failed", "lease_busy")
    assert first.run in record["reason"]
    first.process.kill()  # the lease outlives the Runner ...
    first.process.wait()
    assert leased(yard.ended, "true", "MIG-1/1/0")[1]["cause"] == "lease_busy"
    os.kill(pid, signal.SIGKILL)  # ... and ends with the trainer
    until(lambda: dead(pid))
    assert leased(yard.ended, "true", "MIG-1/1/0")[1]["ending"] == "finished"


@pytest.mark.system
def test_runs_that_share_a_gpu_and_one_that_wants_it_alone_keep_each_other_out(yard: Any, leased: Any) -> None:
    both = [leased(yard.start, "sleep 1000", "MIG-1", shares=2) for _ in range(2)]
    for live in both:
        live.event("started")
    names = ["MIG-1.lock", "MIG-1.share-1", "MIG-1.share-2", "choosing.lock"]
    assert sorted(path.name for path in (yard.root / "leases").iterdir()) == names
    _, record = leased(yard.ended, "true", "MIG-1", shares=2)
    assert (record["cause"], "all 2 shares" in record["reason"]) == ("lease_busy", True)
    assert leased(yard.ended, "true", "MIG-1")[1]["cause"] == "lease_busy"
    assert leased(yard.ended, "true", "MIG-1", shares=3)[1]["ending"] == "finished"
    stopped(both[0])
    assert leased(yard.ended, "true", "MIG-1")[1]["cause"] == "lease_busy", "one share is held"
    assert leased(yard.ended, "true", "MIG-1", shares=2)[1]["ending"] == "finished"
    stopped(both[1])
    alone = leased(yard.start, "sleep 1000", "MIG-1")
    alone.event("started")
    assert leased(yard.ended, "true", "MIG-1", shares=2)[1]["cause"] == "lease_busy"
    stopped(alone)


@pytest.mark.system
def test_several_leases_are_taken_all_or_none(yard: Any, leased: Any) -> None:
    holder = leased(yard.start, "sleep 1000", "MIG-b")
    holder.event("started")
    assert leased(yard.ended, "true", "MIG-b", "MIG-a")[1]["cause"] == "lease_busy"
    assert leased(yard.ended, "true", "MIG-a")[1]["ending"] == "finished", "nothing is kept of a failed try"
    assert leased(yard.ended, "true", "MIG-b", "MIG-a", count=1)[1]["ending"] == "finished", "one of them is free"
    stopped(holder)


THREE = """#!/bin/sh
case "$*" in *index*) printf '0, GPU-aaaa, X, 80000, 3\\n1, GPU-bbbb, X, 80000, 50000\\n2, GPU-cccc, X, 80000, 3\\n' ;;
*) printf 'GPU-aaaa, 3\\nGPU-bbbb, 3\\nGPU-cccc, 3\\n' ;; esac
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "count", "visible", "shown"),
    [
        (["all"], 1, None, "0"),
        (["all"], 2, None, "0,2"),
        (["all"], 3, None, "lease_busy: 3 GPUs are wanted, but 2 of 3 are free"),
        (["all"], 4, None, "no_gpu: 4 GPUs are wanted, and the run may see 3 here"),
        (["all"], 0, None, "0,1,2"),
        (["1"], 0, None, "1"),
        (["GPU-cc", "0"], 0, None, "2,0"),
        (["7"], 0, None, "no_gpu: GPU 7 is not on this machine"),
        (["all"], 0, "2,1", "2,1"),
        (["all"], 0, "9", "no_gpu: nvidia-smi shows no GPU here that the run may see"),
        (["all"], 1, "2", "2"),
        (["1"], 0, "2", "no_gpu: GPU 1 is not on this machine, or CUDA_VISIBLE_DEVICES hides it"),
        ([], 0, "1", "1"),
    ],
)
def test_which_gpus_a_run_gets(
    yard: Any, leased: Any, words: list[str], count: int, visible: str | None, shown: str
) -> None:
    """By number, as nvidia-smi counts: vLLM calls int() on each entry of CUDA_VISIBLE_DEVICES."""
    (yard.root / "bin").mkdir()
    (yard.root / "bin" / "nvidia-smi").write_text(THREE)
    (yard.root / "bin" / "nvidia-smi").chmod(0o755)
    env = {"PATH": f"{yard.root}/bin:{os.environ['PATH']}"} | ({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    live, record = leased(yard.ended, 'echo "sees $CUDA_VISIBLE_DEVICES"', *words, count=count, env=env)
    if record["ending"] == "launch_failed":
        assert f"{record['cause']}: {record['reason']}".startswith(shown)
    else:
        assert live.log().decode().splitlines() == [f"sees {shown}"]
        assert "warning" not in live.names()


NVIDIA_SMI = """#!/bin/sh
{before}
used=1024
[ ! -e {root}/on ] || used=5120
[ ! -e {root}/over ] || used={after}
[ ! -e {root}/on ] || touch {root}/seen
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


@pytest.mark.system
@pytest.mark.parametrize(("after", "returned"), [(1024, True), (9216, False)])
def test_gpu_memory(yard: Any, after: int, returned: bool) -> None:
    command = "touch on; until [ -e seen ]; do sleep 0.05; done; touch over"
    patch = f"gpu_memory.ASK_S = gpu_memory.LONGER_S = 600.0; gpu_memory.RETURN_S = {600.0 if returned else 3.0}"
    _, record = yard.ended(command, gpus=["GPU-1"], patch=patch, env=fake_gpus(yard, after))  # it is asked once
    assert record["gpu_memory_bytes"] == 4 << 30
    assert (record["gpu_memory_returned"], record["gpu_used"], record["gpu_count"]) == (returned, True, 1)


@pytest.mark.system
def test_a_gpu_that_the_trainer_left_idle_is_in_the_record(yard: Any) -> None:
    (yard.root / "seen").touch()
    counted = f'echo >> {yard.root}/seen'
    patch = "gpu_memory.PAUSE_S = gpu_memory.LONGER_S = 0.01; gpu_memory.COST = 0.0; gpu_memory.ASK_S = 600.0"
    command = f"until [ $(wc -l < seen) -gt {gpu_memory.LOOKS + 2} ]; do sleep 0.05; done"
    _, record = yard.ended(command, gpus=["GPU-1"], patch=patch, env=fake_gpus(yard, before=counted))
    assert (record["gpu_used"], record["gpu_count"]) == (False, 1)


@pytest.mark.system
@pytest.mark.parametrize(("uuids", "before"), [(["GPU-1", "GPU-none"], ""), (["GPU-1"], "exit 9")])
def test_gpu_memory_that_nobody_tells_is_unknown(yard: Any, uuids: list[str], before: str) -> None:
    _, record = yard.ended("true", gpus=uuids, env=fake_gpus(yard, before=before))
    assert (record["ending"], record["gpu_memory_bytes"], record["gpu_memory_returned"]) == ("finished", None, None)


@pytest.mark.system
def test_a_driver_that_hangs_holds_neither_the_run_nor_its_lock(yard: Any, until: Any) -> None:
    env = fake_gpus(yard, before=f"echo $$ >> {yard.root}/asked; exec sleep 1000")
    live = yard.start("sleep 1000", gpus=["GPU-1"], patch="runner.LIST_S = gpu_memory.ASK_S = 2.0", env=env)
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
