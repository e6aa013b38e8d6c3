"""Commands mean what they mean in the shell where they are typed: its interpreter, its PATH, its environments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoresearch.lab.launch.run_sandbox import RunSandbox
from autoresearch.records.campaign_records import CampaignDir
from tests.specs import run_spec

REPO = Path(__file__).parents[2]
TOOLS = REPO / ".venv-uv"
needs_tools = pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="no uv and poetry: `make uv` says why not")
SCRIPT = """
import os, random, sys, time
import theirs
from own import name
print("ran", sys.executable, theirs.__file__, name.__code__.co_filename, os.environ.get("VIRTUAL_ENV"), flush=True)
draws = random.Random(int(os.environ.get("AUTORESEARCH_SEED", 0)))
better = "--better" in sys.argv
while os.path.exists(os.environ.get("HOLD", "")):
    time.sleep(0.02)
for step in (1, 2, 3):
    print(f"step {step} val_acc {0.5 + 0.2 * better + draws.gauss(0, 0.01):.4f}", flush=True)
"""


MAKEFILE = "train:\n\tpython train.py $(ARGS)\n"
LAUNCHER = """#!/bin/sh
# in place of {name}: it starts the script with the python beside it
[ "$1" = launch ] && shift
exec "$(dirname "$0")/python" "$@"
"""
CONDA = """#!/bin/bash
# in place of conda: `activate` is a function of the shell, which the hook defines
if [ "$1 $2" = "shell.bash hook" ]; then
    echo 'conda() { [ "$1" = activate ] && export CONDA_PREFIX={root}/$2 PATH="{root}/$2/bin:$PATH"; }'
else
    echo "CondaError: Run 'conda init' before 'conda $1'" >&2
    exit 1
fi
"""
PYPROJECT = """[project]
name = "demo"
version = "0.1"
requires-python = ">=3.9"
dependencies = []
"""


def environment_at(path: Path) -> Path:
    """A virtual environment that holds a package of the user's, which ours does not have."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    site = next(path.glob("lib/python3*/site-packages"))
    (site / "theirs.py").write_text("")
    return path


@dataclass
class Project:
    """A stranger's repository, and the shell that stands in it."""

    bench: Any
    shell: dict[str, str]

    def ask(self, *words: object, code: int | None = 0) -> tuple[dict[str, Any], str]:
        """The answer of a command with `--json`, and what it says beside that."""
        at = words.index("--") if "--" in words else len(words)
        found, out, err = self.bench.here(*words[:at], "--json", *words[at:], **self.shell)
        assert code is None or found == code, out + err
        return dict(json.loads(out)), err

    def activate(self, environment: Path) -> None:
        """As `source ENVIRONMENT/bin/activate` does in the shell."""
        self.shell["VIRTUAL_ENV"] = str(environment)
        self.shell["PATH"] = f"{environment}/bin:{self.shell['PATH']}"


@pytest.fixture
def project(undrawn: Any) -> Project:
    """The repository ignores its environments, and no environment is active: ours least of all."""
    bench = undrawn
    (bench.repo / "train.py").write_text(SCRIPT)
    (bench.repo / "own.py").write_text("def name(): ...\n")
    (bench.repo / ".gitignore").write_text(".venv/\nvenv/\n__pycache__/\n")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a stranger's project")
    bench.env.pop("VIRTUAL_ENV", None)
    others = [one for one in bench.env["PATH"].split(os.pathsep) if one != str(Path(sys.executable).parent)]
    return Project(bench, {"PATH": os.pathsep.join(others)})


def logs_of(directory: str | Path) -> list[str]:
    """The line `ran ...` of each run below a directory of records."""
    lines = [line for log in Path(directory).rglob("run.log") for line in log.read_text().splitlines()]
    return [line for line in lines if line.startswith("ran ")]


def campaign(project: Project, command: str, better: str, *words: str) -> dict[str, Any]:
    """Run a command and a better one as a campaign, to its end; the campaign."""
    for name, line in (("exp.md", command), ("queue/better.md", better)):
        (project.bench.repo / name).parent.mkdir(exist_ok=True)
        new = ("blueprint", "new", name, "--purpose", "Whether it is better.", "--command", line)
        project.ask(*new, "--set", "metric=val_acc", "--set", "direction=maximize")
    few = ("--set", "baseline=1", "--set", "confirm=false", "--set", "retests=0", "--count", "2", "--yes")
    return project.ask("campaign", "exp.md", "--queue", "queue", *few, *words)[0]


def works_everywhere(project: Project, command: str, better: str, theirs: Path) -> None:
    """A line works in `run`, `prove` and a campaign; each run imports what is theirs, and the code of its worktree."""
    done, _ = project.ask("run", "--", command)
    assert done["ending"] == "finished", done
    proved, _ = project.ask("prove", "--metric", "val_acc", "--", command, better)
    assert proved["proved"] is True, proved
    ended = campaign(project, command, better)
    assert (ended["state"], ended["rows"]) == ("ended", 2) and "crashed" not in ended["standings"], ended
    lines = [logs_of(directory) for directory in (done["run_dir"], proved["directory"], ended["directory"])]
    assert len(lines[0]) == 1 and len(lines[1]) >= 8 and len(lines[2]) == 2
    for line in (one.split() for some in lines for one in some):
        assert Path(line[2]).parts[-5:] == theirs.parts[-5:], "a small environment is copied into a worktree"
    repo = str(project.bench.repo)
    assert {line.split()[3].startswith(repo) for line in lines[0]} == {True}
    assert {line.split()[3].startswith(repo) for line in (*lines[1], *lines[2])} == {False}


@pytest.mark.system
def test_the_interpreter_is_that_of_the_shell(project: Project, tmp_path: Path) -> None:
    """Strangers, row 1: our own python ran, and what the user had installed was missing."""
    env = environment_at(tmp_path / "env")
    project.activate(env)
    python = str(env / "bin/python")
    plan, _ = project.ask("run", "--dry-run", "--", "python", "train.py")
    assert (plan["interpreter"], plan["interpreter_source"]) == (python, "active environment")
    shown = project.bench.here("run", "--dry-run", "--", "python", "train.py", **project.shell)[1]
    assert f"{python} (active environment)" in shown
    done, _ = project.ask("run", "--", "python", "train.py")
    assert done["ending"] == "finished", done
    (ran,) = logs_of(done["run_dir"])
    assert ran.split()[1:3] == [python, str(next(env.rglob("theirs.py")))]


@pytest.mark.system
def test_a_campaign_keeps_the_interpreter_that_it_began_with(project: Project, tmp_path: Path) -> None:
    """Its controller is killed; it is resumed from a shell in which another environment is active."""
    bench, plain = project.bench, dict(project.shell)
    env, other, hold = environment_at(tmp_path / "env"), environment_at(tmp_path / "other"), tmp_path / "hold"
    project.activate(env)
    project.shell["HOLD"] = str(hold)
    hold.touch()
    begun = campaign(project, "python train.py", "python train.py --better", "--detach")
    python = f"{env}/bin/python"
    assert (begun["interpreter"], begun["interpreter_source"]) == (python, "active environment")
    directory = Path(begun["directory"])
    bench.until(lambda: logs_of(directory))
    os.kill(json.loads(CampaignDir(directory).controller.read_bytes())["pid"], signal.SIGKILL)
    bench.until(lambda: not CampaignDir(directory).controlled)
    project.shell = plain | {"HOLD": str(hold)}
    project.activate(other)
    project.ask("campaign", "resume", begun["campaign"])
    assert f"python: {python} (active environment)" in bench.here("campaign", "status", **project.shell)[1]
    hold.unlink()
    bench.until(lambda: project.ask("campaign", "status", code=None)[0]["state"] == "ended")
    ended = project.ask("campaign", "status", code=None)[0]
    assert (ended["attempted"], ended["rows"]) == (2, 2) and "crashed" not in ended["standings"], ended
    assert {(line.split()[1], line.split()[-1]) for line in logs_of(directory)} == {(python, str(env))}
    assert all(str(env) in line.split()[2] for line in logs_of(directory))


@pytest.mark.system
@pytest.mark.waits
@pytest.mark.parametrize(
    "line",
    [
        "source .venv/bin/activate && python train.py",
        ". venv/bin/activate; python train.py",
        ".venv/bin/python train.py",
        "python train.py",
        "conda activate rl && python train.py",
        "make train",
        "bash scripts/train.sh",
        "accelerate launch train.py",
        "torchrun train.py",
    ],
)
def test_a_line_as_people_type_it(project: Project, tmp_path: Path, line: str) -> None:
    """Strangers, rows 2 to 4: what lay in an ignored environment was missing where a worktree trained."""
    repo, tools = project.bench.repo, tmp_path / "tools"
    activated = line.split()[0] in ("make", "bash", "accelerate", "torchrun")
    root = tmp_path / "rl" if "conda" in line else tmp_path / "env" if activated else repo / ".venv"
    env = environment_at(repo / "venv" if line.startswith(". venv") else root)
    (repo / "Makefile").write_text(MAKEFILE)
    (repo / "scripts").mkdir()
    (repo / "scripts" / "train.sh").write_text('python train.py "$@"\n')
    project.bench.git("add", "-A")
    project.bench.git("commit", "-qm", "scripts")
    if activated:
        project.activate(env)
    for name, text in {"accelerate": LAUNCHER, "torchrun": LAUNCHER}.items():
        (env / "bin" / name).write_text(text.replace("{name}", name))
        (env / "bin" / name).chmod(0o755)
    if "conda" in line:
        tools.mkdir()
        (tools / "conda").write_text(CONDA.replace("{root}", str(tmp_path)))
        (tools / "conda").chmod(0o755)
        project.shell["PATH"] = f"{tools}:{project.shell['PATH']}"
    better = f"{line} ARGS=--better" if line == "make train" else f"{line} --better"
    works_everywhere(project, line, better, next(env.glob("lib/python3*/site-packages/theirs.py")))


@pytest.mark.real
@needs_tools
@pytest.mark.parametrize("tool", ["uv", "poetry"])
def test_a_tool_that_keeps_environments(project: Project, tmp_path: Path, tool: str) -> None:
    """In every worktree it has the user's environment, which stays as it is though the project asks for more by now."""
    repo = project.bench.repo
    (repo / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / tool).symlink_to(TOOLS / "bin" / tool)
    project.shell |= {"PATH": f"{tmp_path}:{project.shell['PATH']}", "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}

    def told(*words: str) -> str:
        environ = {**project.bench.env, **project.shell}
        return subprocess.run(words, cwd=repo, env=environ, check=True, capture_output=True, text=True).stdout.strip()

    if tool == "uv":
        told("uv", "sync")
        env = repo / ".venv"
        (repo / "more/src/more").mkdir(parents=True)
        (repo / "more/src/more/__init__.py").touch()
        build = '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'
        (repo / "more/pyproject.toml").write_text(PYPROJECT.replace("demo", "more") + build)
        sources = '[tool.uv.sources]\nmore = { path = "more" }\n'
        (repo / "pyproject.toml").write_text(PYPROJECT.replace("[]", '["more"]') + sources)
    else:
        told("poetry", "env", "use", "python3")
        env = Path(told("poetry", "env", "info", "--path"))
    site = next(env.glob("lib/python3*/site-packages"))
    (site / "theirs.py").write_text("")
    project.bench.git("add", "-A")
    project.bench.git("commit", "-qm", "a project")

    def listing() -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in env.rglob("*") if "__pycache__" not in path.parts}

    before = listing()
    works_everywhere(project, f"{tool} run python train.py", f"{tool} run python train.py --better", site / "theirs.py")
    assert listing().keys() == before.keys()


@pytest.mark.real
@needs_tools
def test_uv_runs_in_a_sandbox(project: Project, tmp_path: Path, bubblewrap: None) -> None:
    """It locks a directory of its cache, which lies in the home that a run cannot write to."""
    tree = tmp_path / "trees" / "slot-1"
    tree.mkdir(parents=True)
    (tree / "pyproject.toml").write_text(PYPROJECT)
    environ = {**project.bench.env, "UV_OFFLINE": "1", "UV_NO_SYNC": "1", "PATH": f"{TOOLS}/bin:/usr/bin:/bin"}
    subprocess.run(["uv", "venv", "-q", ".venv"], cwd=tree, env=environ, check=True)
    sandbox, spec = RunSandbox(tree), run_spec("one", tmp_path / "reports" / "lone" / "one")
    for place in (spec.run_dir, spec.result_dir):
        Path(place).mkdir(parents=True)
    inside = sandbox.before(spec, environ)["inside"]
    words = [*inside, "uv", "run", "python", "-c", "print('trained')"]
    done = subprocess.run(words, cwd=tree, env=sandbox.environment(environ), capture_output=True, text=True)
    assert done.stdout == "trained\n", done.stderr
