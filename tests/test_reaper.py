"""The fixtures of conftest.py are seen to work: what a test leaves behind is ended, and fails it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import is_dead

MARKED = "import pytest, signal, subprocess as s, sys, time\npytestmark = pytest.mark.system\n"
LEAVES = MARKED + "def test_it(tmp_path, reaper):\n"
SETSID = "    s.run(['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 & echo $! > %s'])\n"
ID = f"x-{uuid.uuid4().hex}"  # another suite on this machine ends what carries its ids
BARE = f"    s.run(['sh', '-c', 'env -i AUTORESEARCH_RUN_ID={ID} setsid sleep 1000 >/dev/null 2>&1 & echo $! > %s'])\n"
SPEC = f"    (tmp_path / 'spec.json').write_text('{{\"run\": \"{ID}\"}}')\n"
PANE = (
    "    socket = str(tmp_path / 's')\n"
    "    keep = ['set-option', '-w', 'remain-on-exit', 'on']\n"
    "    s.run(['tmux', '-S', socket, 'new-session', '-d', 'true', 'x', ';', *keep])\n"
    "    s.run(['sh', '-c', 'tmux -S %%s display-message -p \"#{pid}\" > %s' %% socket])\n"
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null")


def write_here(folder: Path, body: str, more: str = "") -> None:
    """A test of its own with the fixtures of this suite."""
    (folder / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text() + more)
    (folder / "test_small.py").write_text(body)


def run_here(folder: Path, body: str, more: str = "") -> subprocess.CompletedProcess[str]:
    write_here(folder, body, more)
    return subprocess.run([*PYTEST, "--rootdir", folder, folder], capture_output=True, text=True, check=False)


@pytest.mark.system
@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (LEAVES + "    pass\n", True),
        (LEAVES + SETSID, False),
        (LEAVES + SPEC + BARE, False),  # our mark is not in its environment, but the run's id is
        (LEAVES + SETSID + "    assert len(reaper.sweep()) == 1\n", True),  # left on purpose, and ended
        (LEAVES + PANE, True),  # a tmux server with a dead pane is no leak, and does not stay
    ],
    ids=["nothing", "a daemon", "a run", "swept", "a server"],
)
def test_what_a_test_leaves_is_ended(
    body: str, passes: bool, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    impatient = "" if passes else "import tests.reaper\ntests.reaper.PATIENCE_S = 0.3\n"  # it would wait for nothing
    pid_file = tmp_path / "pid"
    said = run_here(tmp_path, body % pid_file if "%s" in body else body, impatient)
    assert said.returncode == (0 if passes else 1), said.stdout
    assert ("processes were left behind" in said.stdout) is not passes
    if pid_file.exists():
        pid = int(pid_file.read_text())
        eventually(lambda: is_dead(pid))


INTERRUPTED = (
    LEAVES
    + SETSID
    + PANE
    + "    (tmp_path / 'big').write_text('x')\n"
    + "    open(%r, 'w').write(str(tmp_path))\n"
    + "    time.sleep(1000)\n"
)


@pytest.mark.system
@pytest.mark.waits
@pytest.mark.parametrize(
    ("how", "workers"), [("ctrl-c", "2"), ("term", "2"), ("kill", "2"), ("parent", "0"), ("kill", "0")]
)
def test_an_interrupted_pytest_leaves_nothing(
    how: str, workers: str, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    daemon, server, place = tmp_path / "daemon", tmp_path / "server", tmp_path / "place"
    write_here(tmp_path, INTERRUPTED % (daemon, server, str(place)))
    argv = [*PYTEST, "-n", workers, "--rootdir", str(tmp_path), str(tmp_path)]
    shell = "trap : INT; " + shlex.join(argv) + " & echo $! > " + str(tmp_path / "pytest") + "; wait"
    started = ["bash", "-c", shell] if how == "parent" else argv
    process = subprocess.Popen(
        started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed_signals
    )
    eventually(lambda: place.exists() and place.read_text())
    pids = [int(daemon.read_text()), int(server.read_text())]
    assert not any(map(is_dead, pids))
    with Path("/proc", str(pids[0]), "environ").open() as file:
        (home,) = [Path(line[5:]) for line in file.read().split("\0") if line.startswith("HOME=")]
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    else:
        process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
    process.wait()
    eventually(lambda: all(map(is_dead, pids)))
    eventually(lambda: not home.parent.exists() and not Path(place.read_text()).parent.exists())


def heed_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup that one, which tells the guard to heed no parent


@pytest.mark.system
def test_nothing_of_the_person_is_in_reach(clean_environment: Path) -> None:
    code = "import os; print(*sorted(k for k in os.environ if k.startswith(('TMUX', 'GIT_', 'XDG_', 'HOME'))))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == [
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "HOME", "TMUX_TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
    ]
    name = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=True).stdout
    assert name == "A Tester\n" and Path.home() == clean_environment
