"""Fixtures: a Slurm of the test's own; a test that cannot have one is skipped, and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines.slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm_is_there() -> None:
    """For extended tests with a real Slurm: its daemons have to be installed, and need root for their GPUs."""
    if why := missing():
        pytest.skip(f"a Slurm of our own needs its daemons (slurm-wlm) and root: {why}")


@pytest.fixture
def slurm_cluster(slurm_is_there: None) -> Iterator[Callable[..., Cluster]]:
    """Start a cluster with what the test asks for (see `Cluster`); it is gone after the test."""
    made: list[Cluster] = []

    def start(**wanted: Any) -> Cluster:
        made.append(Cluster(**wanted))
        return made[-1].up()

    yield start
    for one in made:
        one.down()


PREEMPTING = {
    "more": ("PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"),
    "partitions": (
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1",
        "PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10",
        "PartitionName=short Nodes=ALL MaxTime=00:10:00 State=UP PriorityTier=1",
    ),
}


@pytest.fixture(scope="module")
def slurm(slurm_is_there: None) -> Iterator[Cluster]:
    """Four nodes with two GPUs each, shared by the tests of one file; a job in `urgent` preempts one in `batch`."""
    cluster = Cluster(nodes=4, gpus=2, more=PREEMPTING["more"], partitions=PREEMPTING["partitions"]).up()
    yield cluster
    cluster.down()
