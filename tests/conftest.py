"""What every test stands on: a home, a git identity and a tmux server of its own, and nothing left behind.

Each test gets an environment without traces of the person, agent or run that started pytest. A mark
in it, inherited by all that the test starts, lets the reaper find what is left: it is ended by pid,
and the test fails. A tmux server with sessions in it is not a leak (the product never ends a server);
it is ended without a word.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.agents.plugin",  # a scripted model, and real agents that talk to it
    "tests.engines.kubernetes.plugin",  # an API server for the real kubectl
    "tests.engines.slurm.plugin",  # a real Slurm
    "tests.far.plugin",  # what every launcher must do, and a small one
    "tests.engines.ssh",  # real sshds, links that can be cut
    "tests.engines.ray.plugin",  # a Ray of the tests' own, and a server that answers like one
]

MARK = "AUTORESEARCH_TEST"
RUN = "AUTORESEARCH_RUN_ID"
PATIENCE_S = 60.0  # what is ending already may take so long on a loaded machine: a collector is niced
END_S = 60.0  # ... and so long what was killed

_UNWANTED = (
    *("TMUX", "TMUX_PANE", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "FORCE_COLOR", "COLUMNS"),
    "PYTEST_ADDOPTS",
    *("CLAUDECODE", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "CURSOR_AGENT", "AI_AGENT", "AGENT"),
)
_UNWANTED_BEGINNINGS = ("AUTORESEARCH_", "GIT_", "CODEX_", "CLAUDE_CODE_", "OPENCODE_", "XDG_")
_STARTS = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"))
_started = [0]  # how many processes this pytest has started


def _count_starts(event: str, _: object) -> None:
    if event in _STARTS:
        _started[0] += 1


sys.addaudithook(_count_starts)


@dataclass(frozen=True, slots=True)
class Left:
    """A process: pid and start time (clock ticks since boot) together name it for ever."""

    pid: int
    born: str
    command: str = field(compare=False)  # an exec changes it

    @property
    def is_tmux_server(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/comm").read_text().startswith("tmux: server")
        except OSError:
            return False

    def lives(self) -> bool:
        state = _state(self.pid)
        return state is not None and state[1] == self.born and state[0] not in "ZX"

    def end(self) -> None:
        if self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@dataclass(slots=True)
class Reaper:
    """Finds and ends, by pid, the processes that a test started or that carry one of its run ids."""

    mark: str
    runs: set[str] = field(default_factory=set)  # run ids; those in a spec.json of the test are added at its end

    def find(self) -> list[Left]:
        """All that lives now, tmux servers included."""
        wanted = {f"{MARK}={self.mark}", *(f"{RUN}={run}" for run in self.runs)}
        me = os.getpid()
        pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        found = (_carrier(pid, wanted) for pid in pids if pid != me)
        return [process for process in found if process is not None]

    def sweep(self) -> list[Left]:
        """End all but tmux servers, at once; returns what it was, for a test that left it on purpose."""
        swept: list[Left] = []
        deadline = time.monotonic() + END_S
        while processes := [p for p in self.find() if not p.is_tmux_server]:
            swept += [p for p in processes if p not in swept]
            for process in processes:
                process.end()
            assert time.monotonic() < deadline, f"cannot be ended: {processes}"
            time.sleep(0.01)
        return swept

    def end_servers(self) -> None:
        """End this test's own tmux servers, each by its pid. KILL, because on TERM they linger a second."""
        deadline = time.monotonic() + END_S
        while servers := [p for p in self.find() if p.is_tmux_server]:
            assert time.monotonic() < deadline, f"cannot be ended: {servers}"
            for server in servers:
                server.end()
            time.sleep(0.01)

    def left(self) -> list[Left]:
        """What is still there after some patience."""
        deadline = time.monotonic() + PATIENCE_S
        while processes := [p for p in self.find() if not p.is_tmux_server]:
            if time.monotonic() > deadline:
                return processes
            time.sleep(0.05)
        return []


def _run_of(spec: Path) -> str:
    try:
        return str(json.loads(spec.read_bytes())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _state(pid: int) -> tuple[str, str] | None:
    """(state letter, start time), fields 3 and 22 of /proc/PID/stat."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def _carrier(pid: int, wanted: set[str]) -> Left | None:
    place = Path(f"/proc/{pid}")
    deadline = time.monotonic() + 5.0
    try:
        while True:
            environ = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            command = (place / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
            if environ != [""] or not (place / "exe").exists() or time.monotonic() > deadline:
                break
            if command and not (place / "environ").read_bytes():  # it has none, and its exec is over
                break
            time.sleep(0.001)  # in the middle of an exec a process has neither for a moment
    except OSError:  # it is gone, or another user's
        return None
    state = _state(pid)
    if state is None or state[0] in "ZX" or wanted.isdisjoint(environ):
        return None
    return Left(pid, state[1], command)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own HOME, state directory, git configuration and tmux directory; the person's are out of reach."""
    home = Path(tempfile.mkdtemp(prefix="ar-"))  # short: a Unix socket's path has 107 bytes
    for name in list(os.environ):
        if name in _UNWANTED or name.startswith(_UNWANTED_BEGINNINGS):
            monkeypatch.delenv(name)
    (home / "gitconfig").write_text(
        "[user]\n\tname = A Tester\n\temail = tester@example.invalid\n[init]\n\tdefaultBranch = main\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TMUX_TMPDIR", str(home))  # so that even the default server is the test's own
    monkeypatch.setenv("AUTORESEARCH_GPU_LEASES", str(home / "gpu"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def reaper(
    clean_environment: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reaper]:
    """Ends what the test left; fails it if that was more than tmux servers with dead panes in them."""
    place = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else clean_environment
    reaper = Reaper(mark=uuid.uuid4().hex)
    monkeypatch.setenv(MARK, reaper.mark)
    before = _started[0]
    yield reaper
    if _started[0] == before:
        return
    reaper.runs |= {run for spec in place.rglob("spec.json") if (run := _run_of(spec))}
    left = reaper.left()
    reaper.sweep()
    reaper.end_servers()
    reaper.sweep()  # what a server's end let go of
    if left:
        lines = "\n".join(f"  {process.pid} {process.command[:160]}" for process in left)
        pytest.fail(f"processes were left behind:\n{lines}")


@pytest.fixture
def tmux_socket(clean_environment: Path, reaper: Reaper) -> str:
    """The path of a private tmux socket; no server runs there yet, and none will when the test is over."""
    return str(clean_environment / "tmux.sock")


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Wait until something becomes true; for what other processes do, which no clock of ours can move."""

    def wait(true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, "it never became true"
            time.sleep(0.02)

    return wait


class Disks:
    """Small file systems of a test's own, each on a directory."""

    def __init__(self) -> None:
        self.mounted: list[Path] = []

    def __call__(self, place: Path, size: str = "1m") -> Path:
        """Mount one; the test is skipped, with mount's own words, where a container forbids that even to root."""
        place.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True)
        if done.returncode:
            pytest.skip(f"tmpfs cannot be mounted here, so no disk can be filled: {done.stderr.decode().strip()}")
        self.mounted.append(place)
        return place

    def fill(self, place: Path) -> Path:
        """Take every byte that it has left; the file that holds them."""
        rest = place / "rest"
        with rest.open("ab", buffering=0) as file:
            for size in (1 << 16, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    assert error.errno == errno.ENOSPC
        return rest


@pytest.fixture
def disk(reaper: Reaper) -> Iterator[Disks]:
    """Make small file systems; they are unmounted after the test."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting needs root: a full or read-only disk of its own cannot be made by a plain user")
    disks = Disks()
    yield disks
    for place in reversed(disks.mounted):
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def bubblewrap() -> None:
    """For extended tests of what the sandbox prevents: where the kernel grants none, there is nothing to be shown.

    What holds without a sandbox has tests of its own, which run everywhere.
    """
    from autoresearch.lab.research.confine import why_not

    if why := why_not():
        pytest.skip(f"bubblewrap cannot be used here: {why}")


@pytest.fixture
def strace() -> list[str]:
    """The beginning of a command line that traces a program; skipped where there is none, or where it may not."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing, and this fault is injected with it")
    words = ["strace", "-qq", "-o", "/dev/null"]
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be traced here: {done.stderr.decode(errors='replace').strip()}")
    return words
