"""What a dead Runner left alive is ended, and nothing that is anybody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoresearch.lab.runs.processes import sweep_companions

COMPANION = Path(__file__).parents[1] / "nasty" / "companion.py"
PATTERN = "saved_experiments/companion_logs/companion/*.pgid"
RUN = "ours-7k2m9x"
Eventually = Callable[[Callable[[], object]], None]


def living(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def bystanders() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a test starts itself: ended when it is over."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def companion(tmp_path: Path, eventually: Eventually) -> tuple[str, Path]:
    """A daemon of three processes, orphaned and without our mark, and the file in which it stands."""
    token = f"companion-{time.monotonic_ns()}"
    subprocess.run([sys.executable, "-S", str(COMPANION), token, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    eventually(lambda: len(living(token)) == 3)
    (file,) = tmp_path.glob(PATTERN)
    return token, file


def written(directory: Path, group: int, *, host: str = "", age_s: float = 0.0) -> Path:
    path = directory / f"ray_service.9f8e7d6c.{host or os.uname().nodename}.pgid"
    path.write_text(str(group))
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def bystander(started: list[subprocess.Popen[bytes]], **env: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
    started.append(subprocess.Popen(argv, start_new_session=True, env={**os.environ, **env}))
    return started[-1]


@pytest.mark.system
def test_a_daemon_ends_with_all_that_is_below_and_beside_it(companion: tuple[str, Path]) -> None:
    token, file = companion
    assert sweep_companions([file], RUN, time.time() - 60, grace_s=10.0) == 3
    assert living(token) == []


@pytest.mark.system
def test_its_group_alone_is_enough(tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]) -> None:
    """Older trees give it no mark."""
    process = bystander(bystanders)
    assert sweep_companions([written(tmp_path, process.pid)], RUN, time.time() - 60, grace_s=10.0) == 1
    assert process.wait() == -signal.SIGTERM


@pytest.mark.system
def test_one_that_was_there_before_the_run_is_spared(companion: tuple[str, Path]) -> None:
    """The launcher found it alive, and used it."""
    token, file = companion
    assert sweep_companions([file], RUN, time.time() + 60, grace_s=0.1) == 0
    os.utime(file, (time.time() + 120, time.time() + 120))
    assert sweep_companions([file], RUN, time.time() + 60, grace_s=0.1) == 0
    assert len(living(token)) == 3
    for process in living(token):
        process.kill()


@pytest.mark.system
def test_a_number_that_somebody_else_has_now_and_another_machine_s_are_spared(
    tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]
) -> None:
    process = bystander(bystanders)
    for file in (written(tmp_path, process.pid, age_s=100), written(tmp_path, process.pid, host="elsewhere.example")):
        assert sweep_companions([file], RUN, time.time() - 1000, grace_s=0.1) == 0
    assert process.poll() is None


@pytest.mark.system
def test_another_run_s_is_spared_with_what_is_below_it(
    tmp_path: Path, bystanders: list[subprocess.Popen[bytes]], eventually: Eventually
) -> None:
    """A later run in the same directory wrote its own number into the file."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(1000)'], "
    code += "env={'ScriptHash': '9f8e7d6c', 'AUTORESEARCH_TEST': sys.argv[1]}, start_new_session=True)"
    argv = [sys.executable, "-S", "-c", code, os.environ["AUTORESEARCH_TEST"]]
    runner = subprocess.Popen(argv, env={**os.environ, "AUTORESEARCH_RUN_ID": "another"}, start_new_session=True)
    bystanders.append(runner)
    eventually(lambda: psutil.Process(runner.pid).children())
    (child,) = psutil.Process(runner.pid).children()
    eventually(lambda: child.environ().get("ScriptHash"))
    for group in (child.pid, runner.pid):
        assert sweep_companions([written(tmp_path, group)], RUN, time.time() - 60, grace_s=0.1) == 0
    assert runner.poll() is None
    assert child.is_running()
    child.kill()


def test_files_that_say_nothing(tmp_path: Path) -> None:
    odd = tmp_path / "odd.pgid"
    odd.write_text("none\n")
    empty = written(tmp_path, 0)
    empty.write_text("")
    assert sweep_companions([odd, empty, tmp_path / "missing.pgid"], RUN, time.time() - 60, grace_s=0.1) == 0
    assert sweep_companions([], RUN, 0.0, grace_s=0.1) == 0
