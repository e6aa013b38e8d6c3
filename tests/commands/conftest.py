"""A bench for the whole command: a repository, a private tmux server, an index of its own, real processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.commands.rows import ledger_rows
from tests.controllers import ControlledCampaign
from tests.specs import blueprint_text
from tests.waiting import PATIENCE_S, until

REPO = Path(__file__).parents[2]


def needs(*tools: str, root: str = "") -> None:
    """Skip, with the reason, where a program is missing, or `root` (what needs it, in words) is not what we are."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is missing, and this fault is injected with it")
    if root and os.geteuid() != 0:
        pytest.skip(f"only root can do this: {root}")


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
        """Write a blueprint that runs the little trainer in a mode; `values` as `blueprint_text` takes them."""
        usual = {"title": f"Try {mode}", "purpose": f"See what {mode} does.", "command": f"python trainer.py {mode}"}
        places = {"codebase": str(self.repo), "result_dir": str(self.root / "results")}
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(blueprint_text(**{**usual, **places, **values}), encoding="utf-8")
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

    def here(self, *args: object, **env: str) -> tuple[int, str, str]:
        """The same front door in this process: (exit code, stdout, stderr), without a second of imports.

        What it launches (tmux, Runner, collector) are processes as ever.
        """
        from autoresearch import cli
        from autoresearch.runner import masking

        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, {**self.env, **env}, clear=True),
            contextlib.chdir(self.repo),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            masking._known.cache_clear()  # a process of its own has not seen another environment before
            code = cli.run([str(a) for a in args])
        return code, out.getvalue(), err.getvalue()

    def ask(self, *args: object, check: int | None = 0, **env: str) -> dict[str, Any]:
        """The JSON object of a command, by way of `here`."""
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

    def unknown(self, text: str, *, first_step: str = "", metric: str = "", notes: str = "") -> Path:
        """A blueprint of a script of the test's own, with no word about its trainer."""
        (self.repo / "odd.py").write_text(textwrap.dedent(text))
        given = {"command": "python odd.py", "trainer": "", "metric": metric, "notes": notes}
        path = self.blueprint("odd", name="odd.md", **given)
        first = f", {first_step} to the first step" if first_step else ""
        path.write_text(path.read_text().replace(", 5 minutes to the first step", first))
        return path

    def picture(self, *without: str) -> dict[str, bytes | str]:
        """Every file below this bench's root and what is in it, to be compared with a later one.

        Without the flag that says to whoever polls a result directory that its run was refused (`test_refusals`).
        """
        found: dict[str, bytes | str] = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if not any(part in name for part in without):
                found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        flag = found.get("results/finish.flag", b"")
        if isinstance(flag, bytes) and b'"ending": "refused"' in flag:
            del found["results/finish.flag"]
            if not any(name.startswith("results/") for name in found):
                del found["results"]
        return found

    def settled(self, payload: dict[str, Any], ending: str) -> dict[str, Any]:
        """Assert what holds after every fault: no process, one row, one flag, the true ending; gives the flag."""
        self.until(lambda: not self.carriers())
        assert [row["ending"] for row in ledger_rows(payload["ledger"], payload["run"])] == [ending]
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

    def wire(self, text: str) -> None:
        """Have every Python that it starts run a text before anything else."""
        folder = Path(self.env["HOME"]) / "wired"
        folder.mkdir(exist_ok=True)
        with (folder / "sitecustomize.py").open("a") as file:
            file.write(text)
        others = [one for one in self.env["PYTHONPATH"].split(os.pathsep) if one != str(folder)]
        self.env["PYTHONPATH"] = os.pathsep.join([str(folder), *others])

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
        return until(condition, seconds)

    def commit(self, message: str) -> None:
        """Commit all that lies in the repository."""
        self.git("add", "-A")
        self.git("commit", "-qm", message)

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

    def followers(self) -> list[Any]:
        """Sessions of runs elsewhere that look at them; for a moment a child of one looks like it."""
        return [process for process in self.carriers() if " follow " in process.command]

    def end_followers(self, number: int = signal.SIGTERM) -> None:
        """Signal every one; returns once they are gone."""
        for process in self.followers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        self.until(lambda: not self.followers())


@pytest.fixture
def bench(tmp_path: Path, tmux_socket: str, reaper: Any) -> Iterator[Bench]:
    repo = tmp_path / "repo"
    repo.mkdir()
    env = {
        **os.environ,
        "AUTORESEARCH_TMUX_SOCKET": tmux_socket,
        "PYTHONPATH": str(REPO),
        "NO_COLOR": "1",
        "AUTORESEARCH_GPU_CHECK": "no",  # recipes of real frameworks ask for GPUs, and their stand-ins need none
    }
    one = Bench(tmp_path, repo, Path(tmux_socket), env, reaper)
    (repo / "trainer.py").write_text(textwrap.dedent(TRAINER))
    one.git("init", "-q")
    one.git("add", "-A")
    one.git("commit", "-qm", "start")
    yield one
    one.reap()


# ------------------------------------------------------------------------------- a picture that nobody looks at

UNDRAWN = """
import sys, types

class Nothing:
    __getattr__ = __call__ = __getitem__ = lambda self, *words, **more: self
    __iter__ = lambda self: iter(())

for name in ("matplotlib", "matplotlib.backends", "matplotlib.backends.backend_agg", "matplotlib.figure"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["matplotlib.backends.backend_agg"].FigureCanvasAgg = sys.modules["matplotlib.figure"].Figure = Nothing()
"""


@pytest.fixture
def undrawn(bench: Bench) -> Iterator[Bench]:
    """The bench, whose campaigns end without progress.png: to draw it is two fifths of a controller's CPU.

    `demo --campaign` draws it (test_demo.py), and the tests of the report do. What a command of this process waits for
    (a controller that is ready, and obeys) is there when it returns, however loaded the machine.
    """
    from autoresearch.lab.campaign_setup import start_campaign

    bench.wire(UNDRAWN)
    with (
        mock.patch("autoresearch.lab.campaign_report.report.write_png", lambda path, progress: path.write_bytes(b"")),
        mock.patch.multiple(start_campaign, READY_IN_S=PATIENCE_S, SETTLED_IN_S=PATIENCE_S),
    ):
        yield bench


# ------------------------------------------------------------------------------- campaigns that are killed

KNOBS = """
import os, sys, time
run, spec = os.environ["AUTORESEARCH_RUN_ID"], dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())
with open(os.environ["STARTS"], "a") as file:
    file.write(f"{run} {os.getpid()} {os.getcwd()}\\n")
def step(n):
    print(f"step:{n} - actor/kl_loss:0.00{n} - actor/pg_loss:0.1 - critic/rewards/mean:0.{n}", flush=True)
step(1)
if spec["mode"] == "fail":
    raise RuntimeError("the data set is gone")
while spec["mode"] == "hold" and not any(map(os.path.exists, (os.environ["GO"], os.environ["GO"] + run))):
    time.sleep(0.02)
step(2)
rate = 0.5 + 0.1 * float(spec["lr"]) + 0.001 * (int(spec["data.seed"]) % 3)
print(f"step:2 - global_steps:2 - pass_n:2 - task_pass_rate@1:{rate} - mean_reward:{rate}", flush=True)
"""


@dataclass
class Crashes(ControlledCampaign):
    """A campaign whose controller is killed again and again, and what must hold afterwards."""

    bench: Bench
    starts: Path  # one line per trainer that began: run, pid, directory
    go: Path  # what a trainer in mode `hold` waits for; with a run's ID behind it, that of this run alone
    name: str = "one"

    def recipe(self, **values: object) -> None:
        """Write the recipe that the campaign begins with."""
        given = {"lr": 0.1, "mode": "ok", "data.seed": 7} | values
        (self.bench.repo / "exp.yaml").write_text("".join(f"{key}: {value}\n" for key, value in given.items()))

    def file(self, **keys: object) -> Path:
        """Write the campaign file: quick, two slots, chance proposes."""
        usual: dict[str, object] = {
            "blueprint": "exp.md",
            "prefix": f"autoresearch/{self.name}",
            "baseline": 1,
            "retests": 0,
            "confirm": False,
            "parallel": 2,
            "proposer": "random",
            "space": {"lr": {"low": 0.001, "high": 0.9}},
        }
        path = self.bench.repo / f"{self.name}.yaml"
        given = {key: value for key, value in {**usual, **keys}.items() if value is not None}
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in given.items()))
        return path

    def start(self, *flags: object, fail: str = "", **keys: object) -> dict[str, Any]:
        """Begin it and come back at once; `fail`: where its controller kills itself."""
        env = {"AUTORESEARCH_FAILPOINT": f"{fail}:kill"} if fail else {}
        return self.bench.ask("campaign", self.file(**keys), "--yes", "--detach", *flags, **env)

    def resume(self, fail: str = "", check: int | None = 0) -> dict[str, Any]:
        """Another controller."""
        env = {"AUTORESEARCH_FAILPOINT": f"{fail}:kill"} if fail else {}
        return self.bench.ask("campaign", "resume", self.name, "--detach", check=check, **env)

    @property
    def place(self) -> Any:
        from autoresearch.records.campaign_records import CampaignDir

        return CampaignDir(self.bench.repo / "reports" / "auto_research" / self.name)

    def journal(self) -> list[dict[str, Any]]:
        from autoresearch.records.campaign_records import read

        return read(self.place).events

    def running(self, slug: str) -> Any:
        """The living run of an idea, once its trainer has begun."""
        found = self.bench.until(lambda: [r for i, r in self.state().live if i.slug == slug and self.began(r.run)])
        return found[0]

    def began(self, run: str) -> list[list[str]]:
        """The starts of a run's trainer: pid and directory of each."""
        lines = self.starts.read_text().splitlines() if self.starts.exists() else []
        return [line.split()[1:] for line in lines if line.split()[0] == run]

    def rows(self) -> list[dict[str, str]]:
        return ledger_rows(self.place.ledger)

    def ended(self, count: int, reason: str = "ideas attempted") -> Any:
        """Wait for the end, then everything that holds after any crash: see `sound`."""
        self.bench.until(lambda: (self.state().phase == "ended" and not self.place.controlled) or self._gone())
        state = self.state()
        assert state.phase == "ended", self.said()
        assert reason in state.reason and state.attempted == count, (state.reason, state.attempted, self.said())
        assert [idea.index for idea in state.ideas if idea.attempted] == list(range(1, count + 1))
        self.sound(state)
        assert self.place.flag.exists() and (self.place.path / "report.md").exists()
        assert len(self.bench.git("worktree", "list").splitlines()) == 1
        assert not list(Path(state.spec.trees).glob("*"))
        return state

    def view_when_ended(self) -> Any:
        """Wait for the end; nothing is said about what must hold then."""
        self.bench.until(lambda: self.state().phase == "ended" and not self.place.controlled)
        return self.state()

    def _gone(self) -> bool:
        """A controller that nobody killed and that is dead, or that waits for a person, is a fault of its own."""
        controlled = self.place.controlled  # first: what it wrote last, it wrote before it went
        state = self.state().phase
        if state == "ended" or (controlled and state == "running"):
            return False
        raise AssertionError(f"the controller is gone or waits ({state}):\n{self.said()}{self.pane()}")

    def sound(self, state: Any) -> None:
        """No lost and no double row, no process, no session, every commit on a branch, no trace of the unstarted."""
        self.bench.until(lambda: not self.bench.carriers())
        rows = self.rows()
        runs = [row["run_id"] for row in rows]
        assert len(set(runs)) == len(runs), "a run has two rows"
        told = {line["run"] for line in self.journal() if line["do"] == "started"}
        assert set(runs) == told, "a run that was started has no row, or the other way round"
        began = [line.split()[0] for line in self.starts.read_text().splitlines()]
        assert len(set(began)) == len(began), "a trainer was started twice"
        assert set(began) <= set(runs), "a trainer ran and has no row"
        unborn = {row["run_id"] for row in rows if row["ending"] in ("launch_failed", "lost", "stopped")}
        assert set(runs) - unborn <= set(began), "a row of a run that never was"
        assert not self.bench.ask("status")["runs"], "the index knows a run that nobody settled"
        assert len(self.sessions()) <= 1 and not [s for s in self.sessions() if "campaign" not in s]
        self._branches(state, rows)
        folders = {str(path.parent) for path in self.place.path.glob("*/launching")}
        assert folders <= {row["run_dir"] for row in rows}, "a run that was never started left its directory"
        assert not list(self.place.path.rglob("environment")) and not list(self.place.path.glob("*.environment"))

    def _branches(self, state: Any, rows: list[dict[str, str]]) -> None:
        prefix = state.spec.prefix
        found = self.bench.git("for-each-ref", "--format=%(refname:short)", f"refs/heads/{prefix}/").split()
        ours = {idea.branch for idea in state.ideas} | {row["branch"] for row in rows}
        assert set(found) == ours, "a branch without an idea, or an idea without its branch"
        for row in rows:
            self.bench.git("merge-base", "--is-ancestor", row["commit"], row["branch"])
        for idea in state.ideas:
            self.bench.git("merge-base", "--is-ancestor", idea.commit, idea.branch)


@pytest.fixture
def crashes(undrawn: Bench) -> Crashes:
    """A repository with a trainer that takes no time, its blueprint and its recipe committed."""
    bench = undrawn
    one = Crashes(bench, bench.root / "starts", bench.root / "go")
    bench.env |= {"STARTS": str(one.starts), "GO": str(one.go)}
    (bench.repo / "knobs.py").write_text(KNOBS)
    one.recipe()
    bench.blueprint(
        name="exp.md", command="python -S -E knobs.py exp.yaml", purpose="Turn the knobs.", recipe="exp.yaml"
    )
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a trainer with knobs")
    return one


# ---------------------------------------------------------------------------- command lines in documents


@pytest.fixture
def parse() -> Callable[[str], None]:
    """Asserts that a documented command line is one, by the command's own parser."""
    return _parse


@cache
def program(*words: str) -> Any:
    """Our command as typer knows it, with all that belongs to the one that these words name."""
    import typer

    from autoresearch import cli

    return typer.main.get_command(cli._app(words))


def _parse(line: str) -> None:
    """Its command exists, its options exist and take their values, nothing is missing; placeholders are values."""
    import shlex

    from autoresearch import cli

    words = shlex.split(line, comments=True)
    assert words[0] == "autoresearch", line
    argv = cli._started(words[1:])
    known = program(*argv[:2]) if " ".join(argv[:2]) in cli.COMMANDS else program(*argv[:1])
    while hasattr(known, "commands"):
        assert argv and argv[0] in known.commands, f"no such command: {line}"
        known, argv = known.commands[argv[0]], argv[1:]
    if "--help" not in argv:
        known.make_context("autoresearch", argv)


# ------------------------------------------------------------------------------- a launcher of the tests' own

WIRED = """
import sys
sys.path.append({repo!r})
try:
    import autoresearch.launchers.registry as places
    from pathlib import Path
    from tests.far.jobs import LocalJobs
    places.check = lambda *_, **__: None
    def launcher_of(place, environ, *_):
        folder = Path({directory!r}) / place.name
        (folder / "told").write_text(environ.get("SLURM_CONF", ""))
        return LocalJobs(folder)
    places.launcher_of = launcher_of
except ImportError:  # another interpreter
    pass
"""


@pytest.fixture
def jobs(bench: Bench, local_jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The small real launcher of the tests, in the place of each target's, in every process that the bench starts."""
    from autoresearch.launchers import registry

    launchers = tmp_path / "launchers"
    bench.wire(WIRED.format(repo=str(REPO), directory=str(launchers)))
    made = type(local_jobs)
    monkeypatch.setattr(registry, "check", lambda *_, **__: None)
    monkeypatch.setattr(registry, "launcher_of", lambda place, *_, **__: made(launchers / place.name))
    slurm = made(launchers / "slurm")
    yield slurm
    bench.end_followers()
    for record in slurm.records():
        slurm.kill(record["native"])
    for name in bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split():
        bench.tmux("kill-session", "-t", f"={name}")


# ------------------------------------------------------------------------------- a campaign of the embedded trainer

TINY: dict[str, object] = {"task": "sort", "sft_steps": 5, "hidden": 8, "total_steps": 6, "batch_size": 2}
TINY |= {"group_size": 4, "lr": 0.001, "kl_coef": 0.01, "temperature": 1.0, "test_freq": 6, "val_tasks": 4}
TINY |= {"val_pass_n": 2, "step_sleep": 0.5, "metrics_jsonl_path": "out/metrics.jsonl", "experiment_name": "tiny"}


@pytest.fixture
def tiny(bench: Bench) -> Callable[[int], Path]:
    """Write a campaign of so many ideas of the smallest tinygrpo, three seconds a run; its file."""

    def write(ideas: int) -> Path:
        (bench.repo / "tiny.yaml").write_text("".join(f"{key}: {value}\n" for key, value in TINY.items()))
        command = "python -m autoresearch.tinygrpo --conf tiny.yaml"
        bench.blueprint("tiny", name="tiny.md", command=command, trainer="tinygrpo", recipe="tiny.yaml")
        keys = {"blueprint": "tiny.md", "prefix": "autoresearch/one", "baseline": 1, "count": ideas}
        keys |= {"retests": 0, "confirm": False, "space": {"lr": {"low": 0.0005, "high": 0.01}}, "proposer": "random"}
        file = bench.repo / "campaign.yaml"
        file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))
        return file

    return write
