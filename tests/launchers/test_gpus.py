"""GPUs from recorded nvidia-smi output, choosing among them, and leases that the kernel keeps."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoresearch.errors import AutoresearchError, ConflictError, EnvironmentUnusable, UsageError
from autoresearch.launchers import gpus
from autoresearch.launchers.gpus import Gpu

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
    assert [(g.index, g.uuid, g.memory_mib, g.used_mib) for g in gpus.parse(text)] == expected


def test_the_name_is_kept_whole() -> None:
    assert [g.name for g in gpus.parse(f"0, {A}, Some, GPU, 10, 1")] == ["Some, GPU"]


@pytest.mark.system
@pytest.mark.parametrize(
    ("script", "found"),
    [
        (None, 0),
        (f"printf '{HEALTHY}'", 2),
        ("echo 'No devices were found'; exit 6", 0),
        (f"printf '{LOST}'; exit 15", 2),
    ],
    ids=["no nvidia-smi", "healthy", "no device", "one lost"],
)
def test_find_asks_the_program(script: str | None, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if script is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho \"$@\" > '{tmp_path}/asked'\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    assert len(gpus.find()) == found
    if script is not None:
        asked = (tmp_path / "asked").read_text()
        assert asked == "--query-gpu=index,uuid,name,memory.total,memory.used --format=csv,noheader,nounits\n"


@pytest.mark.system
def test_the_use_of_gpus_is_what_the_driver_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "GPU-a, 0, 97, 31744\nGPU-b, 1, [N/A], [N/A]\nGPU-c, 2, 5, 4\nUnable to determine the device handle\n"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'END'\n{rows}END\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    first, second = gpus.use(["GPU-a", "GPU-b"])
    assert first == {"index": 0, "load_percent": 97, "used_mib": 31744}
    assert second == {"index": 1, "load_percent": None, "used_mib": None}
    assert gpus.use([]) == []


@pytest.mark.system
def test_a_hanging_nvidia_smi_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "ANSWER_S", 0.1)
    assert gpus.find() == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("none", ()), ("None", ()), ("", ()), ("0", ()), ("all", (A, B, C)), ("1", (B,)), ("2", (B, C)),
        ("0,", (A,)), ("2,0", (C, A)), (" 1 , 2 ", (B, C)), (A, (A,)), (f"{C},{A}", (C, A)), ("GPU-9", (C,)),
        ("GPU-0a1b2", (A,)), (MIG, (MIG,)), (f"{MIG},1", (MIG, B)),
    ],
)  # fmt: skip
def test_select(spec: str, expected: tuple[str, ...]) -> None:
    assert gpus.select(spec, THREE, taken={A}) == expected


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ("3", ConflictError, "3 GPUs are wanted, but 2 of 3 are free"),
        ("4", EnvironmentUnusable, "4 GPUs are wanted, but this machine has 3"),
        ("7,", EnvironmentUnusable, "GPU 7 is not on this machine"),
        ("GPU-777", EnvironmentUnusable, "GPU GPU-777 is not on this machine"),
        ("GPU-0a1b", EnvironmentUnusable, "GPU-0a1b fits several GPUs"),
        ("0,0", UsageError, "twice"),
        (f"0,{A}", UsageError, "twice"),
        (",", UsageError, "none"),
        *((word, UsageError, "is no GPU") for word in ("-1", "1.5", "two", "GPU-", "$(x)", "²", "0 1")),
    ],
)
def test_select_refuses(spec: str, error: type[AutoresearchError], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        gpus.select(spec, THREE, taken={A})
    assert raised.value.hint


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [(None, (A, B, C)), ("", ()), ("-1", ()), ("2,0", (C, A)), ("0,9,1", (A,)), ("GPU-9,0", (C, A)),
     ("GPU-0a1b,2", ()), ("1,1", (B,)), ("NoDevFiles", ()), (" 1", (B,))],
)  # fmt: skip
def test_what_a_scheduler_left_us(allowed: str | None, expected: tuple[str, ...]) -> None:
    environ = {} if allowed is None else {"CUDA_VISIBLE_DEVICES": allowed}
    assert tuple(g.uuid for g in gpus.visible(THREE, environ)) == expected


@pytest.mark.parametrize(
    ("total", "used", "idle"),
    [(81559, 0, True), (81559, 4076, True), (81559, 4077, False), (8192, 1023, True), (8192, 1024, False),
     (None, None, True), (None, 2000, False), (81559, None, True)],
)  # fmt: skip
def test_idle(total: int | None, used: int | None, idle: bool) -> None:
    assert gpu(0, A, total, used).idle is idle


def test_a_threshold_of_ones_own() -> None:
    assert gpu(0, A, 81559, 9000).is_idle(10_000) and not gpu(0, A, 81559, 9000).is_idle(9000)
    assert gpu(0, A, 81559, None).is_idle(1)


@pytest.mark.parametrize(
    ("uuids", "there", "shown", "warns"),
    [
        ((B,), THREE, "1", ""),
        ((C, A), THREE, "2,0", ""),
        ((), THREE, "", ""),
        ((MIG,), THREE, MIG, "MIG slices have no number: vLLM reads numbers only"),
        ((C,), (THREE[0], THREE[2]), C, "their numbers are uncertain"),
        ((A,), (), A, "their numbers are uncertain"),
    ],
    ids=["one", "two", "none", "a MIG slice", "beside a lost one", "nvidia-smi is silent"],
)
def test_they_are_shown_by_number_where_that_is_certain(
    uuids: tuple[str, ...], there: tuple[Gpu, ...], shown: str, warns: str
) -> None:
    """vLLM calls int() on each entry of CUDA_VISIBLE_DEVICES."""
    choice = gpus.GpuChoice(uuids, there)
    assert choice.variables == {"CUDA_VISIBLE_DEVICES": shown, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert [f.code for f in choice.findings] == (["gpus_by_uuid"] if warns else [])
    assert warns in "".join(f.message for f in choice.findings)


@pytest.mark.parametrize(
    ("allowed", "spec", "shown"),
    [("1,2", "1", "1"), ("2,1", "all", "2,1"), (C, "1", "2"), (f"{C},{A}", "0,", "0"), (None, "2", "0,1")],
)
def test_numbers_are_the_machine_s_below_an_outer_list(
    allowed: str | None, spec: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpus, "find", lambda: THREE)
    environ = {gpus.LEASES_VARIABLE: str(tmp_path), **({} if allowed is None else {"CUDA_VISIBLE_DEVICES": allowed})}
    assert gpus.choose(spec, environ).variables["CUDA_VISIBLE_DEVICES"] == shown


@pytest.mark.parametrize(
    ("taken", "message", "hint"),
    [((A, B, C), "1 GPU is wanted, but 0 of 3 are free", "wait"), ((B, C), "but 1 of 3 is free", "--gpus 1")],
)
def test_what_is_advised_where_too_few_are_free(taken: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(ConflictError, match=message) as raised:
        gpus.select(str(4 - len(taken)), THREE, taken=taken)
    assert raised.value.hint.endswith(hint)


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[dict[str, str]]:
    before = os.umask(0o077)  # a strict user must not shut the others out
    yield {"AUTORESEARCH_GPU_LEASES": str(tmp_path / "leases")}
    os.umask(before)


def test_lease_files_are_open_to_everybody_and_kept(leases: dict[str, str], tmp_path: Path) -> None:
    first = gpus.make_leases((A, f"{MIG}/1/0"), leases)
    assert first == (tmp_path / "leases" / f"{A}.lock", tmp_path / "leases" / f"{MIG}_1_0.lock")
    inodes = [path.stat().st_ino for path in first]
    assert gpus.make_leases((A, f"{MIG}/1/0"), leases) == first
    assert [path.stat().st_ino for path in first] == inodes
    assert [stat.S_IMODE(path.stat().st_mode) for path in (first[0].parent, *first)] == [0o1777, 0o666, 0o666]
    assert gpus.lease_path(A, {}) == Path("/var/tmp/autoresearch-gpu") / f"{A}.lock"


def test_a_place_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnusable, match="Not a directory") as error:
        gpus.make_leases((A,), {"AUTORESEARCH_GPU_LEASES": str(tmp_path / "file")})
    assert error.value.code == "no_lease" and "AUTORESEARCH_GPU_LEASES" in error.value.hint


@pytest.mark.system
def test_a_lease_is_held_until_the_last_heir_is_dead(leases: dict[str, str]) -> None:
    (path, _) = gpus.make_leases((A, B), leases)
    assert not gpus.is_leased(A, leases) and not gpus.is_leased(C, leases)
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)  # the Runner is dead, its trainer is not
    assert gpus.is_leased(A, leases)
    busy = (gpu(0, A), gpu(1, B, used=5000), gpu(2, C))
    assert gpus.taken(busy, leases) == {A, B}
    heir.communicate(b"\n")
    assert not gpus.is_leased(A, leases)


def test_a_gpu_that_is_shared_is_leased_too(leases: dict[str, str], tmp_path: Path) -> None:
    (path,) = gpus.make_leases((A,), leases, shares=3)
    shares = [gpus.share_path(path, n) for n in (1, 2, 3)]
    assert sorted(path.parent.iterdir()) == [path, *shares]
    assert {stat.S_IMODE(share.stat().st_mode) for share in shares} == {0o666}
    assert (gpus.shares_held(A, leases), gpus.is_leased(A, leases)) == (0, False)
    fds = [os.open(p, os.O_RDWR) for p in (path, shares[1])]
    fcntl.flock(fds[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.flock(fds[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (gpus.shares_held(A, leases), gpus.is_held_alone(A, leases), gpus.is_leased(A, leases)) == (1, False, True)
    for fd in fds:
        os.close(fd)
    assert not gpus.is_leased(A, leases)


def test_looking_takes_nothing(leases: dict[str, str]) -> None:
    (path,) = gpus.make_leases((A,), leases)
    fd = os.open(path, os.O_RDWR)
    gpus.is_leased(A, leases)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # would raise
    os.close(fd)
