"""A run, its repository, and another host: a directory of this machine with a home and programs of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.run.job_launcher import (
    Job,
    Unreachable,
)
from autoresearch.core.run.limits import Limits
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.run.targets import Kind, Target
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.launchers.shared import ANSWER_S, SharedFiles
from autoresearch.records import journal, order_file, recorded_run
from autoresearch.records.hostile import write_atomically
from autoresearch.records.order_file import Order
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from tests.specs import run_spec

TRAINER = """
import json, os, sys, yaml_free
out = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines())["out"]
os.makedirs(out, exist_ok=True)
with open(out + "/metrics.jsonl", "w") as file:
    for n in range(1, 4):
        file.write(json.dumps({"step": n, "reward": n / 10}) + "\\n")
        print(f"step:{n} - actor/kl_loss:0.00{n} - critic/rewards/mean:0.{n}", flush=True)
print("in", os.getcwd(), "with", os.environ.get("TOKEN"), "at", os.environ["HOME"], sys.executable)
"""

CUT = """
import subprocess, sys
left, program = int(sys.argv[1]), subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
while left and (piece := program.stdout.read1(left)):
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    left -= len(piece)
program.kill()
sys.exit(255)
"""


class OtherHost(SharedFiles):
    """`core.run.job_launcher.Reach` of a host whose home is `home`. `cut_after`: so many calls later nobody answers.

    `cut_bytes`: a program that copies is cut after so many bytes of its output.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        super().__init__({"PATH": os.environ["PATH"], "HOME": str(home)})
        self.shared = False  # type: ignore[misc]
        self.cut_after = -1
        self.cut_bytes = -1
        self.calls: list[str] = []

    def _call(self, what: str) -> None:
        if self.cut_after == 0:
            raise Unreachable("the link is down")
        self.cut_after -= 1
        self.calls.append(what)

    def call(self, op: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Any:
        self._call(op)
        return super().call(op, within_s=within_s, **arguments)

    def command(self, argv: Sequence[str]) -> list[str]:
        self._call(f"command {argv[0]}")
        environ = [f"{name}={value}" for name, value in (self.environ or {}).items()]
        cut = [sys.executable, "-c", CUT, str(self.cut_bytes)] if self.cut_bytes >= 0 else []
        return ["env", "-i", *environ, *cut, *argv]


@dataclass
class Yard:
    """One run here, and the other host."""

    root: Path
    repo: Path
    reach: OtherHost
    place: Target
    spec: RunSpec
    environment: dict[str, str]

    @property
    def rundir(self) -> RunDir:
        return RunDir(Path(self.spec.run_dir))

    @property
    def far(self) -> Path:
        """The root of everything over there."""
        return Path(str(self.place.options["root"]))

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.repo, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "more", "--allow-empty")
        self.spec = replace(self.spec, commit=self.git("rev-parse", "HEAD"))
        return self.spec.commit

    def order(self, **changes: Any) -> Order:
        """Write what a launch writes."""
        self.spec = replace(self.spec, **changes)
        Path(self.spec.run_dir).mkdir(parents=True, exist_ok=True)
        Path(self.spec.result_dir).mkdir(parents=True, exist_ok=True)
        journal.begin(Path(self.spec.result_dir), self.spec)
        recorded_run.write(
            self.rundir, self.spec, {"journal": "x", "collector": [], "start": ""}
        )
        pairs = b"\0".join(f"{name}={value}".encode() for name, value in self.environment.items())
        write_atomically(self.rundir.environment, pairs, mode=0o600)
        declared = tuple(n for n in self.environment if n not in ("HOME", "PATH"))
        made = Order(self.spec.run, self.place, 1.0, declared=declared)
        order_file.write(self.rundir, made)
        return made

    def another(self, number: int) -> None:
        """From here on another run of the same code."""
        run = f"{self.spec.run}-{number}"
        run_dir = str(Path(self.spec.run_dir).with_name(f"try-{number}"))
        result_dir = f"{self.root}/out-{number}"
        self.spec = replace(self.spec, run=run, experiment=f"try-{number}", run_dir=run_dir)
        self.spec = replace(self.spec, result_dir=result_dir)

    def ship(self, order: Order | None = None) -> tuple[Order, Job]:
        from autoresearch.lab.remote_files.upload import ship

        return ship(RecordedRun(self.rundir, self.spec), order or self.order(), self.reach)

    def said(self) -> str:
        """The events and the journal of the run."""
        texts = [self.rundir.events, Path(self.spec.result_dir) / "experiment_log.md"]
        return "".join(path.read_text() for path in texts if path.exists())

    def leaks(self) -> list[str]:
        """Texts over there that name a path of ours, outside of files that hold what people wrote."""
        found = []
        for path in self.far.rglob("*"):
            read = path.suffix in (".json", ".yaml", ".jsonl") or path.name == "environment"
            data = path.read_bytes() if read and path.is_file() else b""
            if any(str(ours).encode() in data for ours in (self.repo, self.spec.result_dir)):
                found.append(str(path))
        return found


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    repo = tmp_path / "here" / "repo"
    repo.mkdir(parents=True)
    (repo / "train.py").write_text(TRAINER)
    (repo / "yaml_free.py").write_text("")
    (repo / "run.sh").write_text("#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("train.py")
    result_dir = tmp_path / "here" / "results"
    (repo / "recipe.yaml").write_text(f"lr: 0.1\nout: {result_dir}/metrics\n")
    (repo / ".gitignore").write_text("secret.env\nreports/\n")
    (repo / "secret.env").write_text("KEY=1\n")
    run_dir = repo / "reports/auto_research/one/try"
    run = f"try-{uuid.uuid4().hex[:6]}"  # nobody else's, who ends what carries it
    spec = run_spec(
        run,
        run_dir,
        slug="try",
        purpose="See.",
        campaign="one",
        experiment="try",
        blueprint=str(repo / "exp.md"),
        recipe=str(repo / "recipe.yaml"),
        trainer="verl",
        command=f"python {repo}/train.py {repo}/recipe.yaml",
        cwd=str(repo),
        interpreter=sys.executable,
        limits=Limits(grace_s=2.0),
        result_dir=str(result_dir),
        ledger=str(run_dir.parent / "results.tsv"),
        created=time.time(),
        objective=Objective("reward", Direction.MAXIMIZE),
        sources=(Source(SourceFormat.JSONL, str(result_dir / "metrics/metrics.jsonl")),),
    )
    root = tmp_path / "there" / "data"
    place = Target("gpu1", Kind.SSH, 1, {"root": str(root)})
    environment = {"HOME": str(tmp_path / "here"), "PATH": "/nowhere", "TOKEN": "t0p", "PYTHONPATH": f"{repo}:{repo}/x"}
    one = Yard(tmp_path, repo, OtherHost(tmp_path / "there" / "home"), place, spec, environment)
    one.git("init", "-q")
    one.commit()
    return one


@pytest.fixture
def started(yard: Yard, local_jobs: Any) -> Any:
    """A launcher whose Runners are processes over there."""
    local_jobs.reach = yard.reach
    local_jobs.environ = {**(yard.reach.environ or {}), "AUTORESEARCH_TEST": os.environ["AUTORESEARCH_TEST"]}
    return local_jobs


@pytest.fixture
def far_record() -> Callable[[Order], dict[str, Any]]:
    """The spec over there."""
    return lambda order: dict(json.loads(Path(order.directory, "spec.json").read_bytes()))
