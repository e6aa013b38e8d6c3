"""Real Runners on real processes, each with a run directory and a run id of its own, none left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import autoresearch.runner
from autoresearch.runner.basics import RUN_ID
from tests.processes import is_dead, processes_with
from tests.waiting import PATIENCE_S, until

RUNNER = Path(autoresearch.runner.__file__).parent
STEP = {
    "kind": "step",
    "pattern": r"(?:^|(?<=[\s\]]))step:(?P<step>\d+) - (?=.*actor/)"
    r"(?:.*?actor/kl_loss:(?:np\.\w+\()?(?P<kl>[-+.\w]+))?",
    "hold_s": 0.0,
    "needles": ["step:"],
}


@dataclass(slots=True)
class Live:
    """A Runner that a test started, and the files that it writes."""

    dir: Path
    run: str
    process: subprocess.Popen[bytes] | None

    def record(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The exit record, once it is there and the Runner is gone."""
        until((self.dir / "exit.json").exists, timeout)
        if self.process:
            self.process.wait(timeout)
        value = json.loads((self.dir / "exit.json").read_bytes())
        assert isinstance(value, dict)
        return value

    def events(self) -> list[dict[str, Any]]:
        """Every event so far."""
        path = self.dir / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n") and line.strip()]

    def names(self) -> list[str]:
        """The names of all events, in order."""
        return [event["event"] for event in self.events()]

    def event(self, name: str) -> dict[str, Any]:
        """The first event of a name, waiting for it."""
        found = until(lambda: [e for e in self.events() if e["event"] == name])
        assert isinstance(found[0], dict)
        return found[0]

    def log(self) -> bytes:
        """What is in run.log."""
        path = self.dir / "run.log"
        return path.read_bytes() if path.exists() else b""

    def marked(self) -> list[int]:
        """Living processes that carry this run's id."""
        return [pid for pid in processes_with([f"{RUN_ID}={self.run}\0"], "environ") if not is_dead(pid)]

    def ask_to_stop(self, **request: str) -> None:
        """Put a stop request there, as the CLI does."""
        (self.dir / "stop.tmp").write_text(json.dumps(request))
        (self.dir / "stop.tmp").rename(self.dir / "stop")


@dataclass(slots=True)
class Yard:
    """Makes run directories and starts Runners in them."""

    root: Path
    live: list[Live] = field(default_factory=list)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def make(self, command: str, **changes: Any) -> Live:
        """A run directory with its spec; `limits` in `changes` are merged with ample defaults."""
        run = f"test-{uuid.uuid4().hex[:10]}"
        self.runs.append(run)
        place = self.root / run
        place.mkdir()
        limits = {"first_step_s": 600.0, "max_s": 600.0, "stall_s": None, "grace_s": 60.0}
        limits |= {"first_step_cap_s": 7200.0, "strict_first_step": False}
        spec: dict[str, Any] = {"run": run, "command": command, "cwd": str(self.root), "signals": [STEP]}
        spec |= {"interpreter": "", "result_dir": str(place), "journal": str(place / "experiment_log.md")}
        spec |= changes | {"limits": limits | changes.get("limits", {})}
        (place / "spec.json").write_text(json.dumps(spec))
        return Live(place, run, None)

    def argv(self, live: Live, patch: str = "") -> list[str]:
        """The command line of a Runner; `patch` changes something in its modules before it starts."""
        alone = [sys.executable, "-S", "-E", "-s"]
        if not patch:
            return [*alone, str(RUNNER), str(live.dir)]
        modules = ", ".join(path.stem for path in RUNNER.glob("[a-z]*.py"))
        code = f"import sys; sys.path.append({str(RUNNER.parent)!r}); from runner import {modules}\n{patch}\n"
        return [*alone, "-c", code + "sys.exit(runner.main(sys.argv[1:]))", str(live.dir)]

    def start(self, command: str, *, patch: str = "", env: dict[str, str] | None = None, **changes: Any) -> Live:
        """Make a run and start its Runner plainly."""
        return self.launch(self.make(command, **changes), patch=patch, env=env)

    def launch(
        self, live: Live, *, argv: list[str] | None = None, patch: str = "", env: dict[str, str] | None = None
    ) -> Live:
        """Start the Runner of a run that was made before."""
        removed = ("PYTHONUNBUFFERED", "TMUX", "TMUX_PANE", RUN_ID)
        base = {key: value for key, value in os.environ.items() if key not in removed}
        with open(live.dir / "stderr", "ab") as out:
            live.process = subprocess.Popen(
                argv or self.argv(live, patch),
                env=base | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.started.append(live.process)
        self.live.append(live)
        return live

    def ended(self, command: str, **changes: Any) -> tuple[Live, dict[str, Any]]:
        """Run to the end; the run and its exit record."""
        live = self.start(command, **changes)
        return live, live.record()

    def reap(self) -> None:
        """End what is left of the runs of this test."""
        for process in self.started:
            process.kill()
            process.wait()
        for pid in processes_with(self.runs, "environ", "cmdline"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A place to run Runners in."""
    made = Yard(tmp_path)
    yield made
    made.reap()


@dataclass(slots=True)
class Tmux:
    """A tmux server of the test's own."""

    socket: str

    def __call__(self, *words: str, check: bool = True) -> str:
        """Run one tmux command; its output."""
        env = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
        argv = ["tmux", "-S", self.socket, "-f", "/dev/null", *words]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=check)
        return done.stdout.strip()

    def session(self, name: str, argv: list[str], *options: str) -> None:
        """Start a session whose pane is this program; another one keeps the server alive."""
        self("new-session", "-d", "-s", "keeper", "--", "sleep", "1000", check=False)
        self("set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "history-limit", "9000")
        self("new-session", "-d", "-s", name, "-x", "100", "-y", "30", *options, "--", *argv)

    def pid(self) -> int:
        """The server's pid."""
        return int(self("display-message", "-p", "#{pid}"))

    def screen(self, name: str) -> str:
        """What the session's pane shows, history included."""
        return self("capture-pane", "-p", "-J", "-S", "-", "-t", f"={name}:", check=False)


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    """A private tmux server, ended afterwards; its socket lies in a short path of its own."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    place = tempfile.mkdtemp(prefix="ajet-test-", dir="/tmp")
    server = Tmux(f"{place}/s")
    yield server
    server("kill-server", check=False)
    shutil.rmtree(place)


@pytest.fixture(name="until")
def _until() -> Callable[..., Any]:
    """For test files, which import nothing from here."""
    return until


@pytest.fixture
def living() -> Callable[[str], list[int]]:
    """Living processes with a word in their arguments, for test files."""

    def find(token: str) -> list[int]:
        return [pid for pid in processes_with([token], "cmdline") if not is_dead(pid)]

    return find


@pytest.fixture
def dead() -> Callable[[int], bool]:
    """Whether a process is a zombie or gone, for test files."""
    return is_dead


@pytest.fixture
def nasty() -> Path:
    """Where the payload scripts are."""
    return Path(__file__).parent.parent / "nasty"
