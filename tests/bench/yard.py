"""Where the benchmarks run: a home, a git identity and a tmux directory of their own, and nothing left behind.

The product is started as a user starts it (`World.begin` is what `autoresearch run --detach` does), so that
what is measured is what is shipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.run.spec import RunSpec
from autoresearch.lab import settings as project
from autoresearch.lab.launch.experiment import begin
from autoresearch.lab.resolve.resolve_run import RunOptions
from autoresearch.records.rundir import RunDir
from tests.bench import published
from tests.processes import is_dead, processes_with
from tests.specs import blueprint_text

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("autoresearch")  # what a user types, as it was installed
MARK = "AUTORESEARCH_BENCH"
TICKS = os.sysconf("SC_CLK_TCK")
_UNWANTED = (
    *("TMUX", "TMUX_PANE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PROMPT_COMMAND"),
    *("CLAUDECODE", "AI_AGENT", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "CURSOR_AGENT", "AGENT"),
)
_UNWANTED_BEGINNINGS = ("AUTORESEARCH_", "GIT_", "XDG_", "CODEX_", "CLAUDE_CODE_", "OPENCODE_")
_GITCONFIG = (
    "[user]\n\tname = Bench\n\temail = bench@example.invalid\n[init]\n\tdefaultBranch = main\n"
    "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
)


@contextlib.contextmanager
def isolated() -> Iterator[Path]:
    """Run the block in an environment of its own; end by pid what it started, remove what it wrote."""
    home = Path(tempfile.mkdtemp(prefix="ar-bench-"))  # short: a Unix socket's path has 107 bytes
    before, tempdir, mark = dict(os.environ), tempfile.tempdir, uuid.uuid4().hex
    for name in before:
        if name in _UNWANTED or name.startswith(_UNWANTED_BEGINNINGS):
            del os.environ[name]
    (home / "gitconfig").write_text(_GITCONFIG)
    (home / "tmp").mkdir()
    os.environ |= {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TMUX_TMPDIR": str(home),
        "AUTORESEARCH_TMUX_SOCKET": str(home / "ours.sock"),
        "AUTORESEARCH_GPU_LEASES": str(home / "gpu"),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(home / "tmp"),
        MARK: mark,
    }
    tempfile.tempdir = str(home / "tmp")
    try:
        yield home
    finally:
        reap(f"{MARK}={mark}")
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = tempdir
        shutil.rmtree(home, ignore_errors=True)


def reap(entry: str) -> None:
    """KILL every process that has this entry in its environment, by pid, until there is none."""
    deadline = time.monotonic() + 20
    while (found := processes_with([entry], "environ")) and time.monotonic() < deadline:
        for pid in found:
            kill(pid)
        time.sleep(0.01)


def kill(pid: int) -> None:
    """KILL, gone or not."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def until(question: Callable[[], object], seconds: float = 60.0, pause: float = 0.005) -> None:
    """Poll for a fact outside of what is measured; a bench that waits in vain is broken."""
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not happen within {seconds} s")
        time.sleep(pause)


def cpu_ms(pid: int, *, children: bool = False) -> float:
    """CPU time of a process, and of its children that it waited for; 0.0 where it is gone.

    schedstat counts nanoseconds where stat counts ticks of 10 ms; it knows nothing of children.
    """
    try:
        own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
        if not children:
            return own
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return own + (int(fields[13]) + int(fields[14])) * 1000 / TICKS
    except OSError:
        return 0.0


def start_ms() -> float:
    """Milliseconds of a start of Python with argparse and json, in which goals are counted."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", published.SMALL_PROGRAM, "--json"], capture_output=True, check=True)
    return 1000 * (time.monotonic() - began)


def spent_ms(argv: Sequence[str]) -> float:
    """CPU time of a whole process and of all that it waited for; it must succeed."""
    return spent(argv)[0]


def spent(argv: Sequence[str]) -> tuple[float, float]:
    """The same, and its peak of memory in MB."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        assert process.returncode == 0, (argv, told.read().decode(errors="replace"))
    return 1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss / 1024


def memory_mb(pid: int, key: str = "Pss") -> float:
    """Megabytes of a process by its smaps_rollup: `Pss` shares common pages out, `Rss` does not."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(key)


@dataclass(frozen=True)
class Tmux:
    """A private tmux server for the published way of doing things."""

    socket: str

    def __call__(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True)
        return done.stdout.strip()

    def end(self) -> None:
        """End the server, which is the bench's own."""
        self("kill-server")


@contextlib.contextmanager
def private_tmux(home: Path) -> Iterator[Tmux]:
    """A server of the block's own, with one session that stays: without any, it would end."""
    server = Tmux(str(home / f"t{uuid.uuid4().hex[:6]}"))
    try:
        server("new-session", "-d", "-s", "stays")
        yield server
    finally:
        server.end()


FILES = 10_000


def fill(root: Path, files: int = FILES) -> None:
    """Put so many small files there."""
    for number in range(files):
        path = root / f"package{number // (files // 100)}/{'deep/' if number % 2 else ''}module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 20)


@dataclass
class World:
    """A repository and the runs that are launched from it, in one place of the bench's own."""

    place: Path
    runs: list[RunSpec] = field(default_factory=list)

    @classmethod
    def make(cls, place: Path, fill: Callable[[Path], None] | None = None) -> World:
        """A repository with one commit; `fill` may put more files there first."""
        repo = place / "repo"
        repo.mkdir(parents=True)
        (repo / "train.py").write_text("print('train')\n")
        if fill:
            fill(repo)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
            subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True)
        return cls(place)

    @property
    def repo(self) -> Path:
        return self.place / "repo"

    def blueprint(self, name: str, command: str) -> Path:
        """A blueprint beside the repository that runs this command in it."""
        path = self.place / f"{name}.md"
        results = self.place / "results" / name
        limits = {"max_time": "24 hours", "first_step": "12 hours"}
        path.write_text(
            blueprint_text(title=name, codebase=str(self.repo), command=command, result_dir=str(results), **limits)
        )
        return path

    def searched(self, name: str, command: str) -> Path:
        """A blueprint with a recipe of one number, which a campaign can vary; commits what lies there."""
        (self.repo / "recipe.yaml").write_text("level: 0\n")
        for words in (["add", "-A"], ["commit", "-qm", "recipe"]):
            subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True)
        path = self.blueprint(name, command)
        path.write_text(path.read_text().replace("- path: NA", f"- path: {self.repo}/recipe.yaml"))
        return path

    def begin(self, path: Path, **flags: str) -> RunSpec:
        """What `autoresearch run --detach` does."""
        settings = project.load(path.parent, environ=os.environ, flags=flags)
        spec = begin(path, RunOptions(settings, real_parts())).launched.spec
        self.runs.append(spec)
        return spec

    def run(self, name: str, command: str, **flags: str) -> RunDir:
        """Launch a command; its run directory."""
        return RunDir(Path(self.begin(self.blueprint(name, command), **flags).run_dir))


def runner_pid(rundir: RunDir) -> int:
    """The pid that the Runner wrote down."""
    until(rundir.runner.exists)
    return int(json.loads(rundir.runner.read_bytes())["pid"])


def ask_to_stop(rundir: RunDir) -> None:
    """A stop request, put there as `autoresearch stop` puts it."""
    temporary = rundir.path / ".stop.bench"
    temporary.write_text(json.dumps({"how": "now", "reason": "the benchmark is over"}))
    temporary.rename(rundir.stop)


def end_run(rundir: RunDir) -> None:
    """Stop a run and wait for the end of its Runner and its collector."""
    pid = runner_pid(rundir)
    ask_to_stop(rundir)
    until(rundir.exit_record.exists)
    until(lambda: is_dead(pid))


def python(code: str, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A Python process that runs this code and whose stdout is a pipe of lines."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(env or {})},
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
