"""How a run ends: exit codes, launch failures, what is written and in which order."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.files import locked
from autoresearch.runner import processes, runner
from autoresearch.runner.basics import RUN_ID, is_locked

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("command", "ending", "returncode", "signal"),
    [
        ("true", "finished", 0, None),
        ("exit 37", "crashed", 37, None),
        ("kill -9 $$", "crashed", 137, 9),
        ("kill -SEGV $$", "crashed", 139, 11),
        ("no-such-trainer --lr 1", "crashed", 127, None),
        ("exec 2>&1; sleep 0.1 | false", "crashed", 1, None),
    ],
)
def test_exit_codes_are_exact(yard: Any, command: str, ending: str, returncode: int, signal: int | None) -> None:
    live, record = yard.ended(command)
    assert (record["ending"], record["returncode"], record["signal"]) == (ending, returncode, signal)
    ended = live.event("ended")
    assert (ended["returncode"], ended["signal"]) == (returncode, signal)
    assert live.process.returncode == returncode
    assert record["first_step_s"] is None
    assert record["left"] == []


@pytest.mark.parametrize("started", ["as a module", "as a copy elsewhere"])
def test_the_directory_is_a_program(yard: Any, tmp_path: Path, started: str) -> None:
    live = yard.make("exit 3")
    here = Path(runner.__file__).parent
    if started == "as a module":
        argv = ["-m", "autoresearch.runner"]
    else:  # as on a remote host: nothing but this directory, under any name
        shutil.copytree(here, tmp_path / "far" / "ar_runner", ignore=shutil.ignore_patterns("__pycache__"))
        argv = ["-S", "-E", "-s", str(tmp_path / "far" / "ar_runner")]
    yard.launch(live, argv=[sys.executable, *argv, str(live.dir)], env={"PYTHONPATH": str(here.parents[1])})
    assert live.record()["returncode"] == 3


@pytest.mark.parametrize(
    ("changes", "environment", "cause"),
    [
        ({"cwd": "/no/such/place"}, None, "bad_cwd"),
        ({}, "PATH=/nowhere\0", "exec_failed"),
        ({"prepare": ["true", "echo nearly; exit 9"]}, None, "prepare_failed"),
        ({"signals": [{"kind": "step", "pattern": "(", "hold_s": 0}]}, None, "bad_pattern"),
        ({"gpus": ["MIG-1"]}, "AUTORESEARCH_GPU_LEASES=/proc/none\0", "lease_failed"),
        ({"gpus": ["1"]}, None, "no_gpu"),
        ({"command": "true " + "x" * 200_000}, None, "exec_failed"),
    ],
)
def test_launch_failures_have_a_cause(yard: Any, changes: dict[str, Any], environment: str | None, cause: str) -> None:
    live = yard.make(**({"command": "touch started"} | changes))
    if environment:
        (live.dir / "environment").write_text(environment)
    record = yard.launch(live).record()
    assert (record["ending"], record["cause"], record["returncode"]) == ("launch_failed", cause, None)
    assert record["reason"].endswith("exited with 9: nearly") is (cause == "prepare_failed")
    assert record["reason"]
    assert live.event("launch_failed")["cause"] == cause
    assert not (yard.root / "started").exists()
    assert "started" not in live.names()


def test_the_log_holds_both_streams_in_order_and_what_was_run(yard: Any) -> None:
    prepare, cleanup = ["echo prepared"], ["echo cleaned; exit 3", "echo again"]
    live, record = yard.ended("echo out; echo err >&2; echo out", prepare=prepare, cleanup=cleanup)
    assert live.log().decode().splitlines() == [
        *["$ echo prepared", "prepared", "out", "err", "out"],
        *["$ echo cleaned; exit 3", "cleaned", "$ echo again", "again"],
    ]
    assert record["log_bytes"] == len(live.log())
    assert [c["returncode"] for c in record["cleanup"]] == [3, 0]
    assert record["ending"] == "finished"
    assert live.names() == ["prepared", "started", "ended", "cleaned", "recorded"]


def test_cleanup_follows_a_failed_launch_and_is_bounded(yard: Any) -> None:
    cleanup = ["echo first", "(setsid sleep 1000 &) ; sleep 1000", "echo never"]
    live, record = yard.ended("x", cwd="/no/such/place", cleanup=cleanup, cleanup_s=5.0)
    assert record["ending"] == "launch_failed"
    assert [c["returncode"] for c in record["cleanup"]] == [0, None, None]
    assert b"\nnever" not in live.log()
    assert live.marked() == []


def test_python_prints_at_once(yard: Any, until: Any) -> None:
    """Block-buffered output would show the first step only at the end."""
    program = "import time; print('step:1 - actor/kl_loss:0.5'); time.sleep(1000)"
    live = yard.start(f'{sys.executable} -S -c "{program}"')
    assert live.event("first_step")["kl"] == 0.5
    live.ask_to_stop(reason="seen")
    assert live.record()["ending"] == "stopped"


def test_the_environment_is_read_once_and_completed(yard: Any) -> None:
    live = yard.make("env -0 > seen", interpreter=sys.executable)
    path = live.dir / "environment"
    path.write_bytes(b"SECRET=a=b\nc\0PATH=" + os.environ["PATH"].encode() + b"\0TMUX=x,1,0\0EMPTY=\0")
    yard.launch(live).record()
    assert not path.exists()
    raw = (yard.root / "seen").read_bytes().split(b"\0")
    seen = dict(item.split(b"=", 1) for item in raw if item)
    assert seen[b"SECRET"] == b"a=b\nc"
    assert seen[b"EMPTY"] == b""
    assert b"TMUX" not in seen and b"HOME" not in seen
    assert seen[b"PYTHONUNBUFFERED"] == b"1"
    assert seen[b"AUTORESEARCH_RUN_ID"].decode() == live.run
    assert seen[b"AUTORESEARCH_RUN_DIR"].decode() == str(live.dir)
    assert seen[b"AUTORESEARCH_RESULT_DIR"].decode() == str(live.dir)
    assert seen[b"PATH"].decode().split(":")[:2] == [f"{live.dir}/shims", os.path.dirname(sys.executable)]
    assert b"SECRET" not in live.log()


def test_an_interpreter_that_was_found_is_active(yard: Any) -> None:
    bin_dir = yard.root / "env" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir.parent / "pyvenv.cfg").touch()
    command = f'[ "$VIRTUAL_ENV" = {bin_dir.parent} ] && [[ $PATH == */shims:{bin_dir}:* ]] && [ -z "$CONDA_PREFIX" ]'
    _, record = yard.ended(command, interpreter=str(bin_dir / "python"))
    assert record["returncode"] == 0


def test_the_environment_of_the_shell_stays_as_it_is(yard: Any) -> None:
    """`python` means the interpreter there: neither PATH nor what names the environment changes."""
    first, second = yard.root / "cuda" / "bin", yard.root / "env" / "bin"
    for folder in (first, second):
        folder.mkdir(parents=True)
    (second / "python").touch(0o755)
    path = f"{first}:{second}:{os.environ['PATH']}"
    command = f'[ "${{PATH#*/shims:}} $CONDA_PREFIX $VIRTUAL_ENV" = "{path} /x /y" ]'
    live = yard.make(command, interpreter=str(second / "python"))
    given = {"PATH": path, "CONDA_PREFIX": "/x", "VIRTUAL_ENV": "/y"}
    (live.dir / "environment").write_bytes(b"".join(os.fsencode(f"{name}={value}\0") for name, value in given.items()))
    assert yard.launch(live).record()["returncode"] == 0


def test_the_trainer_gets_default_signals_no_input_and_a_session(yard: Any) -> None:
    command = "grep -E 'SigIgn|SigBlk' /proc/self/status; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l"
    live, _ = yard.ended(command + "; ps -o sid= -p $$; echo $$")
    ignored, blocked, stdin, descriptors, session, pid = (live.log().decode().split("\n"))[:6]
    ours = 0x7FFFFFFF  # signals 1 to 31; 32 and 33 are libc's own
    assert int(ignored.split()[1], 16) & ours == int(blocked.split()[1], 16) & ours == 0
    assert stdin == "/dev/null"
    assert int(descriptors) <= 4  # 0, 1, 2 and the listing's own
    assert session.strip() == pid


def test_a_second_runner_is_refused_and_touches_nothing(yard: Any) -> None:
    first = yard.start("sleep 1000")
    first.event("started")
    before = (first.dir / "runner.json").read_bytes()
    (first.dir / "environment").write_bytes(b"A=1\0")
    process = first.process
    second = yard.launch(first)
    assert second.process.wait(120) == 5
    assert b"Another Runner" in (first.dir / "stderr").read_bytes()
    assert (first.dir / "environment").exists()
    assert (first.dir / "runner.json").read_bytes() == before
    assert first.names().count("started") == 1
    process.terminate()
    process.wait(120)


def test_a_run_that_is_over_is_not_run_again(yard: Any) -> None:
    live, record = yard.ended("echo x >> times")
    assert yard.launch(live).process.wait(120) == 5
    assert live.record() == record
    assert (yard.root / "times").read_text() == "x\n"


def test_no_spec_is_one_sentence(yard: Any) -> None:
    live = yard.make("true")
    (live.dir / "spec.json").write_text("{")
    assert yard.launch(live).process.wait(120) == 4
    assert b"spec.json" in (live.dir / "stderr").read_bytes()


def test_who_runs_is_recorded_and_the_lock_beats(yard: Any, until: Any) -> None:
    live = yard.start("sleep 1000", patch="loop.PULSE_S = 0.1")
    pid = live.event("started")["pid"]
    who = json.loads((live.dir / "runner.json").read_bytes())
    assert (who["pid"], who["trainer_pid"]) == (live.process.pid, pid)
    assert who["start_ticks"] == processes.start_ticks(live.process.pid)
    assert who["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    lock = live.dir / "lock"
    with lock.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.utime(lock, (0, 0))
    until(lambda: lock.stat().st_mtime > 1)
    live.process.terminate()
    live.record()
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_the_journal_has_a_line_for_every_event(yard: Any) -> None:
    live, _ = yard.ended("echo 'step:1 - actor/kl_loss:0.0003'")
    lines = (live.dir / "experiment_log.md").read_text().splitlines()
    assert len(lines) == len(live.events())
    (first,) = [line for line in lines if "first step" in line]
    assert first.startswith("- 20")
    assert first.endswith("s first step: step 1, KL 0.0003")


# Random: a kernel short of memory takes pages of zeros back.
BIG = """
import os, time
x = os.urandom(60_000_000)
print("grown", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def test_memory_of_the_tree_is_measured(yard: Any, until: Any) -> None:
    (yard.root / "big.py").write_text(BIG)
    child = f"{sys.executable} -S big.py"
    live = yard.start(f"{child} & {child} & wait", patch="loop.PULSE_S = 0.1")
    until(lambda: live.log().count(b"grown") == 2)
    for _ in range(2):  # between two beats it looks at the memory
        before = (live.dir / "lock").stat().st_mtime_ns
        until(lambda before=before: (live.dir / "lock").stat().st_mtime_ns != before)
    (yard.root / "go").touch()
    record = live.record()
    assert 120_000_000 < record["peak_memory_bytes"] < 300_000_000
    assert record["gpu_memory_bytes"] is None


def test_the_collector_is_the_last_act(yard: Any, until: Any) -> None:
    code = (
        "import fcntl, json, os, signal, sys; d = sys.argv[1]; "
        "fcntl.flock(os.open(d + '/lock', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB); "
        "assert os.path.exists(d + '/exit.json') and 'AUTORESEARCH_RUN_ID' not in os.environ; "
        "assert signal.getsignal(signal.SIGHUP) == signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN; "
        "print('collected', os.getpid(), flush=True)"
    )
    live = yard.make("true")
    spec = json.loads((live.dir / "spec.json").read_text())
    spec["collector"] = [sys.executable, "-S", "-c", code, str(live.dir)]
    (live.dir / "spec.json").write_text(json.dumps(spec))
    yard.launch(live, env={RUN_ID: live.run}).record()
    assert (live.dir / "collect.log").read_text() == f"collected {live.process.pid}\n"


@pytest.mark.parametrize("controller", ["collects", "dies", "was stopped", "is elsewhere"])
def test_a_controller_collects_or_else_the_collector(controller: str, yard: Any, until: Any) -> None:
    lock = yard.root / "controller.lock"
    with locked(lock):
        live = yard.start(
            "true",
            patch=f"runner.CONTROLLER_S = {0.2 if controller == 'was stopped' else 9e9}",
            collector=[] if controller == "is elsewhere" else ["/bin/echo", "collected"],
            controller=str(lock),
        )
        until(lambda: (live.dir / "exit.json").exists() and not is_locked(live.dir / "lock"))
        if controller == "collects":
            (live.dir / "collected.json").touch()
        if controller != "dies":
            live.record()
    live.record()
    assert (live.dir / "collect.log").exists() is (controller in ("dies", "was stopped"))


def test_a_collector_that_cannot_start_is_an_event(yard: Any) -> None:
    live, record = yard.ended("true", collector=["/no/such/python"])
    assert record["ending"] == "finished"
    assert "warning" in live.names()
    assert live.process.returncode == 0


def test_what_is_started_may_be_another_command_that_starts_the_trainer(yard: Any) -> None:
    live, record = yard.ended("exit 9", start="echo in its place; exit 5")
    assert record["returncode"] == 5
    assert live.log() == b"in its place\n"
    assert yard.ended("exit 9", start="")[1]["returncode"] == 9


def test_an_error_with_a_word_of_its_own_says_more_than_the_first_one(yard: Any) -> None:
    bare = {"kind": "error", "pattern": "^Traceback"}
    named = {"kind": "error", "pattern": r"^error (?P<kind>\w+): (?P<text>.*)"}
    _, record = yard.ended("echo Traceback; echo error boot_failed: no verl; exit 3", signals=[bare, named])
    assert (record["error_kind"], record["error"]) == ("boot_failed", "no verl")
    _, record = yard.ended("echo error first: a; echo Traceback; exit 3", signals=[bare, named])
    assert (record["error_kind"], record["error"]) == ("first", "a")
    _, record = yard.ended("echo Traceback; exit 3", signals=[bare, named])
    assert (record["error_kind"], record["error"]) == ("", "Traceback")
