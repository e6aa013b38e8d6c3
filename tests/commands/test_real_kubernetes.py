"""Runs and campaigns at a Kubernetes place through the CLI: real kubectl, a cluster of our own making.

No kubelet ever ran a pod here: containers are processes of this machine (tests/engines/kubernetes).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.elsewhere import RunsElsewhere
from tests.engines.kubernetes.api_server import Refused

pytestmark = pytest.mark.real


class Lab(RunsElsewhere):
    """A bench whose place `k8s` is the test's cluster."""

    def __init__(self, bench: Any, kubernetes: Any) -> None:
        super().__init__(bench, "k8s")
        self.kubernetes, self.cluster = kubernetes, kubernetes.cluster
        bench.env["KUBECACHEDIR"] = os.environ["KUBECACHEDIR"]
        self.volume()

    def place(self, **options: Any) -> None:
        """What autoresearch.yaml says of it."""
        block = {"kind": "kubernetes", "python": sys.executable, **self.kubernetes.options(**options)}
        (self.bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"k8s": block}}))

    def volume(self, **options: Any) -> None:
        """Pods see all of the bench under its own paths."""
        self.place(claim="work", mount=str(self.bench.root), **options)

    def observed(self, run: dict[str, Any]) -> dict[str, Any]:
        path = Path(run["run_dir"]) / "observed.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else {}

    def tidied(self) -> None:
        """Nothing of a run is left in the cluster once it is recorded."""
        self.bench.until(lambda: not any(self.kubernetes.jobs(kind) for kind in ("jobs", "pods")))


@pytest.fixture
def lab(bench: Any, kubernetes: Any) -> Iterator[Lab]:
    one = Lab(bench, kubernetes)
    yield one
    bench.end_followers()
    for name in bench.tmux("list-sessions", "-F", "#{session_name}").stdout.split():
        bench.tmux("kill-session", "-t", f"={name}")


def test_a_run_there_and_back(lab: Lab) -> None:
    lab.volume(labels={"team": "rl"}, gpus_per_run=0, cpus=2, memory="1Gi")
    told = lab.run()
    row = lab.row(told)
    assert (row["ending"], row["metric_value"], row["job_id"]) == ("finished", "0.5", lab.cluster.started[0])
    assert "hello from the trainer" in "\n".join(lab.bench.ask("logs", told["run"])["lines"])
    assert len(lab.cluster.started) == 1
    lab.tidied()


def test_variables_of_a_run_reach_its_trainer_and_no_manifest(lab: Lab) -> None:
    """What the run declares counts, then what its pod has, then the shell's."""
    lab.volume(container_spec={"env": [{"name": "BOTH", "value": "the pod's"}, {"name": "HF_TOKEN", "value": "x"}]})
    (lab.bench.repo / "secret.py").write_text(
        "import os; print('token:', len(os.environ['HF_TOKEN']), os.environ['BOTH'], os.environ['SHELLS'])\n"
        "print(end='10%\\r20%\\r')\nimport trainer\n"
    )
    lab.bench.env |= {"BOTH": "the shell's", "SHELLS": "own"}
    lab.bench.git("add", "-A")
    lab.bench.git("commit", "-qm", "more")
    lab.bench.env["HF_TOKEN"] = "abcdefghi"
    told = lab.run("ok", command="python secret.py", notes="- requires_env: HF_TOKEN")
    assert lab.row(told)["ending"] == "finished", lab.record(told)
    log = (Path(told["run_dir"]) / "run.log").read_bytes().decode()
    assert log.count("step:2 - actor") == 1 and "token: 9 the pod's own" in log and "\n10%\r20%\r" in log
    lab.tidied()


def test_what_a_cluster_does_to_runs(lab: Lab) -> None:
    """Preempted, evicted, its node lost, its memory used up, its deadline passed: each is told as what it was."""
    runs = {name: lab.run("long", name=name) for name in ("preempt", "evict", "node", "memory", "deadline")}
    jobs = {name: lab.job(run) for name, run in runs.items()}
    for run in runs.values():
        lab.stepped(run)
    lab.cluster.disrupt(jobs["preempt"], "PreemptionByScheduler", "preempting to accommodate a higher priority pod")
    lab.cluster.evict(jobs["evict"])
    lab.cluster.lose_node(jobs["node"])
    lab.cluster.out_of_memory(jobs["memory"])
    lab.cluster.pass_deadline(jobs["deadline"])
    said = {name: (record["ending"], record["cause"]) for name in runs if (record := lab.record(runs[name]))}
    assert said == {
        "preempt": ("lost", "preempted"),
        "evict": ("lost", "preempted"),
        "node": ("lost", "node_failed"),
        "memory": ("crashed", "memory"),
        "deadline": ("max_time", "walltime"),
    }
    assert sorted(lab.cluster.started) == sorted(jobs.values())
    lab.tidied()


def test_what_keeps_a_run_from_starting(lab: Lab) -> None:
    """An image that can never be is hopeless, a full cluster is waited for; a stop in the queue leaves no pod."""
    lab.cluster.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waiting, stopped = lab.run("ok", name="waits"), lab.run("ok", name="stopped")
    for run in (waiting, stopped):
        lab.bench.until(lambda run=run: lab.observed(run).get("state") == "pending")
        lab.bench.until(lambda run=run: "Insufficient nvidia.com/gpu" in str(lab.observed(run).get("reason")))
    lab.bench.ask("stop", stopped["run"], "--reason", "enough")
    assert lab.row(stopped)["ending"] == "stopped"
    lab.cluster.unschedulable = ""
    assert lab.row(waiting)["ending"] == "finished"
    lab.volume(image="Not An Image")
    record = lab.record(lab.run("ok", name="missing"))
    assert (record["ending"], record["cause"]) == ("launch_failed", "never_starts")
    assert "InvalidImageName" in record["reason"]
    assert len(lab.cluster.started) == 1


def test_a_stop_is_passed_on(lab: Lab) -> None:
    run = lab.run("long")
    lab.stepped(run)
    lab.bench.ask("stop", run["run"], "--reason", "enough")
    assert lab.row(run)["ending"] == "stopped"
    lab.tidied()


def test_nobody_answers_for_a_while(lab: Lab) -> None:
    """The API server goes away, comes back and wants another login: nothing is concluded, nothing started twice."""
    lab.cluster.unschedulable = "0/3 nodes are available"  # once it runs, its files tell so
    lab.volume()
    run = lab.run("ok")
    lab.bench.until(lambda: lab.state(run) == "pending")
    lab.kubernetes.api.stop()
    lab.bench.until(lambda: lab.state(run) == "unreachable")
    lab.kubernetes.api.start()
    lab.bench.until(lambda: lab.state(run) == "pending")
    lab.kubernetes.api.fault = Refused(401, "Unauthorized", "Unauthorized")
    lab.bench.until(lambda: lab.state(run) == "unreachable" and "log in" in str(lab.observed(run)))
    lab.kubernetes.api.fault = None
    lab.cluster.unschedulable = ""
    assert lab.row(run)["ending"] == "finished" and len(lab.cluster.started) == 1


def test_what_is_wrong_with_a_place_is_told_before_anything_is_written(lab: Lab) -> None:
    """A missing kubectl, namespace, claim, volume, context or right, an unknown field: exit 6, no row, no branch."""

    def code(check: int = 6, **env: str) -> str:
        words = ("run", lab.bench.blueprint(), "--launcher", "k8s", "--detach")
        return str(lab.bench.ask(*words, check=check, **env)["error"]["code"])

    before = lab.bench.picture("state", "kubecache", "autoresearch.yaml", "exp.md")
    tools = lab.bench.root.parent / "tools"
    tools.mkdir()
    for name in ("git", "tmux", "bash", "sh", "env", "tail", "test"):
        (tools / name).symlink_to(str(shutil.which(name)))
    assert code(PATH=str(tools)) == "no_kubectl"
    lab.volume(namespace="nowhere")
    assert code() == "kubernetes_refused"
    lab.place(claim="other", mount=str(lab.bench.root))
    assert code() == "kubernetes_refused"
    lab.place(claim="work", mount="/nowhere/at/all")
    assert code() == "no_volume"
    lab.volume(context="other")
    assert code() == "bad_kubeconfig"
    lab.volume(pod_spec={"tolerations": [{"keys": "a"}]})
    assert code() == "kubernetes_refused"
    lab.volume()
    lab.kubernetes.api.forbidden.add(("create", "jobs"))
    assert code() == "unauthorized"
    lab.volume(imgae="x")
    assert code(check=2) == "bad_launcher"
    assert lab.bench.picture("state", "kubecache", "autoresearch.yaml", "exp.md") == before
    assert not lab.kubernetes.jobs() and not lab.bench.git("branch", "--list", "autoresearch/*")
