"""Which GPUs a run gets: declared UUIDs, real locks, an nvidia-smi that says what the test wants."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import LOCAL, parse_pool
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.campaigns import slots as module
from autoresearch.lab.campaigns.slots import RunSlot, SlotPool
from autoresearch.records import order_file, recorded_run
from autoresearch.records.order_file import Observed
from autoresearch.records.rundir import RunDir
from autoresearch.runner.gpu_lease import lease_path, open_lease, share_path

A, B, C = (f"GPU-{letter * 8}-1111-2222-3333-444455556666" for letter in "abc")


class Box:
    """A machine with three GPUs: who holds which, and how much memory others use."""

    def __init__(self, place: Path, campaign: Callable[..., Any]) -> None:
        self.place, self.fds = place, []
        (place / "bin").mkdir()
        self.made = campaign()
        self.memory()

    def memory(self, **used: int) -> None:
        """MiB in use by anybody; what is not named is 4."""
        lines = [f"{n}, {uuid}, X, 80000, {used.get(uuid[4], 4)}" for n, uuid in enumerate((A, B, C))]
        program = self.place / "bin" / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho >> {self.place}/asked\ncat <<E\n" + "\n".join(lines) + "\nE\n")
        program.chmod(0o755)

    @property
    def asked(self) -> int:
        path = self.place / "asked"
        return len(path.read_text()) if path.exists() else 0

    def hold(self, uuid: str, share: int = 0) -> None:
        """Somebody else's run holds a GPU, or one share of it, until `let_go`."""
        path = lease_path(uuid, os.environ)
        self._lock(path, fcntl.LOCK_SH if share else fcntl.LOCK_EX)
        if share:
            self._lock(share_path(path, share), fcntl.LOCK_EX)

    def _lock(self, path: str, how: int) -> None:
        self.fds.append(open_lease(path))
        fcntl.flock(self.fds[-1], how | fcntl.LOCK_NB)

    def let_go(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    def pool(self, *uuids: str, per_run: int = 1, per_gpu: int = 1, busy_mib: int = 0) -> SlotPool:
        spec = replace(self.made.spec, gpus=uuids, gpus_per_run=per_run, runs_per_gpu=per_gpu, gpu_busy_mib=busy_mib)
        checkout = repository.find(self.made.root)
        assert checkout
        return SlotPool(replace(spec, parallel=4), checkout, os.environ)


@pytest.fixture
def box(tmp_path: Path, campaign: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    one = Box(tmp_path, campaign)
    yield one
    one.let_go()


def fill(pool: SlotPool, *runs: str) -> list[tuple[str, ...] | None]:
    """What each of these runs gets, one after the other, all of them living."""
    live: list[str] = []
    got = []
    for run in runs:
        found = pool.gpus(live)
        got.append(found)
        if found is not None:
            pool.take(pool.slots[0], run, RunSlot(LOCAL, found))
            live.append(run)
    return got


@pytest.mark.system
@pytest.mark.parametrize(
    ("per_run", "per_gpu", "got"),
    [
        (1, 1, [(A,), (B,), (C,), None]),
        (2, 1, [(A, B), None]),  # all or nothing
        (1, 2, [(A,), (B,), (C,), (A,), (B,), (C,), None]),  # spread first
    ],
)
def test_each_run_gets_its_own_until_all_are_taken(box: Box, per_run: int, per_gpu: int, got: list[Any]) -> None:
    pool = box.pool(A, B, C, per_run=per_run, per_gpu=per_gpu)
    assert fill(pool, *(f"r{n}" for n in range(len(got)))) == got
    pool.free("r0")
    assert pool.gpus([f"r{n}" for n in range(1, len(got) - 1)]) == got[0]


@pytest.mark.system
def test_what_others_have_leased_is_waited_for(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.hold(A)
    pool = box.pool(A)
    assert pool.gpus([]) is None and not pool.may_ask_again
    box.let_go()
    assert pool.gpus([]) is None, "not asked at every turn"
    now = module.time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + module.LOOK_AGAIN_S + 1)
    assert pool.may_ask_again and pool.gpus([]) == (A,) and not pool.may_ask_again


@pytest.mark.system
def test_shares_of_others_count(box: Box) -> None:
    box.hold(A, share=1)
    assert box.pool(A).gpus([]) is None, "alone it cannot be had"
    assert box.pool(A, per_gpu=2).gpus([]) == (A,)
    box.hold(A, share=2)
    assert box.pool(A, per_gpu=2).gpus([]) is None
    assert box.pool(A, per_gpu=3).gpus([]) == (A,)


@pytest.mark.system
def test_a_gpu_that_somebody_computes_on_without_a_lease_is_not_taken(box: Box) -> None:
    box.memory(a=9000)
    assert box.pool(A, B).gpus([]) == (B,)
    assert box.pool(A, B, per_run=2).gpus([]) is None
    assert box.pool(A, busy_mib=9001).gpus([]) == (A,)
    assert box.pool(A, B, busy_mib=3).gpus([]) is None


@pytest.mark.system
def test_memory_of_a_leased_gpu_is_that_of_its_runs(box: Box) -> None:
    box.memory(a=9000)
    pool = box.pool(A, per_gpu=2)
    pool.take(pool.slots[0], "ours", RunSlot(LOCAL, (A,)))
    assert pool.gpus(["ours"]) == (A,)
    box.hold(A, share=1)
    assert box.pool(A, per_gpu=2).gpus([]) == (A,), "its memory is that of somebody who shares it with us"


@pytest.mark.system
def test_nobody_tells_of_memory(box: Box) -> None:
    (box.place / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
    slice_ = "MIG-11111111-2222-3333-4444-555566667777"
    assert box.pool(slice_).gpus([]) == (slice_,)


def assigned(pool: SlotPool, place: Path, *runs: str) -> tuple[list[str], dict[str, RunDir]]:
    """Where each of these runs goes, one after the other, all of them living."""
    live: dict[str, RunDir] = {}
    got = []
    for run in runs:
        found = pool.assign(live)
        got.append(found.target.name if found else "")
        if found is not None:
            pool.take(pool.slots[0], run, found)
            (place / run).mkdir()
            live[run] = RunDir(place / run)
            if not found.target.is_local:
                order = order_file.Order(run, found.target, 1.0)
                order_file.write(live[run], order)
    return got, live


@pytest.mark.system
def test_places_are_filled_in_their_order(box: Box, tmp_path: Path) -> None:
    pool = box.pool(A)
    pool.targets = parse_pool("local:2, slurm:1, ssh:gpu1:2", {})
    got, live = assigned(pool, tmp_path, *"abcdef")
    assert got == ["local", "slurm", "gpu1", "gpu1", "", ""], "local has one GPU only"
    pool.free("b")
    del live["b"]
    found = pool.assign(live)
    assert found is not None and found.target.name == "slurm" and found.gpus == ()


@pytest.mark.system
def test_a_place_that_does_not_answer_gets_nothing_new(box: Box, tmp_path: Path) -> None:
    pool = box.pool(A, per_run=0)
    pool.targets = parse_pool("slurm:2, local:1", {})
    _, live = assigned(pool, tmp_path, "a")
    silent = Observed(RunState.UNREACHABLE.value, 2.0, 2.0, "slurmctld is away")
    order_file.observe(live["a"], silent)
    found = pool.assign(live)
    assert found is not None and found.target.name == "local"
    order_file.observe(live["a"], Observed(RunState.RUNNING.value, 3.0, 3.0))
    again = pool.assign(live)
    assert again is not None and again.target.name == "slurm"


@pytest.mark.system
def test_runs_of_before_count_where_this_machine_has_a_name_of_its_own(box: Box, tmp_path: Path) -> None:
    pool = box.pool(A, per_run=0)
    pool.targets = parse_pool("mybox:1, slurm:1", {"mybox": {"kind": "local"}})
    rundir = RunDir(tmp_path / "a")
    rundir.path.mkdir()
    row = box.made.run("baseline", 0.5)
    spec = replace(box.made.run_spec(row, "baseline", ""), run="a", cwd=str(pool.slots[0].path))
    recorded_run.write(rundir, spec, {})
    pool.occupied(rundir.path, "a")
    found = pool.assign({"a": rundir})
    assert found is not None and found.target.name == "slurm"
