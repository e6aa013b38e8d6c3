"""Ray's launcher against a server that answers as Ray's head does; the real one: `test_real_ray_launcher.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import Declined, Handle, Job, JobState, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.errors import UsageError
from autoresearch.lab.remote_files.upload import runner_files
from autoresearch.launchers import ray
from autoresearch.launchers.ray import RayLauncher
from autoresearch.launchers.registry import check, pinned
from tests.processes import is_dead

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}


def launcher(fake: Any, environ: dict[str, str] | None = None, **options: Any) -> RayLauncher:
    place = Target("ray", Kind.RAY, 1, {"address": fake.address, **options})
    return RayLauncher(place, {**ENV, **(environ or {})})


def job(run: str = "lr-abc123", **changes: Any) -> Job:
    given = {"argv": ("true",), "cwd": "/", "max_s": 60.0, "grace_s": 5.0, "directory": "/nowhere"}
    given |= {"environment": {"AUTORESEARCH_RUN_ID": run}}
    return Job(run, f"ajet_{run}", "20260101-lr", **{**given, **changes})


@pytest.mark.system
def test_the_contract(contract_check: Callable[..., None], fake_ray: Any, tmp_path: Path) -> None:
    contract_check(launcher(fake_ray), str(tmp_path / "far"), unknown="ajet_never", python=sys.executable)


# -- submitting -------------------------------------------------------------------------------------------------------


@pytest.mark.system
def test_what_is_submitted(fake_ray: Any, eventually: Any) -> None:
    """The name comes from the run; what everybody can read holds no environment and no token; nothing is reserved."""
    fake_ray.token = "secret"
    handle = launcher(fake_ray, environ={"RAY_AUTH_TOKEN": "secret"}).submit(job())
    said = fake_ray.jobs["ajet_lr-abc123"].said
    assert handle.native == "ajet_lr-abc123" and "secret" not in json.dumps(said)
    assert said["entrypoint"] == "exec env AUTORESEARCH_RUN_ID=lr-abc123 true"
    assert said["metadata"]["autoresearch_run"] == "lr-abc123"
    assert int(said["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) > 5


def test_what_a_driver_reserves(fake_ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing unless it is said, `gpus_per_run` included: a trainer on Ray takes its GPUs by itself."""
    bodies: list[dict[str, Any]] = []
    monkeypatch.setattr(fake_ray, "submit", lambda body: bodies.append(body) or (200, {}))
    launcher(fake_ray).submit(job(gpus=8))
    launcher(fake_ray, driver_gpus=2, driver_resources={"pool_a": 1}).submit(job())
    assert not [key for key in bodies[0] if key.startswith("entrypoint_")]
    assert (bodies[1]["entrypoint_num_gpus"], bodies[1]["entrypoint_resources"]) == (2.0, {"pool_a": 1})


@pytest.mark.system
def test_an_answer_that_was_lost(fake_ray: Any) -> None:
    """Submitted, and nobody heard of it: unreachable, and the next submit finds that one job."""
    one = launcher(fake_ray)
    fake_ray.lose_answers = True
    with pytest.raises(Unreachable):
        one.submit(job())
    fake_ray.lose_answers = False
    assert one.submit(job(again=True)).native == "ajet_lr-abc123"
    assert fake_ray.asked["POST /api/jobs/"] == 1


@pytest.mark.system
def test_a_name_that_is_taken_is_ours(fake_ray: Any) -> None:
    """HTTP 500 with a traceback: the head is asked, and knows it."""
    one = launcher(fake_ray)
    assert one.submit(job()) == one.submit(job())
    assert len(fake_ray.jobs) == 1


@pytest.mark.system
@pytest.mark.parametrize(
    "said", [(200, "<html>Log in</html>"), (404, "default backend - 404"), (405, "Not Allowed"), (409, "Conflict")]
)
def test_what_a_proxy_says_is_neither_a_job_nor_a_refusal(
    fake_ray: Any, monkeypatch: pytest.MonkeyPatch, said: tuple[int, str]
) -> None:
    """In the place of a head that is away: the run is submitted when that is back, once."""
    one = launcher(fake_ray)
    with monkeypatch.context() as away:
        away.setattr(fake_ray, "submit", lambda body: said)
        with pytest.raises(Unreachable):
            one.submit(job())
    assert one.submit(job(again=True)).native in fake_ray.jobs


def test_a_head_without_an_agent_is_waited_for(fake_ray: Any) -> None:
    fake_ray.no_agent = True
    with pytest.raises(Unreachable) as silent:
        launcher(fake_ray).submit(job())
    assert silent.value.code == "no_agent" and "--dashboard-agent-listen-port" in silent.value.hint


def test_a_request_that_ray_does_not_understand_is_declined(fake_ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = launcher(fake_ray)
    monkeypatch.setattr(one, "request", lambda job: {"entrypoint": "true", "oops": 1})
    with pytest.raises(Declined, match="unexpected keyword argument 'oops'"):
        one.submit(job())


# -- who may ask ------------------------------------------------------------------------------------------------------


def test_nobody_answers(fake_ray: Any) -> None:
    one = launcher(fake_ray)
    fake_ray.silent = True
    with pytest.raises(Unreachable) as silent:
        one.poll([Handle("r", "ajet_r")])
    assert fake_ray.address in silent.value.reason
    assert one.preflight()[0].code == "no_ray"


def test_addresses() -> None:
    def url(environ: dict[str, str], **options: str) -> str:
        return RayLauncher(Target("ray", Kind.RAY, 1, options), environ).api.url

    assert url({}) == "http://127.0.0.1:8265"
    assert url({"RAY_ADDRESS": "http://a:1", "RAY_API_SERVER_ADDRESS": "https://b"}) == "https://b"
    assert url({"RAY_ADDRESS": "http://a:1"}, address="head:8265") == "http://head:8265"
    with pytest.raises(UsageError, match="no dashboard"):
        url({"RAY_ADDRESS": "ray://head:10001"})
    with pytest.raises(UsageError):
        check(Target("ray", Kind.RAY, 1, {"adress": "http://head:8265"}))


def test_two_shells_that_mean_two_clusters_have_two_targets() -> None:
    place, said = Target("ray", Kind.RAY, 1), Target("ray", Kind.RAY, 1, {"address": "http://c:1"})
    first, second = (pinned(place, {"RAY_ADDRESS": f"http://{host}:8265"}) for host in "ab")
    assert first.text("address") == "http://a:8265" and first.key != second.key != place.key
    assert pinned(place, {}) == place and pinned(said, {"RAY_ADDRESS": "http://a:1"}) == said
    other = Target("slurm", Kind.SLURM, 1)
    assert pinned(other, {"RAY_ADDRESS": "http://a:1"}) == other


# -- polling ----------------------------------------------------------------------------------------------------------


def test_one_call_however_many(fake_ray: Any) -> None:
    fake_ray.hold, count = True, 1000
    for number in range(count):
        fake_ray.submit({"entrypoint": "true", "submission_id": f"ajet_{number}"})
    fake_ray.asked.clear()
    said = launcher(fake_ray).poll([Handle(str(number), f"ajet_{number}") for number in range(count)])
    assert len(said) == count and fake_ray.asked.total() == 1
    assert said["0"].state is JobState.PENDING and "waiting for resources" in said["0"].reason


# `message` and `error_type` as Ray 2.60 wrote them
DIED = "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor"
LATE = "Job supervisor actor failed to start within 900.0 seconds. This timeout can be configured by setting"
RECORDED = [
    ({"status": "RUNNING", "message": "Job is currently running."}, JobState.RUNNING, None, "", None),
    ({"status": "SUCCEEDED", "message": "Job finished successfully.", "driver_exit_code": 0}, None, None, "", 0),
    (
        {"status": "FAILED", "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "driver_exit_code": 3, "message": "failed"},
        *(None, None, "job_entrypoint_command_error", 3),
    ),
    (
        {"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": DIED},
        *(None, None, "job_supervisor_actor_died", None),
    ),
    (
        {"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "message": LATE},
        *(None, Ending.LAUNCH_FAILED, "job_supervisor_actor_start_timeout", None),
    ),
    (
        {"status": "FAILED", "error_type": "RUNTIME_ENV_SETUP_FAILURE", "message": "runtime_env setup failed: pip"},
        *(None, Ending.LAUNCH_FAILED, "runtime_env_setup_failure", None),
    ),
    ({"status": "STOPPED", "message": "Job was intentionally stopped."}, None, Ending.STOPPED, "ray_stopped", None),
]


@pytest.mark.parametrize(("said", "state", "ending", "cause", "returncode"), RECORDED)
def test_what_ray_says_of_a_job(
    said: dict[str, Any], state: JobState | None, ending: Ending | None, cause: str, returncode: int | None
) -> None:
    found = ray.observation({"driver_agent_http_address": "http://10.1.2.3:52365", **said})
    assert found.state is (state or JobState.OVER) and (found.ending, found.cause) == (ending, cause)
    assert (found.returncode, found.node, found.word) == (returncode, "10.1.2.3", said["status"])
    assert found.state is JobState.RUNNING or said["message"].split("\n")[0] in found.reason


def test_a_word_that_nobody_knows_decides_nothing() -> None:
    assert ray.observation({"status": "HIBERNATING"}).state is JobState.UNKNOWN


@pytest.mark.system
def test_what_a_killed_runner_left_is_ended(fake_ray: Any, eventually: Any, tmp_path: Path) -> None:
    """Its supervisor died and it with that: the trainer, in a session of its own, is found by the run id."""
    start = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' & sleep 600"
    one = launcher(fake_ray)
    runner = tmp_path / "runner_of_test"
    runner.mkdir()
    for name, data in runner_files().items():
        (runner / name).write_bytes(data)
    (runner / "__main__.py").write_text(f"import os; os.execvp('sh', ['sh', '-c', {start!r}])")
    handle = one.submit(job("lone-abc123", argv=(sys.executable, "-S", str(runner), str(tmp_path))))
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    fake_ray.jobs["ajet_lone-abc123"].process.kill()
    fake_ray.jobs["ajet_lone-abc123"].said["driver_exit_code"] = None
    fake_ray.jobs["ajet_lone-abc123"].said |= {"status": "FAILED", "error_type": "JOB_SUPERVISOR_ACTOR_DIED"}
    one.forget(handle)
    eventually(lambda: is_dead(pid))
