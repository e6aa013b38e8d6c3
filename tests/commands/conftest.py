"""A bench for the whole command: a repository, a private tmux server, an index of its own, real processes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

REPO = Path(__file__).parents[2]
PATIENCE_S = 240.0  # for what other processes do; far more than a loaded machine needs

TRAINER = """
import os, signal, subprocess, sys, time
mode = sys.argv[1] if len(sys.argv) > 1 else "ok"
def step(n, extra=""):
    print(f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}{extra}", flush=True)
def validation(n, rate):
    print(f"step:{n} - global_steps:{n} - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
print("hello from the trainer", os.getpid(), flush=True)
if mode == "fail_early":
    raise RuntimeError("the data set is gone")
if mode == "silent":
    time.sleep(600)
validation(0, 0.1)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode in ("tree", "stubborn"):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
step(1)
if mode == "oom":
    raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
if mode in ("long", "tree", "stubborn"):
    for n in range(2, 6000):
        time.sleep(0.1)
        step(n)
if mode == "hang":
    time.sleep(600)
if mode == "kill":
    os.kill(os.getpid(), 9)
step(2)
validation(2, 0.5)
if mode == "no_metric":
    pass
if mode.startswith("rc"):
    sys.exit(int(mode[2:]))
"""
PRELUDE = """
import os, signal, subprocess, sys, time
def step(n, reward="0.5", kl="0.001"):
    print(f"step:{n} - actor/kl_loss:{kl} - actor/pg_loss:0.1 - critic/rewards/mean:{reward}", flush=True)
def validation(n, rate):
    print(f"step:{n} - global_steps:{n} - total_tasks:4 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
"""

BLUEPRINT = """# {title}

## [exp_purpose]
- description: {purpose}

## [exp_codebase_dir]
- dir: {codebase}

## [exp_venv_exe]
- path: {python}

## [exp_yaml_path]
- path: NA

## [exp_launch_command]
```bash
{command}
```

## [exp_result_dir]
- dir: {result_dir}

## [exp_max_time]
- time: {max_time} in all, {first_step} to the first step

## Other Notes
- trainer: {trainer}
- metric: task_pass_rate@1
- direction: maximize
{notes}
"""


@dataclass
class Bench:
    """One isolated user: home, state, tmux server, repository."""

    root: Path
    repo: Path
    socket: Path
    env: dict[str, str]
    reaper: Any  # finds what lives of this test, by its mark
    spawned: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def blueprint(self, mode: str = "ok", *, name: str = "exp.md", **values: str) -> Path:
        """Write a blueprint that runs the little trainer in a mode."""
        given = {
            "title": f"Try {mode}",
            "purpose": f"See what {mode} does.",
            "codebase": str(self.repo),
            "python": sys.executable,
            "command": f"python trainer.py {mode}",
            "result_dir": str(self.root / "results"),
            "max_time": "10 minutes",
            "first_step": "5 minutes",
            "trainer": "verl",
            "notes": "",
            **values,
        }
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BLUEPRINT.format(**given), encoding="utf-8")
        return path

    def cli(self, *args: object, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "autoresearch", *map(str, args)],
            env={**self.env, **env},
            cwd=self.repo,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
        if check is not None:
            assert done.returncode == check, f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *args: object, check: int | None = 0, **env: str) -> dict[str, Any]:
        """The JSON object of a command."""
        done = self.cli(*args, "--json", check=check, **env)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        assert len(lines) == 1, done.stdout + done.stderr
        return dict(json.loads(lines[0]))

    def here(self, *args: object, **env: str) -> tuple[int, str, str]:
        """The same front door in this process: (exit code, stdout, stderr), without a second of imports.

        What it launches (tmux, Runner, collector) are processes as ever.
        """
        from autoresearch import cli

        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, {**self.env, **env}, clear=True),
            contextlib.chdir(self.repo),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.run([str(a) for a in args])
        return code, out.getvalue(), err.getvalue()

    def ask(self, *args: object, check: int | None = 0, **env: str) -> dict[str, Any]:
        """`json`, by way of `here`."""
        code, out, err = self.here(*args, "--json", **env)
        assert check is None or code == check, f"rc {code}\n{out}\n{err}"
        lines = [line for line in out.splitlines() if line.strip()]
        assert len(lines) == 1, out + err
        payload = json.loads(lines[0])
        assert isinstance(payload, dict)
        return payload

    def script(self, text: str, **values: str) -> Path:
        """A blueprint that runs a trainer of the test's own, in Python; its first step is printed for it."""
        name = values.setdefault("title", "Try odd").split()[-1]
        (self.repo / f"{name}.py").write_text(PRELUDE + textwrap.dedent(text))
        values.setdefault("command", f"python {name}.py")
        values.setdefault("result_dir", str(self.root / f"results-{name}"))
        return self.blueprint(name, name=f"{name}.md", **values)

    def picture(self, *without: str) -> dict[str, bytes | str]:
        """Every file below this bench's root and what is in it, to be compared with a later one."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if not any(part in name for part in without):
                found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        return found

    def settled(self, payload: dict[str, Any], ending: str) -> dict[str, Any]:
        """Assert what holds after every fault: no process, one row, one flag, the true ending; gives the flag."""
        self.until(lambda: not self.carriers())
        with open(payload["ledger"], encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        assert [r["ending"] for r in rows if r["run_id"] == payload["run"]] == [ending]
        flags = [json.loads(p.read_text()) for p in Path(payload["result_dir"]).rglob("finish.flag")]
        (flag,) = [f for f in flags if f["run"] == payload["run"]]
        assert flag["ending"] == ending
        assert payload["run"] not in [r["run"] for r in self.ask("status")["runs"]]
        return dict(flag)

    def spawn(
        self, *args: object, stdout: int = subprocess.DEVNULL, patch: str = "", **env: str
    ) -> subprocess.Popen[bytes]:
        """Start the command and leave it running; whatever the test does, it is waited for at its end.

        `patch` changes something in its modules before it starts.
        """
        program = ["-c", f"{patch}\nfrom autoresearch.cli import main; main()"] if patch else ["-m", "autoresearch"]
        process = subprocess.Popen(
            [sys.executable, *program, *map(str, args)],
            env={**self.env, **env},
            cwd=self.repo,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        self.spawned.append(process)
        return process

    def answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """What a command printed that was spawned with `--json` and a pipe."""
        return dict(json.loads(process.communicate(timeout=PATIENCE_S)[0]))

    def reap(self) -> None:
        """End and wait for what was spawned; the test is to blame if any of it was still running."""
        left = [process for process in self.spawned if process.poll() is None]
        for process in left:
            process.kill()
        for process in self.spawned:
            process.wait()
            if process.stdout:
                process.stdout.close()
        assert not left, [process.args for process in left]

    def runner(self, run_dir: object) -> dict[str, Any]:
        """What runner.json says of a run once its trainer runs; neither is there as soon as the run is listed."""
        path = Path(str(run_dir)) / "runner.json"

        def told() -> dict[str, Any]:
            value = json.loads(path.read_bytes()) if path.exists() else {}
            return dict(value) if value.get("trainer_pid") else {}

        return dict(self.until(told))

    def event(self, run_dir: object, name: str) -> None:
        """Wait until the Runner has told of something."""
        path = Path(str(run_dir)) / "events.jsonl"
        self.until(lambda: path.exists() and f'"event": "{name}"' in path.read_text())

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE_S) -> Any:
        """Poll for a fact; what it waits for is an event of another process, not the passing of time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"never became true: {condition}")

    def git(self, *args: str) -> str:
        """Run git in the repository."""
        done = subprocess.run(["git", *args], cwd=self.repo, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def tmux(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run tmux on the private server."""
        return subprocess.run(["tmux", "-S", str(self.socket), *args], env=self.env, capture_output=True, text=True)

    def carriers(self) -> list[Any]:
        """Living processes that belong to any run of this bench, those in the middle of an exec included."""
        return [process for process in self.reaper.find() if not process.is_tmux_server]


@pytest.fixture
def bench(tmp_path: Path, tmux_socket: str, reaper: Any) -> Iterator[Bench]:
    repo = tmp_path / "repo"
    repo.mkdir()
    env = {
        **os.environ,
        "AUTORESEARCH_TMUX_SOCKET": tmux_socket,
        "PYTHONPATH": str(REPO),
        "NO_COLOR": "1",
    }
    one = Bench(tmp_path, repo, Path(tmux_socket), env, reaper)
    (repo / "trainer.py").write_text(textwrap.dedent(TRAINER))
    one.git("init", "-q")
    one.git("add", "-A")
    one.git("commit", "-qm", "start")
    yield one
    one.reap()
