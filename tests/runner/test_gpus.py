"""The GPUs of a run: leases, peak memory, whether they were used at all, whether their memory came back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autoresearch.runner import gpu_lease
from autoresearch.runner.gpu_lease import Gpus

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

    monkeypatch.setattr(gpu_lease, "clock", lambda: made[-1].now)
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


@pytest.mark.system
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


@pytest.mark.system
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


@pytest.mark.system
def test_several_leases_are_taken_all_or_none(yard: Any) -> None:
    a, b = str(yard.root / "a.lock"), str(yard.root / "b.lock")
    patch = "gpu_lease.LEASE_WAIT_S = 0.1"
    holder = yard.start("sleep 1000", leases=[b])
    holder.event("started")
    assert yard.ended("true", leases=[b, a], patch=patch)[1]["cause"] == "lease_busy"
    assert yard.ended("true", leases=[a], patch=patch)[1]["ending"] == "finished", "nothing is kept of a failed try"
    holder.ask_to_stop(how="now", reason="enough")
    holder.record()


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


@pytest.mark.system
@pytest.mark.parametrize(("after", "returned"), [(1024, True), (9216, False)])
def test_gpu_memory(yard: Any, after: int, returned: bool) -> None:
    seen = "[ -e seen ] && [ $(wc -l < seen) -ge 2 ]"  # at the second question the answer to the first was taken in
    command = f"touch on; until {seen}; do sleep 0.05; done; touch over"
    patch = f"gpu_lease.RETURN_S = {600.0 if returned else 3.0}"
    _, record = yard.ended(command, gpus=["GPU-1"], patch=patch, env=fake_gpus(yard, after))
    assert record["gpu_memory_bytes"] == 4 << 30
    assert (record["gpu_memory_returned"], record["gpu_used"], record["gpu_count"]) == (returned, True, 1)


@pytest.mark.system
def test_a_gpu_that_the_trainer_left_idle_is_in_the_record(yard: Any) -> None:
    (yard.root / "seen").touch()
    counted = f'echo >> {yard.root}/seen'
    patch = "gpu_lease.PAUSE_S = gpu_lease.LONGER_S = 0.01; gpu_lease.COST = 0.0"
    command = f"until [ $(wc -l < seen) -gt {gpu_lease.LOOKS + 2} ]; do sleep 0.05; done"
    _, record = yard.ended(command, gpus=["GPU-1"], patch=patch, env=fake_gpus(yard, before=counted))
    assert (record["gpu_used"], record["gpu_count"]) == (False, 1)


@pytest.mark.system
@pytest.mark.parametrize("uuid", ["GPU-none", "GPU-1"])
def test_gpu_memory_that_nobody_tells_is_unknown(yard: Any, uuid: str) -> None:
    env = fake_gpus(yard) if uuid == "GPU-none" else {"PATH": "/nowhere"}
    live = yard.make("true", gpus=["GPU-1", uuid])
    (live.dir / "environment").write_text(f"PATH={os.environ['PATH']}")
    record = yard.launch(live, env=env).record()
    assert (record["ending"], record["gpu_memory_bytes"], record["gpu_memory_returned"]) == ("finished", None, None)


@pytest.mark.system
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
