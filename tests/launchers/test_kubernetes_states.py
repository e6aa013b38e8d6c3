"""What statuses of Jobs and pods come to: a table, with the near miss beside each."""

from __future__ import annotations

from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.core.run.job_launcher import JobState, Observation
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.kubernetes_states import disruption, observe

PLACE = Target("k8s", Kind.KUBERNETES, 2, {"image": "x", "claim": "c", "mount": "/m"})
PENDING, RUNNING, OVER = JobState.PENDING, JobState.RUNNING, JobState.OVER


def job(reason: str = "", *, kind: str = "Failed", message: str = "", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True", "reason": reason, "message": message}] if reason else []
    return {"kind": "Job", "metadata": {"name": "j"}, "spec": spec, "status": {"conditions": conditions}}


def pod(phase: str = "Pending", *, state: Any = None, node: str = "", conditions: Any = (), **status: Any) -> Any:
    """A pod with one container."""
    containers = [{"name": "runner", "state": state}] if state else []
    whole = {"phase": phase, "conditions": list(conditions), "containerStatuses": containers, **status}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": node} if node else {}, "status": whole}


def waits(reason: str, message: str = "", node: str = "n1") -> Any:
    return pod(state={"waiting": {"reason": reason, "message": message}}, node=node)


def ended(why: str, code: int, **status: Any) -> Any:
    return pod("Failed", state={"terminated": {"reason": why, "exitCode": code}}, **status)


def marked(reason: str, phase: str = "Running") -> Any:
    about = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": f"{reason} it is"}
    return pod(phase, conditions=[about])


def short(found: Observation) -> tuple[Any, ...]:
    return found.state, found.ending, found.cause


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no GPU"}
NO_IMAGE = 'rpc error: code = NotFound desc = failed to pull image "x": manifest unknown'
SLOW = "dial tcp 10.0.0.1:443: i/o timeout"
BACKOFF = "Job has reached the specified backoff limit"
RULE = "Pod default/j-0 has condition DisruptionTarget matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("found", "pods", "says"),
    [
        (job(), [], (PENDING, None, "")),
        (job(suspend=True), [], (PENDING, None, "")),
        (job(), [pod(conditions=[UNSCHEDULABLE])], (PENDING, None, "")),
        (job(), [waits("ContainerCreating")], (PENDING, None, "")),
        (job(), [pod("Running", node="n1")], (RUNNING, None, "")),
        (job("Completions", kind="Complete"), [], (OVER, None, "")),
        (job(BACKOFF), [ended("Error", 3)], (OVER, None, "")),
        (job("DeadlineExceeded"), [], (OVER, Ending.MAX_TIME, "walltime")),
        (job(BACKOFF), [ended("Error", 143, reason="DeadlineExceeded")], (OVER, Ending.MAX_TIME, "walltime")),
        (job(BACKOFF), [ended("Error", 143, reason="Evicted")], (OVER, Ending.LOST, "preempted")),
        (job(BACKOFF), [ended("Error", 137, reason="NodeLost")], (OVER, Ending.LOST, "node_failed")),
        (job(BACKOFF), [ended("OOMKilled", 137)], (OVER, Ending.CRASHED, "memory")),
        (job(BACKOFF), [ended("StartError", 128)], (OVER, Ending.LAUNCH_FAILED, "no_start")),
        (job("PodFailurePolicy", message=RULE), [], (OVER, Ending.LOST, "preempted")),
        (
            job("PodFailurePolicy", message=RULE),
            [marked("DeletionByTaintManager", "Failed")],
            (OVER, Ending.LOST, "node_failed"),
        ),
        (job("PodFailurePolicy", message="exit code 7 matches"), [], (OVER, None, "")),
        (job(), [ended("Error", 1)], (OVER, None, "")),  # its controller is away
    ],
)
def test_plain_jobs(found: Any, pods: list[Any], says: tuple[Any, ...]) -> None:
    assert short(observe(found, pods)) == says


@pytest.mark.parametrize(
    ("one", "hopeless"),
    [
        (waits("ImagePullBackOff", NO_IMAGE), True),
        (waits("ImagePullBackOff", SLOW), None),
        (waits("ErrImagePull", "pull access denied, repository does not exist"), True),
        (waits("InvalidImageName", "couldn't parse"), True),
        (waits("CrashLoopBackOff"), True),
        (waits("CreateContainerConfigError", 'secret "x" not found'), True),
        (waits("ContainerCreating"), False),
        (pod(conditions=[UNSCHEDULABLE]), False),
    ],
)
def test_what_would_wait_for_ever(one: Any, hopeless: bool | None) -> None:
    found = observe(job(), [one])
    assert found.state is PENDING and found.hopeless is hopeless


def test_reasons_are_told() -> None:
    assert observe(job(), [pod(conditions=[UNSCHEDULABLE])]).reason == "0/3 nodes: no GPU"
    assert observe(job(), [waits("ErrImagePull", SLOW)]).reason == f"ErrImagePull: {SLOW}"
    assert observe(job(), [pod("Running", node="n7")]).node == "n7"
    assert observe(job(BACKOFF), [ended("Error", 3)]).returncode == 3


def test_a_disruption_outranks_the_record_of_a_term() -> None:
    found = disruption(marked("PreemptionByScheduler"))
    assert found and found.outranks and (found.ending, found.cause) == (Ending.LOST, "preempted")
    assert disruption(marked("SomethingElse")) is None and disruption(pod("Running")) is None
    assert short(observe(job(), [marked("PreemptionByScheduler")])) == (RUNNING, None, "")
