"""Lone runs on a real Slurm, through the CLI: how they end, whatever is done to them from outside."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.elsewhere import RunsElsewhere

pytestmark = [pytest.mark.real, pytest.mark.waits]


class Lab(RunsElsewhere):
    """A bench whose runs go to a Slurm cluster."""

    def __init__(self, bench: Any, cluster: Any) -> None:
        super().__init__(bench, "slurm")
        self.cluster = cluster
        bench.env |= {**cluster.env, "AUTORESEARCH_LAUNCHER": "slurm"}
        self.options()

    def options(self, **options: object) -> None:
        """What autoresearch.yaml says of the place; nobody follows it yet."""
        text = json.dumps({"launchers": {"slurm": options}})
        (self.bench.repo / "autoresearch.yaml").write_text(text)

    def begun(self, run: dict[str, Any]) -> dict[str, Any]:
        """runner.json once its trainer runs."""
        return dict(self.bench.runner(run["run_dir"]))

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
    record = lab.record(run)
    row = lab.row(run)
    assert (record["ending"], row["ending"], row["status"]) == ("finished", "finished", "keep"), record
    assert float(row["metric_value"]) == 0.5
    assert "step:2" in (Path(run["run_dir"]) / "run.log").read_text()
    assert [name for _, name, _ in lab.cluster.jobs()].count(run["session"]) == 1


def test_the_trainer_sees_what_slurm_and_setup_gave_its_job(lab: Lab) -> None:
    """Not what the shell had that submitted it, which was in another allocation."""
    lab.bench.env |= {"SLURM_NTASKS": "64", "CUDA_VISIBLE_DEVICES": "5", "MODULES": "none", "MINE": "kept"}
    names = ("SLURM_JOB_ID", "SLURM_NTASKS", "CUDA_VISIBLE_DEVICES", "MODULES", "MORE", "MINE")
    sees = f"import os, trainer; print('sees', [os.environ.get(name) for name in {names}])\n"
    (lab.bench.repo / "sees.py").write_text(sees)
    lab.options(gres="gpu:2", setup="export MODULES=loaded", environment={"MORE": "it's"})
    run = lab.run("ok", command="python sees.py")
    assert lab.record(run)["ending"] == "finished", lab.record(run)
    wanted = [lab.job(run), None, "0,1", "loaded", "it's", "kept"]
    assert f"sees {wanted}" in (Path(run["run_dir"]) / "run.log").read_text()


def test_scancel_is_told_as_what_it_was(lab: Lab) -> None:
    run = lab.run("tree")
    lab.stepped(run)
    lab.cluster.say("scancel", lab.job(run))
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("stopped", "cancelled"), record
    assert "cancelled in Slurm" in record["reason"] and lab.row(run)["ending"] == "stopped"


def test_the_queue_has_a_limit_of_its_own(lab: Lab) -> None:
    """Time in the queue is no time of the run; why it waited is told."""
    lab.options(hold=True, pending_limit="3s")
    run = lab.run("ok")
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("launch_failed", "pending_limit"), record
    assert "JobHeldUser" in record["reason"]
    lab.bench.until(lambda: not lab.cluster.jobs("PENDING", "RUNNING"))


def test_preemption_is_no_fault_of_the_idea(lab: Lab) -> None:
    lab.options(partition="batch", nodelist="n3", exclusive=True)
    run = lab.run("tree")
    lab.stepped(run)
    lab.cluster.say("sbatch", "-p", "urgent", "-w", "n3", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("lost", "preempted"), record
    assert lab.row(run)["failure"] == "preempted"


def test_the_walltime_is_a_limit(lab: Lab) -> None:
    """A minute is the least that Slurm knows; its signal comes up to half a minute early."""
    lab.options(time="1m", signal="B:USR1@20")
    run = lab.run("tree")
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("max_time", "walltime"), record
    assert "USR1" in record["reason"]


def test_a_wrong_partition_leaves_no_trace(lab: Lab) -> None:
    lab.options(partition="nope")
    path = lab.bench.blueprint()
    before = lab.bench.picture(".git")
    said = lab.bench.ask("run", path, "--detach", check=6)
    assert said["error"]["code"] == "slurm_refused" and "invalid partition" in said["error"]["message"]
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
    assert lab.record(waits)["ending"] == "finished"
    assert [name for _, name, _ in cluster.jobs()].count(waits["session"]) == 1
    lab.bench.ask("stop", lives["run"], "--reason", "enough")
    assert lab.record(lives)["cause"] == "stop_request"


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
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("lost", "node_failed"), record
    assert [state for _, name, state in cluster.jobs() if name == run["session"]] == ["NODE_FAIL"]


def test_a_job_that_is_requeued_is_one_run(lab: Lab) -> None:
    """Where a target allows it: the job starts a second time, and its Runner refuses a run that was begun before."""
    lab.options(requeue=True)
    run = lab.run("tree")
    lab.stepped(run)
    lab.cluster.say("scontrol", "requeue", lab.job(run))
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("stopped", "sigterm"), record
    assert Path(run["run_dir"], "events.jsonl").read_text().count('"event": "started"') == 1
    lab.bench.until(lambda: not lab.cluster.jobs("PENDING", "RUNNING"))
    assert lab.row(run)["ending"] == record["ending"]


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
    record = lab.record(run)
    assert (record["ending"], record["cause"]) == ("stopped", "sigterm")
    assert not cluster.jobs(), "it was not submitted a second time"


def test_a_cluster_behind_a_login_node(lab: Lab, slurm_cluster: Callable[..., Any], sshd: Any) -> None:
    """Slurm's commands are called there over ssh; files are shared."""
    cluster = slurm_cluster()
    found = "; ".join(f"export {name}={value}" for name, value in cluster.env.items())
    reached = {"host": "far", "config": str(sshd.config), "login_setup": found}
    lab.options(**reached)
    for name in cluster.env:
        lab.bench.env[name] = os.environ.get(name, "/nonexistent")
    run = lab.run("ok")
    record = lab.record(run)
    row = lab.row(run)
    assert (record["ending"], row["metric_value"], row["launcher"]) == ("finished", "0.5", "slurm"), record
    assert row["job_id"] == lab.job(run) and record["node"]
    stopped = lab.run("tree")
    lab.stepped(stopped)
    assert lab.bench.ask("stop", stopped["run"], "--reason", "enough", check=None)["ending"] == "stopped"
    assert lab.record(stopped)["cause"] == "stop_request"
    assert len(cluster.jobs()) == 2


def test_a_container_is_a_prefix_of_the_runner(lab: Lab) -> None:
    """The same Runner is started in it; what the run declares counts, then what is set there, then the shell's."""
    names = ("IN", "MINE", "SHELLS", "BOTH", "PATH")
    sees = f"import os, trainer; print('sees', [os.environ[name] for name in {names}])\n"
    (lab.bench.repo / "inside.py").write_text(f"{sees}print(os.listdir('/srv'))\n")
    lab.bench.env |= {"SHELLS": "own", "BOTH": "of the shell"}
    inside = "bwrap --dev-bind / / --tmpfs /srv --dir /srv/mark --clearenv --setenv IN yes --setenv BOTH there"
    inside += " --setenv PATH /usr/bin:/bin"
    lab.options(container=inside)
    run = lab.run("ok", command=f"{sys.executable} inside.py", notes="- env: MINE=declared")
    assert lab.record(run)["ending"] == "finished", lab.record(run)
    log = (Path(run["run_dir"]) / "run.log").read_text()
    assert "sees ['yes', 'declared', 'own', 'there'," in log and ":/usr/bin:/bin']" in log and "['mark']" in log
    assert "exec bwrap --dev-bind / /" in (Path(run["run_dir"]) / "far" / "slurm.sh").read_text()


RAY_LIKE = Path(__file__).parents[1] / "engines" / "slurm" / "ray_like.sub"


def test_a_multi_node_launch_script_is_wrapped(lab: Lab) -> None:
    """As NeMo-RL's ray.sub: its own nodes and steps, and the Runner is its COMMAND."""
    lab.options(script=str(RAY_LIKE), environment={"CONTAINER": "none"}, cpus_per_task=1)
    run = lab.run("ok")
    record = lab.record(run)
    assert record["ending"] == "finished", record
    far, job = Path(run["run_dir"]) / "far", lab.job(run)
    lab.bench.until(lambda: (job, run["session"], "COMPLETED") in lab.cluster.jobs())
    marks = {path.name for path in (far / f"{job}-logs").iterdir()}
    assert {"STARTED_RAY_HEAD", "joined", "ENDED", "ray-driver.log"} <= marks
    shown = lab.cluster.say("scontrol", "show", "job", "-o", job)
    assert " NumNodes=2 " in shown and f":{run['run']} " in shown


def test_a_launch_script_is_stopped_by_its_runner(lab: Lab) -> None:
    lab.options(script=str(RAY_LIKE))
    run = lab.run("tree")
    lab.stepped(run)
    lab.bench.ask("stop", run["run"], "--reason", "enough")
    assert lab.record(run)["cause"] == "stop_request"
    lab.bench.until(lambda: not lab.cluster.jobs("PENDING", "RUNNING", "COMPLETING"))
