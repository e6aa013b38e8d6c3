"""A campaign of Kubernetes Jobs: its API server goes away, a pod is preempted."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records import order_file
from autoresearch.records.rundir import RunDir

pytestmark = pytest.mark.real


def why(run_dir: Path) -> str:
    seen = order_file.observed(RunDir(run_dir))
    return seen.reason if seen else ""


def test_a_campaign_of_four_ideas(camp: Any, kubernetes: Any) -> None:
    """Every idea has its row, the preempted run another attempt, and no job was started twice."""
    camp.bench.env["KUBECACHEDIR"] = os.environ["KUBECACHEDIR"]
    options = kubernetes.options(claim="work", mount=str(camp.bench.root), python=sys.executable)
    block = {"kind": "kubernetes", **options}
    (camp.bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"k8s": block}}))
    camp.recipe(mode="hold")
    camp.bench.commit("hold")
    rates = [0.4, 0.2, 0.05]
    keys = {"space": {"lr": rates}, "proposer": "grid", "confirm": False, "baseline": 1, "count": 4, "retests": 0}
    camp.start("--launcher", "k8s:4", **keys)
    cluster = kubernetes.cluster
    camp.until(lambda: len(cluster.started) >= 1 and len(camp.state().live) >= 1)
    first = cluster.started[0]
    run_dirs = {r.run: Path(r.run_dir) for _, r in camp.state().live}
    camp.until(lambda: any((path / "runner.json").exists() for path in run_dirs.values()))
    kubernetes.api.stop()  # first: whoever has seen the end of the run could still have asked
    cluster.disrupt(first, "PreemptionByScheduler", "a pod of higher priority needs the room")
    camp.until(lambda: any("its launcher is asked why" in why(path) for path in run_dirs.values()))
    kubernetes.api.start()
    camp.go.touch()
    state = camp.over()
    assert state.attempted == 4, camp.said()
    endings = sorted((row.ending, row.failure if row.ending == "lost" else "") for row in state.rows)
    assert endings == [("finished", "")] * 4 + [("lost", "preempted")], camp.said()
    assert len(cluster.started) == len(set(cluster.started)) == 5
    assert {row.launcher for row in state.rows} == {"kubernetes/k8s"}
    camp.bench.until(lambda: not any(kubernetes.jobs(kind) for kind in ("jobs", "pods")))
