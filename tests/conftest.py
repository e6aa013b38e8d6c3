"""What every test stands on: a home, a git identity and a tmux server of its own, and nothing left behind.

Each test gets an environment without traces of the person, agent or run that started pytest. A mark
in it, inherited by all that the test starts, lets the reaper find what is left: it is ended by pid,
and the test fails. A tmux server with sessions in it is not a leak (the product never ends a server);
it is ended without a word. A pytest that is interrupted has a guard that does the same (reaper.py).

The tiers, by mark (`make test`, `make test-all`, `make test-real`; docs/tests.md):
no mark: starts no process, which is checked here. smoke: end to end, few, in `make test` too.
system: needs Python, git and tmux. real: needs more.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest

import tests.reaper
from tests.reaper import MARK, Reaper, homes, living, new_mark, start_guard
from tests.waiting import until

pytest_plugins = [
    "tests.agents.plugin",  # a scripted model, and real agents that talk to it
    "tests.engines.kubernetes.plugin",  # an API server for the real kubectl
    "tests.engines.slurm.plugin",  # a real Slurm
    "tests.far.plugin",  # what every launcher must do, and a small one
    "tests.engines.ssh",  # real sshds, links that can be cut
    "tests.engines.ray.plugin",  # a Ray of the tests' own, and a server that answers like one
    "tests.hook",  # a web hook on loopback
]

_UNWANTED = (
    *("TMUX", "TMUX_PANE", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "FORCE_COLOR", "COLUMNS"),
    "PYTEST_ADDOPTS",
    *("PYTHONDONTWRITEBYTECODE", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"),
    *("CLAUDECODE", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "CURSOR_AGENT", "AI_AGENT", "AGENT"),
)
_UNWANTED_BEGINNINGS = ("AUTORESEARCH_", "GIT_", "CODEX_", "CLAUDE_CODE_", "OPENCODE_", "XDG_")
for _name in list(os.environ):
    if _name in _UNWANTED or (_name.startswith(_UNWANTED_BEGINNINGS) and _name != MARK):
        del os.environ[_name]
# Tests type their commands in a shell where our environment is active: most train with the embedded trainer.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
if sys.prefix != sys.base_prefix:
    os.environ["VIRTUAL_ENV"] = sys.prefix
_PROCESS_TIERS = ("smoke", "system", "real")
_STARTS = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"))
_strangers = living()
_started = [0]  # how many processes this pytest has started


def _count_starts(event: str, _: object, starts: frozenset[str] = _STARTS) -> None:
    if event in starts:
        _started[0] += 1


sys.addaudithook(_count_starts)

# Some machines forbid bytecode; without it each pytest rewrites, and each command compiles, all that it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Fourteen thousand tests are half a million objects that stay: no collection of garbage looks at them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


_guard = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker per core, two more per core where processes of other kinds are waited for; none for a single file."""
    if len(config.args) == 1 and ".py" in config.args[0]:
        return 0
    cores = len(os.sched_getaffinity(0))
    return cores if "smoke" in config.option.markexpr else 3 * cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What mostly waits is begun first, then what starts processes; in the same order in every worker."""
    items.sort(key=_order)


def _order(item: pytest.Item) -> tuple[int, Path]:
    marks = {mark.name for mark in item.iter_markers()}
    return 0 if "waits" in marks else 1 if marks & set(_PROCESS_TIERS) else 2, item.path


_HERE = Path(__file__).parent
_WHOLE_FILES = re.compile(r"^pytestmark = .*\b(system|real)\b", re.MULTILINE)


def _has_tests(text: str, tier: str) -> bool:
    """Whether a file may hold tests of a tier: one that cannot need not even be imported, which takes long."""
    if "smoke" in tier:
        return "smoke" in text or not _WHOLE_FILES.search(text)
    return tier != "real" or "mark.real" in text


def _files(config: pytest.Config) -> list[Path]:
    """The files to import, in the order of this worker: each begins elsewhere, so that what one compiled serves all."""
    files = [file for file in sorted(_HERE.rglob("test_*.py")) if _has_tests(file.read_text(), config.option.markexpr)]
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    return files[first:] + files[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if [Path(arg).absolute() for arg in session.config.args] == [_HERE]:
        session.config.args = [str(file) for file in _files(session.config)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if "smoke" in config.option.markexpr:
        terminalreporter.write_line(
            "Not run: tests that start processes (`make test-all`), and those that need more than Python, git and tmux "
            "(`make test-real`)."
        )


def _pass_on_ctrl_c() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)  # still ignored here, but not by children


@pytest.hookimpl(tryfirst=True)  # before workers are started, which inherit the mark
def pytest_sessionstart(session: pytest.Session) -> None:
    _pass_on_ctrl_c()
    if hasattr(session.config, "workerinput"):
        return
    os.environ[MARK] = uuid.uuid4().hex[:8]
    folder = homes()
    assert folder is not None
    folder.mkdir(mode=0o700)
    basetemp = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # as pytest-xdist does
    session.config.stash[_guard] = start_guard(os.environ[MARK], folder, basetemp)


def pytest_keyboard_interrupt() -> None:
    tests.reaper.PATIENCE_S = 0.0  # whoever types Ctrl-C does not wait for what is ended anyway


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    guard = session.config.stash.get(_guard, None)
    if guard is not None and guard.stdin is not None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            guard.stdin.write(b"done")
        guard.stdin.close()


class Home:
    """A directory with nothing but a git configuration in it; one that a test left so serves the next test too."""

    spare: ClassVar[list[Home]] = []

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="", dir=homes()))  # short: a Unix socket's path has 107 bytes
        (self.path / "gitconfig").write_text(
            "[user]\n\tname = A Tester\n\temail = tester@example.invalid\n[init]\n\tdefaultBranch = main\n"
            "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
        )
        self.environment = {
            "HOME": str(self.path),
            "XDG_STATE_HOME": str(self.path / "state"),
            "XDG_CONFIG_HOME": str(self.path / "config"),
            "XDG_CACHE_HOME": str(self.path / "cache"),
            "GIT_CONFIG_GLOBAL": str(self.path / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "TMUX_TMPDIR": str(self.path),  # so that even the default server is the test's own
            "AUTORESEARCH_GPU_LEASES": str(self.path / "gpu"),
            "MPLCONFIGDIR": str(self.path.with_name("fonts")),  # of all tests: each new one lists every font again
        }
        self.before = self._files()

    def _files(self) -> dict[str, int]:
        """Names and times: a directory that is written to within a tick of the clock has the same time as before."""
        return {file.name: file.stat(follow_symlinks=False).st_mtime_ns for file in os.scandir(self.path)}

    def leave(self) -> None:
        if self._files() == self.before:
            self.spare.append(self)
        else:
            shutil.rmtree(self.path, ignore_errors=True)


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[Path]:
    """An own HOME, state directory, git configuration and tmux directory; the person's are out of reach."""
    home = Home.spare.pop() if Home.spare else Home()
    with mock.patch.dict(os.environ, home.environment):
        yield home.path
    home.leave()


@pytest.fixture(autouse=True)
def reaper(clean_environment: Path, request: pytest.FixtureRequest) -> Iterator[Reaper]:
    """Ends what the test left; fails it if that was more than tmux servers with dead panes in them."""
    place = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else clean_environment
    reaper = Reaper(new_mark(), strangers=_strangers)
    os.environ[MARK] = reaper.mark  # until `clean_environment` ends
    before = _started[0]
    yield reaper
    if _started[0] == before:
        return
    reaper.add_runs_below(place)
    left = reaper.left()
    if left:
        reaper.sweep()
    if reaper.end_servers():
        reaper.sweep()  # what a server's end let go of
    if left:
        lines = "\n".join(f"  {process.pid} {process.command[:160]}" for process in left)
        pytest.fail(f"processes were left behind:\n{lines}")
    if not any(request.node.get_closest_marker(tier) for tier in _PROCESS_TIERS):
        pytest.fail("this test starts a process, so it needs a tier: pytest.mark.system, or smoke (see conftest.py)")


@pytest.fixture
def tmux_socket(clean_environment: Path, reaper: Reaper) -> str:
    """The path of a private tmux socket; no server runs there yet, and none will when the test is over."""
    return str(clean_environment / "tmux.sock")


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Wait until something becomes true; for what other processes do, which no clock of ours can move."""
    return until


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
    from autoresearch.lab.agent_work.sandbox import why_not

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
