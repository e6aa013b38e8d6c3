"""The Kubernetes launcher and the real kubectl, against an API server and a cluster of our own making.

No kubelet ever ran a pod here: containers are processes of this machine (tests/engines/kubernetes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Declined, Handle, Job
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers.kubernetes import PLACE, RUN, KubernetesLauncher, label_value

pytestmark = pytest.mark.real


@pytest.fixture
def launcher(kubernetes: Any) -> Callable[..., KubernetesLauncher]:
    """Make a launcher for the test's cluster, with more options."""

    def make(**options: Any) -> KubernetesLauncher:
        place = Target("kubernetes", Kind.KUBERNETES, 2, kubernetes.options(**options))
        return KubernetesLauncher(place, dict(os.environ))

    return make


def test_the_contract_with_a_claim(
    contract_check: Any, launcher: Callable[..., KubernetesLauncher], tmp_path: Path
) -> None:
    made = launcher(claim="work", mount=str(tmp_path))
    contract_check(made, str(tmp_path / "far"), unknown="ajet-nobody", remembers=False)


def test_one_call_however_many(launcher: Callable[..., KubernetesLauncher], kubernetes: Any) -> None:
    """300 recorded jobs and their pods are one request each; those of another place are not asked about."""
    made = launcher(claim="work", mount="/data")
    for number in range(300):
        run = f"many-{number:06d}"
        marks = {RUN: run, PLACE: label_value(made.target.key if number else "other")}
        item = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"ajet-{run}", "labels": marks}}
        kubernetes.api.store.put("jobs", item | {"spec": {"suspend": True}, "status": {}} | _in("default", item))
    handles = [Handle(f"many-{number:06d}", f"ajet-many-{number:06d}") for number in range(300)]
    made.poll(handles[:1])  # kubectl learns what there is, and keeps that
    kubernetes.api.asked.clear()
    found = made.poll(handles)
    assert len(found) == 299 and {one.word for one in found.values()} == {"Suspended"}
    assert [line.split("?")[0].rpartition("/")[2] for line in kubernetes.api.asked] == ["jobs", "pods"]


def _in(namespace: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {**item["metadata"], "namespace": namespace}}


def test_another_run_of_that_name(launcher: Callable[..., KubernetesLauncher], kubernetes: Any) -> None:
    """A job that somebody else made is not taken for ours, and not touched."""
    made = launcher(claim="work", mount="/data")
    template = {"spec": {"containers": [{"name": "c"}]}}
    foreign = {"metadata": {"name": "ajet-mine-000000"}, "spec": {"suspend": True, "template": template}}
    kubernetes.api.create("jobs", "default", {"apiVersion": "batch/v1", "kind": "Job", **foreign})
    job = Job("mine-000000", "ajet_mine", "c", "/data/run", ("python3", "x", "y"), "/", 60.0, 1.0)
    with pytest.raises(Declined, match="no job of this run"):
        made.submit(job)
    assert [one["metadata"].get("labels") for one in kubernetes.jobs()] == [None]
