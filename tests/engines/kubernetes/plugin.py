"""Fixtures: a cluster that the real kubectl reaches by a kubeconfig of its own. See `api_server` and `controller`."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
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


LEAST = (1, 27)  # the first whose unknown fields the server checks (`fieldValidation`); Debian 12 has 1.20


@functools.cache
def _why_not() -> str:
    """Why no test can talk to a cluster here; "" where it can."""
    if shutil.which("kubectl") is None:
        return "kubectl is missing, and nothing else talks to a cluster"
    said = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, timeout=60, check=False
    )
    found = re.search(r'"gitVersion": "v(\d+)\.(\d+)', said.stdout.decode())
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return "" if version >= LEAST else f"kubectl {version[0]}.{version[1]} is older than 1.27, which asks in other ways"


@pytest.fixture
def kubernetes(clean_environment: Path, reaper: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A running cluster; the test is skipped where kubectl is missing."""
    if why := _why_not():
        pytest.skip(f"these tests show what the real kubectl, 1.27 or newer, is told and says: {why}")
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
