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

from autoresearch.records.campaign_records import CampaignDir

pytestmark = pytest.mark.system

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


def campaign(project: Project, command: str, *words: str) -> dict[str, Any]:
    """Run a command and a better one as a campaign, to its end; the campaign."""
    repo = project.bench.repo
    for name, line in (("exp.md", command), ("queue/better.md", command.replace("train.py", "train.py --better"))):
        (repo / name).parent.mkdir(exist_ok=True)
        new = ("blueprint", "new", name, "--purpose", "Whether it is better.", "--command", line)
        project.ask(*new, "--set", "metric=val_acc", "--set", "direction=maximize")
    few = ("--set", "baseline=1", "--set", "confirm=false", "--set", "retests=0", "--count", "2", "--yes")
    return project.ask("campaign", "exp.md", "--queue", "queue", *few, *words)[0]


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


def test_a_campaign_keeps_the_interpreter_that_it_began_with(project: Project, tmp_path: Path) -> None:
    """Its controller is killed; it is resumed from a shell in which another environment is active."""
    bench, plain = project.bench, dict(project.shell)
    env, other, hold = environment_at(tmp_path / "env"), environment_at(tmp_path / "other"), tmp_path / "hold"
    project.activate(env)
    project.shell["HOLD"] = str(hold)
    hold.touch()
    begun = campaign(project, "python train.py", "--detach")
    python = f"{env}/bin/python"
    assert (begun["interpreter"], begun["interpreter_source"]) == (python, "active environment")
    directory = Path(begun["directory"])
    bench.until(lambda: logs_of(directory))
    os.kill(json.loads(CampaignDir(directory).controller.read_bytes())["pid"], signal.SIGKILL)
    bench.until(lambda: not CampaignDir(directory).controlled)
    project.shell = plain | {"HOLD": str(hold)}
    project.activate(other)
    words = f"in this shell, python is {other}/bin/python (active environment); the campaign goes on with its own: "
    assert f"{words}{python} (active environment)" in project.ask("campaign", "resume", begun["campaign"])[1]
    assert f"python: {python} (active environment)" in bench.here("campaign", "status", **project.shell)[1]
    hold.unlink()
    bench.until(lambda: project.ask("campaign", "status", code=None)[0]["state"] == "ended")
    ended = project.ask("campaign", "status", code=None)[0]
    assert (ended["crashed"], ended["attempted"], ended["rows"]) == (0, 2, 2), ended
    assert {(line.split()[1], line.split()[-1]) for line in logs_of(directory)} == {(python, str(env))}
    assert all(str(env) in line.split()[2] for line in logs_of(directory))
