"""Fixtures: a Slurm of the test's own; a test that cannot have one is skipped, and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines.slurm.cluster import Cluster, missing


@pytest.fixture
def slurm_cluster() -> Iterator[Callable[..., Cluster]]:
    """Start a cluster with what the test asks for (see `Cluster`); it is gone after the test."""
    if why := missing():
        pytest.skip(why)
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
def slurm() -> Iterator[Cluster]:
    """Four nodes with two GPUs each, shared by the tests of one file; a job in `urgent` preempts one in `batch`."""
    if why := missing():
        pytest.skip(why)
    cluster = Cluster(nodes=4, gpus=2, more=PREEMPTING["more"], partitions=PREEMPTING["partitions"]).up()
    yield cluster
    cluster.down()
