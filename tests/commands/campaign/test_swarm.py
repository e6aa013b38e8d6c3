"""A campaign over a client in swarm mode: a server for each run, and a metric that is never classic mode's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engines.ports import free_port

pytestmark = pytest.mark.system

SAMPLES = Path(__file__).parents[2] / "samples" / "swarm"


def test_each_run_has_its_server_and_the_next_one_the_same_port(camp: Any) -> None:
    bench = camp.bench
    for path in SAMPLES.glob("*.py"):
        shutil.copy(path, bench.repo)
    server = f"- swarm_server: python fake_swarm_server.py --swarm-port={free_port()}\n- swarm_poll: 0.1 s"
    path = bench.blueprint(
        "swarm", command="python agent_roll.py steps=2 evals", trainer="", recipe="recipe.yaml", notes=server
    )
    path.write_text(path.read_text().replace("- direction: maximize\n", ""))
    bench.commit("a client")
    state = camp.run(space={"lr": [0.2, 0.3]}, proposer="grid", count=2, retests=0, confirm=False)
    assert [(row.ending, row.trainer) for row in state.rows] == [("finished", "agentjet_swarm")] * 3, camp.said()
    assert state.spec.objective.metric == "swarm/task_pass_rate@1"
    assert [row.metric_name for row in state.rows] == ["swarm/task_pass_rate@1"] * 3
    assert all(row.metric_value is not None and row.status != "crash" for row in state.rows)
