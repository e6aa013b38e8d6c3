"""GPUs from recorded nvidia-smi output, choosing among them, and leases that the kernel keeps."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import GpuRequest
from autoresearch.runner.gpu_lease import Gpu, lease_path, open_lease, parse, share_path, variables, visible

A = "GPU-0a1b2c3d-1111-2222-3333-444455556666"
B = "GPU-0a1bffff-1111-2222-3333-444455556666"
C = "GPU-99999999-1111-2222-3333-444455556666"
MIG = "MIG-11111111-2222-3333-4444-555566667777"

HEALTHY = f"""0, {A}, NVIDIA H100 80GB HBM3, 81559, 4
1, {B}, NVIDIA H100 80GB HBM3, 81559, 78123
"""
LOST = f"""Unable to determine the device handle for GPU1: 0000:0F:00.0: Unknown Error
0, {A}, NVIDIA A100-SXM4-40GB, 40960, 0
2, {C}, NVIDIA A100-SXM4-40GB, 40960, [Unknown Error]
"""
RECORDED = {
    "healthy": (HEALTHY, [(0, A, 81559, 4), (1, B, 81559, 78123)]),
    "one lost, others listed": (LOST, [(0, A, 40960, 0), (2, C, 40960, None)]),
    "any order, CRLF": (f"1, {B}, X, 5, 1\r\n0, {A}, X, 5, 1\r\n", [(0, A, 5, 1), (1, B, 5, 1)]),
    "unified memory": (f"0, {A}, NVIDIA GB10, [N/A], [N/A]\n", [(0, A, None, None)]),
    "old driver": (f"0, {A}, Tesla K80, [Not Supported], ERR!\n", [(0, A, None, None)]),
    "a comma in the name": (f"0, {A}, Some, GPU, 10, 1\n", [(0, A, 10, 1)]),
    "no device": ("No devices were found\n", []),
    "no driver": (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA driver is installed and running.\n\n",
        [],
    ),
    "upgraded without a reboot": ("Failed to initialize NVML: Driver/library version mismatch\n", []),
    "a header all the same": ("index, uuid, name, memory.total [MiB], memory.used [MiB]\n", []),
    "cut short": (f"0, {A}, NVIDIA H1", []),
    "no uuid": ("0, [N/A], NVIDIA H100, 10, 1\n", []),
    "a path for a uuid": ("0, ../../etc/passwd, NVIDIA H100, 10, 1\n", []),
    "empty": ("", []),
}


def gpu(index: int, uuid: str, total: int | None = 81559, used: int | None = 0) -> Gpu:
    return Gpu(index, uuid, "X", total, used)


THREE = (gpu(0, A), gpu(1, B), gpu(2, C))


@pytest.mark.parametrize(("text", "expected"), RECORDED.values(), ids=RECORDED)
def test_recorded_output(text: str, expected: list[tuple[int, str, int | None, int | None]]) -> None:
    assert [(g.index, g.uuid, g.memory_mib, g.used_mib) for g in parse(text)] == expected
    assert [g.name for g in parse(f"0, {A}, Some, GPU, 10, 1")] == ["Some, GPU"]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a shell script in the place of nvidia-smi; returns the file with the words that it is called with."""

    def write(script: str) -> Path:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho \"$@\" > '{tmp_path}/asked'\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        return tmp_path / "asked"

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return write


@pytest.mark.system
@pytest.mark.parametrize(
    ("script", "found"),
    [(f"printf '{HEALTHY}'", 2), ("echo 'No devices were found'; exit 6", 0), (f"printf '{LOST}'; exit 15", 2)],
    ids=["healthy", "no device", "one lost"],
)
def test_find_asks_the_program(script: str, found: int, driver: Callable[[str], Path]) -> None:
    asked = driver(script)
    assert len(gpus.find()) == found
    words = "--query-gpu=index,uuid,name,memory.total,memory.used --format=csv,noheader,nounits\n"
    assert asked.read_text() == words


@pytest.mark.system
def test_the_use_of_gpus_is_what_the_driver_tells(driver: Callable[[str], Path]) -> None:
    rows = "GPU-a, 0, 97, 31744\nGPU-b, 1, [N/A], [N/A]\nGPU-c, 2, 5, 4\nUnable to determine the device handle\n"
    driver(f"cat <<'END'\n{rows}END")
    first, second = gpus.use(["GPU-a", "GPU-b"])
    assert first == {"index": 0, "load_percent": 97, "used_mib": 31744}
    assert second == {"index": 1, "load_percent": None, "used_mib": None}
    assert gpus.use([]) == []


@pytest.mark.system
def test_without_an_answer_there_is_no_gpu(driver: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    driver("exec sleep 1000")
    monkeypatch.setattr(gpus, "ANSWER_S", 0.1)
    assert gpus.find() == []
    monkeypatch.setenv("PATH", "/nonexistent")
    assert gpus.find() == []


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with three GPUs, of which somebody computes on the first."""
    monkeypatch.setattr(gpus, "find", lambda: [gpu(0, A, used=5000), *THREE[1:]])
    return {"AUTORESEARCH_GPU_LEASES": str(tmp_path)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", GpuRequest()), ("None", GpuRequest()), ("", GpuRequest()), ("0", GpuRequest()),
        ("all", GpuRequest((A, B, C))), ("1", GpuRequest((B, C, A), 1)), ("2", GpuRequest((B, C, A), 2)),
        ("0,", GpuRequest((A,))), ("2,0", GpuRequest((C, A))), (" 1 , 2 ", GpuRequest((B, C))),
        (A, GpuRequest((A,))), (f"{C},{A}", GpuRequest((C, A))), ("GPU-9", GpuRequest((C,))),
        ("GPU-0a1b2", GpuRequest((A,))), (MIG, GpuRequest((MIG,))), (f"{MIG},1", GpuRequest((MIG, B))),
    ],
)  # fmt: skip
def test_request(three: dict[str, str], text: str, expected: GpuRequest) -> None:
    assert gpus.request(text, three) == expected


@pytest.mark.parametrize(
    ("text", "error", "says", "hint"),
    [
        ("3", ConflictError, "3 GPUs are wanted, but 2 of 3 are free", "--gpus 2"),
        ("4", EnvironmentUnusable, "4 GPUs are wanted, and the run may see 3 here", "doctor"),
        ("7,", EnvironmentUnusable, "GPU 7 is not on this machine", "doctor"),
        ("GPU-777", EnvironmentUnusable, "GPU GPU-777 is not on this machine", "doctor"),
        ("GPU-0a1b", EnvironmentUnusable, "GPU-0a1b fits several GPUs", "doctor"),
        ("0,0", EnvironmentUnusable, "twice", "doctor"),
        (f"0,{A}", EnvironmentUnusable, "twice", "doctor"),
        *((word, UsageError, "is no GPU", "indices") for word in (",", "-1", "1.5", "two", "GPU-", "$(x)", "²", "0 1")),
    ],
)
def test_request_refuses(
    three: dict[str, str], text: str, error: type[AutoresearchError], says: str, hint: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        gpus.request(text, three)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [(None, (A, B, C)), ("", ()), ("-1", ()), ("2,0", (C, A)), ("0,9,1", (A,)), ("GPU-9,0", (C, A)),
     ("GPU-0a1b,2", ()), ("1,1", (B,)), ("NoDevFiles", ()), (" 1", (B,))],
)  # fmt: skip
def test_what_a_scheduler_left_us(allowed: str | None, expected: tuple[str, ...]) -> None:
    environ = {} if allowed is None else {"CUDA_VISIBLE_DEVICES": allowed}
    assert tuple(g.uuid for g in visible(THREE, environ)) == expected


@pytest.mark.parametrize(
    ("total", "used", "idle"),
    [(81559, 0, True), (81559, 4076, True), (81559, 4077, False), (8192, 1023, True), (8192, 1024, False),
     (None, None, True), (None, 2000, False), (81559, None, True)],
)  # fmt: skip
def test_idle(total: int | None, used: int | None, idle: bool) -> None:
    assert gpu(0, A, total, used).is_idle() is idle
    assert gpu(0, A, total, 9000).is_idle(10_000) and not gpu(0, A, total, 9000).is_idle(9000)


@pytest.mark.parametrize(
    ("uuids", "there", "shown"),
    [((B,), THREE, "1"), ((C, A), THREE, "2,0"), ((MIG,), THREE, MIG), ((C,), (THREE[0], THREE[2]), C), ((A,), (), A)],
    ids=["one", "two", "a MIG slice", "beside a lost one", "nvidia-smi is silent"],
)
def test_they_are_shown_by_number_where_that_is_certain(
    uuids: tuple[str, ...], there: tuple[Gpu, ...], shown: str
) -> None:
    """vLLM calls int() on each entry of CUDA_VISIBLE_DEVICES."""
    assert variables(uuids, there) == {"CUDA_VISIBLE_DEVICES": shown, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.fixture
def leases(tmp_path: Path) -> dict[str, str]:
    return {"AUTORESEARCH_GPU_LEASES": str(tmp_path / "leases")}


@pytest.mark.system
def test_a_lease_is_held_until_the_last_heir_is_dead(leases: dict[str, str]) -> None:
    fd = open_lease(lease_path(A, leases))
    assert not gpus.is_leased(A, leases) and not gpus.is_leased(C, leases)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)  # the Runner is dead, its trainer is not
    assert gpus.is_leased(A, leases)
    busy = (gpu(0, A), gpu(1, B, used=5000), gpu(2, C))
    assert gpus.taken(busy, leases) == {A, B}
    heir.communicate(b"\n")
    assert not gpus.is_leased(A, leases)


def test_a_gpu_that_is_shared_is_leased_too(leases: dict[str, str]) -> None:
    path = lease_path(A, leases)
    fds = [open_lease(one) for one in (path, share_path(path, 2))]
    assert (gpus.shares_held(A, leases), gpus.is_leased(A, leases)) == (0, False)
    fcntl.flock(fds[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(fds[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (gpus.shares_held(A, leases), gpus.is_held_alone(A, leases), gpus.is_leased(A, leases)) == (1, False, True)
    for fd in fds:
        os.close(fd)
    assert not gpus.is_leased(A, leases)


def test_looking_takes_nothing(leases: dict[str, str]) -> None:
    fd = open_lease(lease_path(A, leases))
    gpus.is_leased(A, leases)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # would raise
    os.close(fd)
