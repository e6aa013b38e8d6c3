"""Faults that need more than Python, git and tmux: full and read-only disks, shifted clocks, strace; races, floods."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import needs

pytestmark = pytest.mark.real


GATED = """
def gate(name):
    while not os.path.exists(os.path.join({root!r}, name)): time.sleep(0.01)
step(1); validation(1, 0.5)
gate("go")
os._exit({code})
"""


def gated(bench: Any, *, code: int = 0, **values: str) -> dict[str, Any]:
    """A detached run that has said all it will say, and ends when `go` appears in the bench's root."""
    blueprint = bench.script(GATED.format(root=str(bench.root), code=code), **values)
    payload = bench.ask("run", blueprint, "--detach", "--grace", "1s")
    log = Path(payload["log_path"])
    bench.until(lambda: log.exists() and b"task_pass_rate" in log.read_bytes())
    assert bench.ask("wait", payload["run"], "--for", "240s", "--since", 0)["state"] == "running"
    return dict(payload)


def go(bench: Any) -> None:
    (bench.root / "go").touch()


def over(bench: Any, payload: dict[str, Any]) -> None:
    """The Runner and the collector that it became are gone."""
    bench.until(lambda: not bench.carriers())
    assert (Path(payload["run_dir"]) / "exit.json").exists()


# ------------------------------------------------------------------------------- disks


@pytest.mark.parametrize("where", ["results", "reports"])
def test_a_disk_that_is_full_before_the_start(bench: Any, disk: Any, where: str) -> None:
    place = disk(bench.root / "results" if where == "results" else bench.repo / "reports")
    rest = disk.fill(place)
    blueprint = bench.blueprint("ok")
    refused = bench.ask("run", blueprint, check=6)
    assert refused["error"]["code"] == "disk_full" and str(place) in refused["error"]["message"]
    code, out, err = bench.here("run", blueprint)
    assert (code, out) == (6, "") and err.count("No space left") == 1 and "Traceback" not in err
    assert not bench.carriers() and bench.tmux("ls").stdout == ""
    assert not bench.git("branch", "--list", "autoresearch/*")
    assert bench.ask("status")["count"] == 0
    assert not [p for p in place.rglob("*") if p.is_file() and p.stat().st_size and p != rest]
    rest.unlink()
    payload = bench.ask("run", blueprint)
    bench.settled(payload, "finished")
    assert bench.ask("ledger", "show", payload["run"])["count"] == 1
    assert bench.ask("status")["runs"] == []


@pytest.mark.parametrize("where", ["results", "reports"])
@pytest.mark.parametrize("code", [0, 3])
def test_a_disk_that_fills_up_while_it_runs(bench: Any, disk: Any, where: str, code: int) -> None:
    place = disk(bench.root / "results-odd" if where == "results" else bench.repo / "reports")
    payload = gated(bench, code=code)
    rest = disk.fill(place)
    go(bench)
    over(bench, payload)  # the exit record was reserved
    ending = "crashed" if code else "finished"
    record = json.loads((Path(payload["run_dir"]) / "exit.json").read_text())
    assert (record["ending"], record["returncode"]) == (ending, code)
    asked = bench.ask("status", payload["run"], check=None)  # cannot write everything; says so in one sentence
    assert asked["ok"] or asked["error"]["code"] == "disk_full"
    rest.unlink()
    bench.ask("status")
    flag = bench.settled(payload, ending)
    assert flag["metrics"]["task_pass_rate@1"] == 0.5
    assert bench.ask("status", payload["run"])["metrics"]["task_pass_rate@1"] == 0.5
    assert "0.5" in Path(flag["results"]).read_text()  # in the run directory, if there was no room beside the flag


def test_adopt_goes_on_past_a_run_that_it_cannot_record(bench: Any, disk: Any) -> None:
    place = disk(bench.repo / "reports")
    stuck = gated(bench)
    rest = disk.fill(place)
    other = bench.root / "other"  # no repository: its records lie on another disk
    other.mkdir()
    shutil.copy(bench.repo / "trainer.py", other)
    blueprint = bench.blueprint("ok", codebase=str(other))
    payload = bench.ask("run", blueprint, "--detach", AUTORESEARCH_FAILPOINT="collect.measured:kill")
    bench.until((Path(payload["run_dir"]) / "exit.json").exists)
    go(bench)
    over(bench, stuck)
    asked = bench.ask("status")
    assert [bool(r["trouble"]) for r in asked["runs"]] == [r["run"] == stuck["run"] for r in asked["runs"]]
    bench.settled(payload, "finished")  # the other one's records were written all the same
    rest.unlink()
    bench.ask("status")
    bench.settled(stuck, "finished")


@pytest.mark.parametrize("where", ["results", "reports"])
def test_a_disk_that_becomes_read_only(bench: Any, disk: Any, where: str) -> None:
    """What is opened from now on is refused; what was open goes on, as on a network disk whose export changed."""
    place = disk(bench.root / "results-odd" if where == "results" else bench.repo / "reports", "4m")
    payload = gated(bench)
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (place / "new").touch()
        go(bench)
        bench.until(lambda: not bench.carriers())
        asked = bench.ask("status", payload["run"], check=None)
        assert asked["ok"] or asked["exit_code"] == 6, asked
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    bench.ask("status")
    assert bench.settled(payload, "finished")["returncode"] == 0


# ------------------------------------------------------------------------------- clocks


# libfaketime also touches the monotonic clocks: with Python 3.11's absolute sleeps it gives EINVAL. This is what
# `date -s` does: the wall clock jumps, for whoever asks from now on, and nothing else does.
WALL_CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long offset(void) {
    char text[32] = "";
    int fd = syscall(SYS_openat, AT_FDCWD, getenv("TEST_CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    if (syscall(SYS_read, fd, text, sizeof text - 1) < 0) text[0] = 0;
    syscall(SYS_close, fd);
    return atol(text);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int rc = syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset();
    return rc;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec; now->tv_usec = real.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *where) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (where) *where = real.tv_sec;
    return real.tv_sec;
}
"""


@pytest.fixture
def shift(bench: Any) -> Callable[[int], None]:
    """Move the wall clock of everything that the bench starts, by seconds."""
    needs("cc")
    source, library, file = (bench.root / name for name in ("clock.c", "clock.so", "clock"))
    source.write_text(WALL_CLOCK)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)

    def to(seconds: int) -> None:
        file.with_suffix(".new").write_text(f"{seconds}\n")
        file.with_suffix(".new").replace(file)

    to(0)
    bench.env |= {"LD_PRELOAD": str(library), "TEST_CLOCK_FILE": str(file)}
    return to


DAYS = pytest.mark.parametrize("offset", [3 * 86400, -3 * 86400], ids=["forwards", "backwards"])


TICKING = """
step(1); validation(1, 0.5)
n = 1
while not os.path.exists({go!r}):
    time.sleep(0.02); n += 1; step(n)
"""


def steps(bench: Any, payload: dict[str, Any]) -> int:
    return int(bench.ask("status", payload["run"])["step"] or 0)


@DAYS
def test_a_jump_of_the_clock_fires_no_limit(bench: Any, shift: Callable[[int], None], offset: int) -> None:
    blueprint = bench.script(TICKING.format(go=str(bench.root / "go")))
    payload = bench.ask("run", blueprint, "--detach", "--stall-timeout", "1h", "--max-time", "1h", "--grace", "1s")
    bench.until(lambda: steps(bench, payload))
    shift(offset)
    before = steps(bench, payload)
    bench.until(lambda: steps(bench, payload) > before + 20)
    standing = bench.ask("status", payload["run"])
    assert standing["state"] == "running" and standing["elapsed_s"] < 600 and standing["deadline_s"] > 3000
    assert bench.ask("wait", payload["run"], "--for", "1s", "--since", standing["step"])["state"] == "running"
    assert bench.ask("status")["living"] == 1
    go(bench)
    over(bench, payload)
    record = json.loads((Path(payload["run_dir"]) / "exit.json").read_text())
    assert record["duration_s"] < 600
    assert abs(record["ended"] - time.time()) > 86400, "the clock was not shifted"
    bench.settled(payload, "finished")


@DAYS
def test_limits_fire_after_a_jump_of_the_clock(bench: Any, shift: Callable[[int], None], offset: int) -> None:
    blueprint = bench.script(TICKING.format(go="/nowhere"))
    payload = bench.ask("run", blueprint, "--detach", "--max-time", "10s", "--grace", "1s")
    bench.until(lambda: steps(bench, payload))
    shift(offset)
    over(bench, payload)
    bench.settled(payload, "max_time")


# ------------------------------------------------------------------------------- kills


def test_kill_9_of_the_collector_at_every_system_call(bench: Any, strace: list[str]) -> None:
    """Killed at the n-th write, fsync, rename ... of the records, then `adopt`: always the same records."""
    payload = bench.ask("run", bench.blueprint("ok"), "--detach", AUTORESEARCH_FAILPOINT="collect.measured:kill")
    over(bench, payload)
    run_dir, result_dir, ledger = (Path(payload[k]) for k in ("run_dir", "result_dir", "ledger"))
    places = [ledger.parent, result_dir, Path(bench.env["XDG_STATE_HOME"])]
    keep = bench.root / "keep"
    for n, place in enumerate(places):
        shutil.copytree(place, keep / str(n))
    killed = 0
    for call in ("write", "fsync", "rename", "unlink", "ftruncate"):
        for n in range(1, 40):
            for number, place in enumerate(places):
                shutil.rmtree(place)
                shutil.copytree(keep / str(number), place)
            kill = [*strace, "-e", f"inject={call}:signal=KILL:when={n}"]
            done = _collect_traced(bench, payload, kill, places)
            assert done.returncode in (0, -9), (call, n, done)
            if done.returncode == 0:
                break
            killed += 1
            bench.ask("status")
            bench.settled(payload, "finished")
            assert (run_dir / "collected.json").exists(), (call, n)
            assert "0.5" in (result_dir / "results.md").read_text(), (call, n)
            log = (result_dir / "experiment_log.md").read_text()
            assert log.count("verdict: keep") <= 1, (call, n)
            assert bench.ask("status")["runs"] == []
            left = [p for place in places for p in place.rglob("*.tmp")]
            assert not left, (call, n, left)
    assert killed >= 6


def _collect_traced(
    bench: Any, payload: dict[str, Any], strace: list[str], places: list[Path]
) -> subprocess.CompletedProcess[bytes]:
    """The collector under strace, which counts only the calls that touch files of these directories."""
    files = [p for place in places for p in (place, *place.rglob("*"))]
    names = [Path(payload["result_dir"]) / n for n in ("results.md", "finish.flag")]
    names += [Path(payload["run_dir"]) / "collected.json", Path(payload["ledger"])]
    names += [p.with_name(f".{p.name}.tmp") for p in names]
    traced = [part for path in (*files, *names) for part in ("-P", str(path))]
    program = [sys.executable, "-m", "autoresearch", "collect", payload["run_dir"]]
    return subprocess.run(
        [*strace, *traced, *program],
        env=bench.env,
        cwd=bench.repo,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("event", ["started", "first_step"])
def test_limits_fire_while_the_command_is_stopped(bench: Any, event: str) -> None:
    blueprint = bench.script(TICKING.format(go="/nowhere"))
    process = bench.spawn("run", blueprint, "--max-time", "10s", "--grace", "1s")
    run = bench.until(lambda: bench.ask("status")["runs"])[0]["run"]
    bench.until(lambda: event in [e["event"] for e in bench.ask("logs", run, "--events")["events"]])
    payload = bench.ask("status", run)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        bench.until(lambda: (Path(payload["run_dir"]) / "collected.json").exists())
        record = json.loads((Path(payload["run_dir"]) / "exit.json").read_text())
        assert record["ending"] == "max_time" and record["duration_s"] < 600
        assert bench.ask("wait", run, "--exit-code", check=1)["ending"] == "max_time"
    except BaseException:
        process.kill()
        raise
    finally:
        os.kill(process.pid, signal.SIGCONT)
        code = process.wait(timeout=240)
    assert code == 12
    bench.settled(payload, "max_time")


def test_a_launch_that_hangs_can_be_stopped(bench: Any) -> None:
    """git does not come back; somebody stops the run; then git does. No trainer, no secrets, one set of records."""
    tools, gate = bench.root / "tools", bench.root / "gate"
    tools.mkdir()
    wait = f'case "$*" in *commit-tree*) touch {gate}.reached; while [ ! -e {gate} ]; do sleep 0.02; done;; esac'
    (tools / "git").write_text(f'#!/bin/sh\n{wait}\nexec {shutil.which("git")} "$@"\n')
    (tools / "git").chmod(0o755)
    process = bench.spawn("run", bench.blueprint("long"), "--grace", "1s", PATH=f"{tools}:{bench.env['PATH']}")
    try:
        bench.until(gate.with_name("gate.reached").exists)
        run = bench.ask("status")["runs"][0]["run"]
        bench.until(lambda: bench.ask("status", run)["state"] != "ended")
        os.kill(process.pid, signal.SIGSTOP)
        payload = bench.ask("stop", run, "--reason", "it hangs")
        assert payload["state"] == "starting"  # its Runner sees the request once git comes back
    except BaseException:
        process.kill()
        raise
    finally:
        gate.touch()
        os.kill(process.pid, signal.SIGCONT)
        code = process.wait(timeout=240)
    assert code in (6, 10)
    bench.until(lambda: bench.ask("status", run)["state"] == "ended")
    assert bench.ask("status", run)["ending"] in ("stopped", "launch_failed")
    assert not (Path(payload["run_dir"]) / "environment").exists()
    log = Path(payload["run_dir"]) / "run.log"
    assert not log.exists() or b"hello from the trainer" not in log.read_bytes()
