"""`doctor --launcher --canary` on a real Slurm of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_a_slurm_cluster(bench: Any, slurm_cluster: Callable[..., Any]) -> None:
    cluster = slurm_cluster(nodes=2)
    said = bench.ask("doctor", "--launcher", "slurm:2", "--canary", **cluster.env)
    (place,) = said["places"]
    facts = {one["name"]: one["value"] for one in place["facts"]}
    assert place["fit"] and place["answers"] and facts["Slurm"][0].isdecimal()
    assert "it read our file" in facts["canary"] and facts["accounting"].startswith("none")
    assert any(name.startswith("partition ") for name in facts)
    assert not list((bench.repo / "reports").rglob(".canary*"))
    code, out, _ = bench.here("doctor", "--launcher", "slurm", **cluster.env)
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines[lines.index("slurm: fit") :])) <= 80


def test_a_partition_that_is_not_there(bench: Any, slurm_cluster: Callable[..., Any]) -> None:
    cluster = slurm_cluster(nodes=1)
    (bench.repo / "autoresearch.yaml").write_text("launchers: {odd: {kind: slurm, partition: nowhere}}\n")
    said = bench.ask("doctor", "--launcher", "odd", check=6, **cluster.env)
    assert [one["code"] for one in said["places"][0]["findings"]] and "nowhere" in str(said["places"][0])
