"""The Slurm launcher against a real Slurm of the test's own: what it submits, sees, stops and is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Observation
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.slurm import SlurmLauncher

pytestmark = pytest.mark.real


class Desk:
    """One launcher, and jobs that do what a test says in place of a Runner."""

    def __init__(self, cluster: Any, root: Path) -> None:
        self.cluster = cluster
        self.root = root
        self.number = 0
        self.mark = uuid.uuid4().hex[:8]

    def launcher(self, **options: Any) -> SlurmLauncher:
        return SlurmLauncher(Target("slurm", Kind.SLURM, 4, options), {**os.environ, **self.cluster.env})

    def job(self, command: str, **more: Any) -> Job:
        """A job that runs a shell command; its far directory is there."""
        self.number += 1
        far = self.root / f"r{self.number}" / "far"
        far.mkdir(parents=True)
        (far / "spec.json").write_text("{}")
        usual: dict[str, Any] = {
            "run": f"run-{self.mark}-{self.number}",
            "name": f"ajet_r{self.number}_{self.mark}",
            "campaign": "camp",
            "directory": str(far),
            "argv": ("bash", "-c", command),
            "cwd": str(self.root),
            "max_s": 300.0,
            "grace_s": 5.0,
        }
        return Job(**{**usual, **more})


@pytest.fixture
def desk(slurm: Any, tmp_path: Path) -> Iterator[Desk]:
    one = Desk(slurm, tmp_path)
    yield one
    for native, name, _ in slurm.jobs("PENDING", "RUNNING", "COMPLETING"):
        if name.endswith(f"_{one.mark}"):
            slurm.say("scancel", native)


@pytest.fixture
def seen(eventually: Callable[..., None]) -> Callable[..., Observation]:
    """Poll until a job is in a state; the last observation."""

    def wait(launcher: SlurmLauncher, handle: Handle, state: JobState) -> Observation:
        found: list[Observation] = []

        def there() -> bool:
            found[:] = [launcher.poll([handle])[handle.run]]
            return found[0].state is state

        eventually(there)
        return found[0]

    return wait


def test_the_contract(contract_check: Callable[..., None], desk: Desk) -> None:
    contract_check(desk.launcher(), str(desk.root / "far"))


def test_a_job_carries_the_run_and_its_limits(desk: Desk, slurm: Any, seen: Any) -> None:
    launcher = desk.launcher(cpus_per_task=2, nice=7)
    job = desk.job("sleep 600", gpus=2)
    handle = launcher.submit(job)
    assert seen(launcher, handle, JobState.RUNNING).node.startswith("n")
    shown = slurm.say("scontrol", "show", "job", "-o", handle.native)
    assert f"JobName={job.name} " in shown and f"Comment=autoresearch:camp:{job.run} " in shown
    assert " TimeLimit=00:13:00 " in shown  # 5 min of its own, 5 of margin, 2 for the signal, 1 that it may come early
    assert " Requeue=0 " in shown and " Nice=7 " in shown and "gres:gpu:2" in shown and "CPUs/Task=2" in shown
    launcher.stop(handle, hard=True)
    assert seen(launcher, handle, JobState.OVER).cause == "cancelled"


@pytest.mark.parametrize("own", [{}, {"comment": "of the site"}])
def test_a_submit_that_may_have_got_through_is_found_again(desk: Desk, slurm: Any, own: dict[str, str]) -> None:
    launcher, job = desk.launcher(**own), desk.job("sleep 600")
    first = launcher.submit(job)
    assert job.run in launcher.poll([first])
    assert launcher.submit(replace(job, again=True)).native == first.native
    assert [name for _, name, _ in slurm.jobs()].count(job.name) == 1


def test_of_two_jobs_of_one_run_the_younger_one_waits_and_is_cancelled(desk: Desk, slurm: Any, seen: Any) -> None:
    launcher, job = desk.launcher(), desk.job("sleep 600")
    first, second = launcher.submit(job), launcher.submit(job)
    seen(launcher, first, JobState.RUNNING)
    assert seen(launcher, second, JobState.PENDING).reason == "Dependency"
    assert launcher.submit(replace(job, again=True)).native == first.native
    assert seen(launcher, second, JobState.OVER).word == "CANCELLED"


def test_its_last_words_say_why_it_failed(desk: Desk, seen: Any) -> None:
    launcher = desk.launcher(setup="echo 'module: command not found' >&2; exit 9")
    over = seen(launcher, launcher.submit(desk.job("true")), JobState.OVER)
    assert "exit code 9" in over.reason and "module: command not found" in over.reason


REFUSED = [
    ({"partition": "nope"}, "invalid partition"),
    ({"constraint": "zz"}, "Invalid feature"),
    ({"reservation": "zz"}, "reservation is invalid"),
    ({"nodelist": "n77"}, "Invalid node name"),
    ({"foo": True}, "unrecognized option '--foo'"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_slurm_refuses_is_declined_in_its_own_words(desk: Desk, options: dict[str, Any], words: str) -> None:
    launcher = desk.launcher(**options)
    with pytest.raises(Declined) as no:
        launcher.submit(desk.job("true"))
    assert words in no.value.reason and no.value.hint
    (error,) = launcher.preflight()
    assert (error.severity, error.code) == ("error", "slurm_refused") and words in error.message


def test_what_no_node_has_is_refused_when_it_is_sent(desk: Desk) -> None:
    launcher = desk.launcher(gres="gpu:9")
    assert [one.severity for one in launcher.preflight()] == ["warning"]
    with pytest.raises(Declined, match="node configuration is not available"):
        launcher.submit(desk.job("true"))


def test_a_node_that_is_drained_is_waited_for(desk: Desk, slurm: Any, eventually: Any) -> None:
    """`sbatch --test-only` refuses what sbatch itself lets wait."""

    def node(state: str) -> None:
        words = ["scontrol", "update", "nodename=ALL", f"state={state}", "reason=a test"]
        subprocess.run(words, env={**os.environ, **slurm.env}, check=True)

    launcher = desk.launcher()
    node("drain")
    try:
        eventually(launcher.preflight)
        assert [(f.severity, f.code) for f in launcher.preflight()] == [("warning", "slurm_no_room")]
        handle = launcher.submit(desk.job("true"))
    finally:
        node("resume")
    eventually(lambda: launcher.poll([handle])[handle.run].state is JobState.OVER)


def test_a_job_killed_with_its_runner_is_told(desk: Desk, seen: Any, eventually: Any) -> None:
    pid = desk.root / "pid"
    launcher = desk.launcher()
    handle = launcher.submit(desk.job(f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"))
    eventually(pid.exists)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    over = seen(launcher, handle, JobState.OVER)
    assert (over.word, over.ending) == ("FAILED", None) and "signal 9" in over.reason


def test_a_node_that_does_not_see_the_run_directory(slurm_cluster: Any, tmp_path: Path, seen: Any) -> None:
    cluster = slurm_cluster(blind=str(tmp_path))
    desk = Desk(cluster, tmp_path)
    launcher = desk.launcher()
    over = seen(launcher, launcher.submit(desk.job("true")), JobState.OVER)
    assert (over.ending, over.cause) == (Ending.LAUNCH_FAILED, "not_shared")
    assert "does not see the run directory" in over.reason


def test_the_batch_script_is_kept_and_a_person_can_submit_it(desk: Desk, seen: Any) -> None:
    """The header says what sbatch was told, so `sbatch slurm.sh` asks for the same job."""
    job = desk.job(f"echo ran >> {desk.root}/ran")
    launcher = desk.launcher(time="7m")
    seen(launcher, launcher.submit(job), JobState.OVER)
    script = Path(job.directory, "slurm.sh")
    again = subprocess.run(["sbatch", "--parsable", "--wait", script], env={**os.environ, **desk.cluster.env}, cwd="/")
    assert again.returncode == 0 and (desk.root / "ran").read_text() == "ran\nran\n"
    assert "#SBATCH --time=7" in script.read_text()
