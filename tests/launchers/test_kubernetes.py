"""The Kubernetes launcher and the real kubectl, against an API server and a cluster of our own making.

No kubelet ever ran a pod here: containers are processes of this machine (tests/engines/kubernetes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.places import Kind, Place
from autoresearch.lab.manifests import manifest
from autoresearch.launchers.kubernetes import KubernetesLauncher

pytestmark = pytest.mark.real


@pytest.fixture
def launcher(kubernetes: Any) -> Callable[..., KubernetesLauncher]:
    """Make a launcher for the test's cluster, with more options."""

    def make(**options: Any) -> KubernetesLauncher:
        place = Place("kubernetes", Kind.KUBERNETES, 2, kubernetes.options(**options))
        return KubernetesLauncher(place, dict(os.environ), manifest)

    return make


@pytest.mark.parametrize("workload", ["job", "rayjob"])
def test_the_contract_with_a_claim(
    contract_check: Any, launcher: Callable[..., KubernetesLauncher], tmp_path: Path, workload: str
) -> None:
    made = launcher(workload=workload, claim="work", mount=str(tmp_path))
    contract_check(made, str(tmp_path / "far"), unknown="ajet-nobody", remembers=False)
