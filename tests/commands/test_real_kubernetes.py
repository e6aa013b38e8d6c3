"""Runs and campaigns at a Kubernetes place through the CLI: real kubectl, a cluster of our own making.

No kubelet ever ran a pod here: containers are processes of this machine (tests/engines/kubernetes).
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.rundir import RunDir

pytestmark = pytest.mark.real


class Lab:
    """A bench whose place `k8s` is the test's cluster."""

    def __init__(self, bench: Any, kubernetes: Any) -> None:
        self.bench, self.kubernetes, self.cluster = bench, kubernetes, kubernetes.cluster
        bench.env["KUBECACHEDIR"] = os.environ["KUBECACHEDIR"]
        self.volume()

    def place(self, **options: Any) -> None:
        """What autoresearch.yaml says of it."""
        block = {"kind": "kubernetes", "python": sys.executable, **self.kubernetes.options(**options)}
        (self.bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"k8s": block}}))

    def volume(self, **options: Any) -> None:
        """Pods see all of the bench under its own paths."""
        self.place(claim="work", mount=str(self.bench.root), **options)

    def run(self, mode: str = "ok", *flags: object, **values: str) -> dict[str, Any]:
        """Order a run; it is not waited for."""
        path = self.bench.blueprint(mode, name=f"{mode}.md", **values)
        return dict(self.bench.ask("run", path, "--launcher", "k8s", "--yes", "--detach", *flags))

    def job(self, run: dict[str, Any]) -> str:
        """What Kubernetes calls it, once it was submitted."""
        path = Path(run["run_dir"]) / "order.json"
        return str(self.bench.until(lambda: (json.loads(path.read_bytes()).get("handle") or {}).get("native")))

    def stepped(self, run: dict[str, Any]) -> None:
        """Wait for the first step."""
        self.bench.event(run["run_dir"], "first_step")

    def state(self, run: dict[str, Any]) -> str:
        return RunDir(Path(run["run_dir"])).state().value

    def observed(self, run: dict[str, Any]) -> dict[str, Any]:
        path = Path(run["run_dir"]) / "observed.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else {}

    def row(self, run: dict[str, Any]) -> dict[str, str]:
        """Its row, waited for; there is exactly one."""
        self.bench.until((Path(run["run_dir"]) / "collected.json").exists)
        with open(run["ledger"], encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        (row,) = [row for row in rows if row["run_id"] == run["run"]]
        return row

    def record(self, run: dict[str, Any]) -> dict[str, Any]:
        self.row(run)
        return dict(json.loads((Path(run["run_dir"]) / "exit.json").read_bytes()))

    def tidied(self) -> None:
        """Nothing of a run is left in the cluster once it is recorded."""
        self.bench.until(lambda: not any(self.kubernetes.jobs(kind) for kind in ("jobs", "rayjobs", "secrets", "pods")))

    def followers(self) -> list[Any]:
        return [p for p in self.bench.reaper.find() if " follow " in p.command and not p.is_tmux_server]

    def end_followers(self, number: int = signal.SIGTERM) -> None:
        for process in self.followers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        self.bench.until(lambda: not self.followers())


@pytest.fixture
def lab(bench: Any, kubernetes: Any) -> Iterator[Lab]:
    one = Lab(bench, kubernetes)
    yield one
    one.end_followers()
    for name in bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split():
        bench.tmux("kill-session", "-t", f"={name}")


@pytest.mark.parametrize("workload", ["job", "rayjob"])
def test_a_run_there_and_back(lab: Lab, workload: str) -> None:
    lab.volume(workload=workload, labels={"team": "rl"}, gpus=0, cpus=2, memory="1Gi")
    told = lab.run()
    row = lab.row(told)
    assert (row["ending"], row["metric_value"], row["job_id"]) == ("finished", "0.5", lab.cluster.started[0])
    assert "hello from the trainer" in "\n".join(lab.bench.ask("logs", told["run"])["lines"])
    assert len(lab.cluster.started) == 1
    lab.tidied()


@pytest.mark.parametrize("workload", ["job", "rayjob"])
def test_a_run_without_a_volume(lab: Lab, workload: str) -> None:
    """Code, spec and environment go by a Secret that the job owns; the log brings back all that there is."""
    root = lab.bench.root / "pods"
    lab.place(root=str(root), workload=workload)
    (lab.bench.repo / "secret.py").write_text(
        "import os; print('token:', len(os.environ['HF_TOKEN']))\nimport trainer\n"
    )
    lab.bench.git("add", "-A")
    lab.bench.git("commit", "-qm", "more")
    lab.bench.env["HF_TOKEN"] = "abcdefghi"
    told = lab.run("ok", command="python secret.py", notes="- requires_env: HF_TOKEN")
    row = lab.row(told)
    assert (row["ending"], row["metric_value"]) == ("finished", "0.5"), lab.record(told)
    log = (Path(told["run_dir"]) / "run.log").read_text()
    assert log.count("step:2 - actor") == 1 and "token: 9" in log and "\x1e" not in log
    assert len(lab.cluster.started) == 1
    lab.tidied()
    assert not list(lab.bench.root.parent.rglob("carried/files/**/environment"))


def test_a_volume_that_has_another_name_here(lab: Lab) -> None:
    """What pods call /mount lies here under another path: code is sent there, results come back."""
    volume, local = lab.bench.root / "volume", lab.bench.root / "local"
    volume.mkdir()
    local.symlink_to(volume)
    lab.place(claim="work", mount=str(volume), local=str(local), root=f"{volume}/ajet")
    told = lab.run("ok")
    row = lab.row(told)
    assert (row["ending"], row["metric_value"]) == ("finished", "0.5"), lab.record(told)
    assert list((volume / "ajet" / "runs").rglob("exit.json"))
