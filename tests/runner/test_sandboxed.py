"""A trainer within bubblewrap: ended as gently as any other, and with its Runner if that is killed."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab.agent_work.sandbox import Cell, sandbox

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("bubblewrap")]


@pytest.fixture
def inside(tmp_path: Path) -> list[str]:
    """What comes before a command of the trainer's."""
    for name in ("tree", "scratch"):
        (tmp_path / name).mkdir()
    cell = Cell(cwd=tmp_path / "tree", writes=True, scratch=tmp_path / "scratch", home=tmp_path, devices=True)
    return list(sandbox(cell))


def test_it_may_save_before_it_ends(yard: Any, until: Any, inside: list[str]) -> None:
    saves = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    live = yard.start(saves, inside=inside)
    until(lambda: b"ready" in live.log())
    live.ask_to_stop(reason="enough")
    record = live.record()
    assert (record["ending"], record["returncode"]) == ("stopped", 0)
    assert b"saved" in live.log() and not live.marked()


def test_a_deaf_one_is_killed_with_all_that_it_started(yard: Any, until: Any, inside: list[str]) -> None:
    deaf = "trap '' TERM; (setsid sleep 1000 &); echo ready; while :; do sleep 0.05; done"
    live = yard.start(deaf, inside=inside, limits={"grace_s": 0.3})
    until(lambda: b"ready" in live.log())
    live.ask_to_stop(reason="enough")
    assert live.record()["kill_sent"] >= 1
    assert not live.marked()


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_how_it_ended_is_known(yard: Any, inside: list[str], command: str, code: int) -> None:
    assert yard.start(f"echo step:1 - actor/x:1; {command}", inside=inside).record()["returncode"] == code


def test_it_ends_with_its_runner(yard: Any, until: Any, inside: list[str]) -> None:
    live = yard.start("echo ready; exec sleep 1000", inside=inside)
    until(lambda: b"ready" in live.log())
    os.kill(live.process.pid, signal.SIGKILL)
    until(lambda: not live.marked())


def test_what_prepares_and_what_cleans_up_are_inside_too(yard: Any, tmp_path: Path, inside: list[str]) -> None:
    out = tmp_path / "out"
    write = f"echo x > {out}; touch {tmp_path}/tree/made"
    record = yard.start("true", prepare=[f"{write}; true"], cleanup=[f"{write}; true"], inside=inside).record()
    assert record["ending"] == "finished"
    assert not out.exists() and (tmp_path / "tree/made").exists()


def test_a_sandbox_that_cannot_be_made_is_no_success(yard: Any, inside: list[str]) -> None:
    live = yard.start("echo trained", inside=[*inside[:-1], "--bind", "/nonexistent", "/nonexistent", "--"])
    record = live.record()
    assert (record["ending"], record["returncode"]) == ("crashed", 1)
    assert b"bwrap: " in live.log() and b"trained" not in live.log()


def test_threads_can_be_named_and_the_kernel_s_switches_cannot_be_set(yard: Any, inside: list[str]) -> None:
    """CUDA does not start where /proc/self/task/*/comm cannot be written. Nothing is set, only opened."""
    code = (
        "import os, pathlib, threading\n"
        "task = pathlib.Path('/proc/self/task')\n"
        "named = lambda: (task / str(threading.get_native_id()) / 'comm').write_text('cuda-named')\n"
        "thread = threading.Thread(target=named); thread.start(); thread.join()\n"
        "named(); print('name:', (task / str(os.getpid()) / 'comm').read_text())\n"
        "for folder, folders, files in os.walk('/proc'):\n"
        "    folders[:] = [f for f in folders if not f.isdigit()]\n"
        "    for path in (os.path.join(folder, file) for file in files):\n"
        "        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); print('open:', path)\n"
        "        except OSError: pass\n"
    )
    live = yard.start(shlex.join([sys.executable, "-c", code]), inside=inside)
    assert live.record()["returncode"] == 0
    assert b"name: cuda-named" in live.log() and b"open:" not in live.log() and b"Error" not in live.log()


KEYS = """
import ctypes
call = ctypes.CDLL(None).syscall
add, keyctl = {"x86_64": (248, 250)}.get(__import__("platform").machine(), (217, 219))
"""
SESSION = -3  # KEY_SPEC_SESSION_KEYRING, keyctl(2)


def test_the_keys_of_the_session_are_not_there(yard: Any, inside: list[str], tmp_path: Path) -> None:
    """A key is put into a session's keyring, the Runner is started in it, and the run looks for that key."""
    look = f"{KEYS}print('found', call(keyctl, 10, {SESSION}, b'user', b'of-the-session', 0) > 0, flush=True)"
    python = [sys.executable, "-c"]
    for sandboxed, found in (([], b"found True"), (inside, b"found False")):
        put = f"{KEYS}assert call(keyctl, 1, 0) > 0 and call(add, b'user', b'of-the-session', b'x', 1, {SESSION}) > 0\n"
        live = yard.start(shlex.join([*python, look]), inside=sandboxed, patch=put)
        assert live.record()["ending"] == "finished" and found in live.log()


def test_a_run_that_stops_the_first_process_of_its_sandbox_ends(yard: Any, inside: list[str]) -> None:
    attach = "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0; print('attached', flush=True)"
    live = yard.start(shlex.join([sys.executable, "-c", attach]), inside=inside, patch="loop.PULSE_S = 0.1")
    assert live.record()["ending"] == "finished" and b"attached" in live.log()
