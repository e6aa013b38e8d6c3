"""Fixtures: a cluster that the real kubectl reaches by a kubeconfig of its own. See `api_server` and `controller`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.kubernetes.api_server import ApiServer
from tests.engines.kubernetes.controller import PULLED, Cluster


@dataclass
class Kubernetes:
    """A cluster and how it is reached."""

    api: ApiServer
    cluster: Cluster
    kubeconfig: Path
    folder: Path

    def options(self, **more: Any) -> dict[str, Any]:
        """Options of a place that is this cluster."""
        return {"kubeconfig": str(self.kubeconfig), "image": PULLED, **more}

    def jobs(self, resource: str = "jobs") -> list[dict[str, Any]]:
        """What there is of them now."""
        return self.api.store.find(resource, "default")


@pytest.fixture
def kubernetes(clean_environment: Path, reaper: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A running cluster; the test is skipped where kubectl is missing."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is missing, and nothing else talks to a cluster")
    from tests.engines.kubernetes.schema import complaint

    folder = clean_environment / "cluster"
    monkeypatch.setenv("KUBECACHEDIR", str(clean_environment / "kubecache"))
    api = ApiServer(complaint)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "work"}}
    api.create("persistentvolumeclaims", "default", claim)
    api.start()
    cluster = Cluster(api, folder, dict(os.environ))
    cluster.start()
    kubeconfig = clean_environment / "kubeconfig"
    kubeconfig.write_text(json.dumps(api.kubeconfig()))
    yield Kubernetes(api, cluster, kubeconfig, folder)
    cluster.stop()
    api.stop()
    assert not cluster.faults, f"the cluster itself failed: {cluster.faults}"
