"""Lone runs on a real Slurm, through the CLI: how they end, whatever is done to them from outside."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

pytestmark = [pytest.mark.real, pytest.mark.waits]


class Lab:
    """A bench whose runs go to a Slurm cluster."""

    def __init__(self, bench: Any, cluster: Any) -> None:
        self.bench = bench
        self.cluster = cluster
        bench.env |= {**cluster.env, "AUTORESEARCH_LAUNCHER": "slurm"}
        self.options(margin="1m", signal=30)

    def options(self, **options: object) -> None:
        """What autoresearch.yaml says of the place; nobody follows it yet."""
        text = json.dumps({"launchers": {"slurm": options}})
        (self.bench.repo / "autoresearch.yaml").write_text(text)

    def run(self, mode: str = "ok", *flags: object, **values: str) -> dict[str, Any]:
        """Order a run; it is not waited for."""
        values.setdefault("result_dir", str(self.bench.root / f"results-{mode}"))
        path = self.bench.blueprint(mode, name=f"{mode}.md", **values)
        answer: dict[str, Any] = self.bench.ask("run", path, "--yes", "--detach", *flags)
        return answer

    def order(self, run: dict[str, Any]) -> dict[str, Any]:
        """Its order once it was submitted."""
        path = Path(run["run_dir"]) / "order.json"

        def submitted() -> dict[str, Any]:
            order = json.loads(path.read_bytes())
            return dict(order) if order.get("handle") else {}

        return dict(self.bench.until(submitted))

    def job(self, run: dict[str, Any]) -> str:
        """What Slurm calls it."""
        return str(self.order(run)["handle"]["native"])

    def begun(self, run: dict[str, Any]) -> dict[str, Any]:
        """runner.json once its trainer runs."""
        return dict(self.bench.runner(run["run_dir"]))

    def stepped(self, run: dict[str, Any]) -> None:
        """Wait for the first step."""
        self.bench.event(run["run_dir"], "first_step")

    def ended(self, run: dict[str, Any]) -> dict[str, Any]:
        """Its exit record here, once its row is written too."""
        self.bench.until(lambda: list(Path(run["result_dir"]).rglob("finish.flag")))
        return dict(json.loads((Path(run["run_dir"]) / "exit.json").read_bytes()))

    def row(self, run: dict[str, Any]) -> dict[str, str]:
        """Its one row."""
        (row,) = ledger_rows(run["ledger"], run["run"])
        return row

    def close(self) -> None:
        """End what is in the queue, the Followers, which would wait for more, and what shows logs."""
        for native, _, _ in self.cluster.jobs("PENDING", "RUNNING"):
            self.cluster.say("scancel", native, check=False)
        self.bench.end_followers()


@pytest.fixture
def lab(bench: Any, slurm: Any) -> Iterator[Lab]:
    one = Lab(bench, slurm)
    yield one
    one.close()


def test_a_run_on_slurm_is_a_run(lab: Lab) -> None:
    run = lab.run()
    record = lab.ended(run)
    row = lab.row(run)
    assert (record["ending"], row["ending"], row["status"]) == ("finished", "finished", "keep"), record
    assert float(row["metric_value"]) == 0.5
    assert "step:2" in (Path(run["run_dir"]) / "run.log").read_text()
    assert [name for _, name, _ in lab.cluster.jobs()].count(run["session"]) == 1


def test_scancel_is_told_as_what_it_was(lab: Lab) -> None:
    run = lab.run("tree")
    lab.stepped(run)
    lab.cluster.say("scancel", lab.job(run))
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("stopped", "cancelled"), record
    assert "cancelled in Slurm" in record["reason"] and lab.row(run)["ending"] == "stopped"


def test_the_queue_has_a_limit_of_its_own(lab: Lab) -> None:
    """Time in the queue is no time of the run; why it waited is told."""
    lab.options(extra=["--hold"], pending_limit="3s")
    run = lab.run("ok")
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("launch_failed", "pending_limit"), record
    assert "JobHeldUser" in record["reason"]
    lab.bench.until(lambda: not lab.cluster.jobs("PENDING", "RUNNING"))


def test_preemption_is_no_fault_of_the_idea(lab: Lab) -> None:
    lab.options(partition="batch", nodelist="n3", exclusive=True)
    run = lab.run("tree")
    lab.stepped(run)
    lab.cluster.say("sbatch", "-p", "urgent", "-w", "n3", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("lost", "preempted"), record
    assert lab.row(run)["failure"] == "preempted"


def test_the_walltime_is_a_limit(lab: Lab) -> None:
    """A minute is the least that Slurm knows; its signal comes up to half a minute early."""
    lab.options(time="1m", signal=30)
    run = lab.run("tree")
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("max_time", "walltime"), record
    assert "USR1" in record["reason"]


def test_a_wrong_partition_leaves_no_trace(lab: Lab) -> None:
    lab.options(partition="nope")
    path = lab.bench.blueprint()
    before = lab.bench.picture(".git")
    said = lab.bench.ask("run", path, "--yes", "--detach", check=6)
    assert said["error"]["code"] == "slurm_refused_partition" and "partition" in said["error"]["hint"]
    assert lab.bench.picture(".git") == before
    assert not lab.bench.git("branch", "--list", "autoresearch/*") and not lab.bench.ask("status")["runs"]


def test_a_controller_that_is_down_costs_nothing(lab: Lab, slurm_cluster: Callable[..., Any]) -> None:
    """A run that lives goes on; one that is ordered meanwhile waits, and is submitted once."""
    cluster = slurm_cluster(timeout_s=2)
    lab.bench.env |= cluster.env
    lives = lab.run("tree")
    lab.stepped(lives)
    cluster.kill("slurmctld", signal.SIGTERM)
    waits = lab.run("ok")
    lab.bench.until(lambda: seen_as(waits) == "unreachable")
    assert not (Path(lives["run_dir"]) / "exit.json").exists() and lab.begun(lives)["trainer_pid"]
    cluster.start_controller(afresh=False)
    assert lab.ended(waits)["ending"] == "finished"
    assert [name for _, name, _ in cluster.jobs()].count(waits["session"]) == 1
    lab.bench.ask("stop", lives["run"], "--reason", "enough")
    assert lab.ended(lives)["cause"] == "stop_request"


def seen_as(run: dict[str, Any]) -> str:
    """The state that was seen last."""
    path = Path(run["run_dir"]) / "observed.json"
    return str(json.loads(path.read_bytes())["state"]) if path.exists() else ""


def test_a_node_that_fails(lab: Lab, slurm_cluster: Callable[..., Any]) -> None:
    """Slurm needs its SlurmdTimeout to see it, and the job is not run a second time."""
    cluster = slurm_cluster(nodes=2, node_timeout_s=6)
    lab.bench.env |= cluster.env
    run = lab.run("tree")
    lab.stepped(run)
    node = cluster.say("squeue", "-h", "-j", lab.job(run), "-o", "%N")
    cluster.lose(node)
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("lost", "node_failed"), record
    assert [state for _, name, state in cluster.jobs() if name == run["session"]] == ["NODE_FAIL"]


def test_a_job_that_slurm_has_forgotten(lab: Lab, slurm_cluster: Callable[..., Any]) -> None:
    """Nobody looked while it ended, and Slurm keeps no accounts: the exit record says how it ended."""
    cluster = slurm_cluster()
    lab.bench.env |= cluster.env
    run = lab.run("tree")
    lab.stepped(run)
    pid = lab.begun(run)["pid"]  # a look copies it here
    lab.bench.end_followers(signal.SIGKILL)
    os.kill(pid, signal.SIGTERM)
    lab.bench.until(lambda: [state for _, _, state in cluster.jobs()] == ["FAILED"])
    cluster.kill("slurmctld")
    cluster.start_controller(afresh=True)
    cluster.until_idle()
    lab.bench.ask("status", run["run"])
    record = lab.ended(run)
    assert (record["ending"], record["cause"]) == ("stopped", "sigterm")
    assert not cluster.jobs(), "it was not submitted a second time"


def test_one_job_though_its_submitter_dies_before_it_notes_it(lab: Lab) -> None:
    """At each other point: `tests/lab/remote/test_refresh.py`."""
    path = lab.bench.blueprint("tree", result_dir=str(lab.bench.root / "results"))
    lab.bench.tmux("start-server", ";", "set", "-s", "exit-empty", "off")  # it must not inherit the failpoint
    lab.bench.cli("run", path, "--yes", "--detach", AUTORESEARCH_FAILPOINT="refresh.submitted:kill", check=None)
    run = lab.bench.ask("status", "last")
    lab.stepped(run)
    assert [name for _, name, _ in lab.cluster.jobs()].count(run["session"]) == 1
    lab.bench.ask("stop", run["run"], "--reason", "enough")
    assert lab.ended(run)["ending"] == "stopped"


def test_a_cluster_behind_a_login_node(lab: Lab, slurm_cluster: Callable[..., Any], sshd: Any) -> None:
    """Slurm's commands are called there over ssh; files are shared."""
    cluster = slurm_cluster()
    found = "; ".join(f"export {name}={value}" for name, value in cluster.env.items())
    reached = {"host": "far", "config": str(sshd.config), "login_setup": found}
    lab.options(**reached, margin="1m", signal=30)
    for name in cluster.env:
        lab.bench.env[name] = os.environ.get(name, "/nonexistent")
    run = lab.run("ok")
    record = lab.ended(run)
    row = lab.row(run)
    assert (record["ending"], row["metric_value"], row["launcher"]) == ("finished", "0.5", "slurm"), record
    assert row["job_id"] == lab.job(run) and record["node"]
    stopped = lab.run("tree")
    lab.stepped(stopped)
    assert lab.bench.ask("stop", stopped["run"], "--reason", "enough", check=None)["ending"] == "stopped"
    assert lab.ended(stopped)["cause"] == "stop_request"
    assert len(cluster.jobs()) == 2


RAY_LIKE = Path(__file__).parents[1] / "engines" / "slurm" / "ray_like.sub"


def test_a_multi_node_launch_script_is_wrapped(lab: Lab) -> None:
    """As NeMo-RL's ray.sub: its own nodes and steps, and the Runner is its COMMAND."""
    lab.options(script=str(RAY_LIKE), environment={"CONTAINER": "none"}, cpus_per_task=1)
    run = lab.run("ok")
    record = lab.ended(run)
    assert record["ending"] == "finished", record
    far, job = Path(run["run_dir"]) / "far", lab.job(run)
    marks = {path.name for path in (far / f"{job}-logs").iterdir()}
    assert {"STARTED_RAY_HEAD", "joined", "ENDED", "ray-driver.log"} <= marks
    lab.bench.until(lambda: (job, run["session"], "COMPLETED") in lab.cluster.jobs())
    shown = lab.cluster.say("scontrol", "show", "job", "-o", job)
    assert " NumNodes=2 " in shown and f":{run['run']} " in shown


def test_a_launch_script_is_stopped_by_its_runner(lab: Lab) -> None:
    lab.options(script=str(RAY_LIKE))
    run = lab.run("tree")
    lab.stepped(run)
    lab.bench.ask("stop", run["run"], "--reason", "enough")
    assert lab.ended(run)["cause"] == "stop_request"
    lab.bench.until(lambda: not lab.cluster.jobs("PENDING", "RUNNING", "COMPLETING"))
