"""Ray's launcher on a real head that wants a token: the contract, who may ask, and a head without its agent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoresearch.core.run.job_launcher import Handle, Job, JobState, Unreachable
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.ray import RayLauncher
from tests.engines.ray.head import PATIENCE_S, Head

pytestmark = [pytest.mark.real, pytest.mark.waits]

TOKEN = "a-token-of-the-tests-alone-0123456789"


@pytest.fixture(scope="module")
def guarded(ray_is_there: None) -> Iterator[Head]:
    """A head that answers whoever has the token."""
    head = Head({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}, gpus=8)
    try:
        head.start()
        head.takes_jobs()
        yield head
    finally:
        head.end()


def launcher(head: Head, token: str = TOKEN) -> RayLauncher:
    given = {"RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_TOKEN_PATH": "/nonexistent"}
    return RayLauncher(Target("ray", Kind.RAY, 1, {"address": head.address}), {**os.environ, **given})


def job(run: str) -> Job:
    argv = ("sh", "-c", "echo begun; exec sleep 600")
    return Job(run, f"ajet_{run}", "c", "/nonexistent", argv, "/", 60.0, 2.0, environment={"AUTORESEARCH_RUN_ID": run})


def test_the_contract(contract_check: Callable[..., None], guarded: Head, tmp_path: Path) -> None:
    contract_check(launcher(guarded), str(tmp_path / "far"), unknown="ajet_never", patience_s=PATIENCE_S)


@pytest.mark.parametrize("token", ["", "of-yesterday"])
def test_who_may_not_ask_is_told_so(guarded: Head, token: str) -> None:
    one = launcher(guarded, token)
    for ask in (lambda: one.submit(job("never")), lambda: one.poll([Handle("never", "ajet_never")])):
        with pytest.raises(Unreachable) as silent:
            ask()
        assert silent.value.code == "unauthorized" and TOKEN not in str(silent.value)
    (finding,) = one.preflight()
    assert finding.code == "unauthorized"
    assert not [name for name in guarded.jobs() if "never" in name]


def command_of(pid: int) -> str:
    """Its command line, "" where it is gone; a server of Ray's goes by another name once it is up."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_head_without_its_agent(guarded: Head) -> None:
    """As where another Ray of the host has its ports: jobs are still listed, none is taken, and that is no failure."""
    one = launcher(guarded)
    (raylet,) = (psutil.Process(pid) for pid in guarded.processes() if "/raylet/raylet" in command_of(pid))
    raylet.suspend()  # it would start the agent anew
    # By their parent: whoever gives itself another name writes it over its environment, and the head's mark with it.
    agents = [
        one for one in raylet.children() if one.name().startswith("ray::Dashboard") or "agent.py" in command_of(one.pid)
    ]
    assert agents
    for agent in agents:
        agent.kill()
    with pytest.raises(Unreachable) as silent:
        one.submit(job("homeless"))
    assert silent.value.code in ("no_agent", "odd_answer", "no_answer")
    with contextlib.suppress(Unreachable):
        said = one.poll([Handle("homeless", "ajet_homeless")])
        assert not said or said["homeless"].state is JobState.PENDING
