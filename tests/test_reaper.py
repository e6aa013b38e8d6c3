"""The fixtures of conftest.py are seen to work: what a test leaves behind is ended, and fails it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

LEAVES = "import subprocess as s\ndef test_it(tmp_path, reaper):\n"
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


def lives(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


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
    fixtures = Path(__file__).with_name("conftest.py").read_text()
    impatient = fixtures.replace("PATIENCE_S = 60.0", "PATIENCE_S = 0.3")  # where it would wait for nothing
    assert impatient != fixtures
    (tmp_path / "conftest.py").write_text(fixtures if passes else impatient)
    pid_file = tmp_path / "pid"
    (tmp_path / "test_small.py").write_text(body % pid_file if "%s" in body else body)
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir"]
    said = subprocess.run([*pytest_here, str(tmp_path), str(tmp_path)], capture_output=True, text=True, check=False)
    assert said.returncode == (0 if passes else 1), said.stdout
    assert ("processes were left behind" in said.stdout) is not passes
    if pid_file.exists():
        pid = int(pid_file.read_text())
        eventually(lambda: not lives(pid))


def test_nothing_of_the_person_is_in_reach(clean_environment: Path) -> None:
    code = "import os; print(*sorted(k for k in os.environ if k.startswith(('TMUX', 'GIT_', 'XDG_', 'HOME'))))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == [
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "HOME", "TMUX_TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
    ]
    name = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=True).stdout
    assert name == "A Tester\n" and Path.home() == clean_environment
