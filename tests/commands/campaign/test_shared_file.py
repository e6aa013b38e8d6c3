"""A file of metrics that every run of a campaign appends to: runs take turns, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system

TRAINER = """
import sys
recipe = dict(line.split(": ") for line in open(sys.argv[1]).read().splitlines() if ": " in line)
open(sys.argv[2], "a").write('{"step": 1, "task_pass_rate@1": %s}\\n' % recipe["lr"])
print("step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.001", flush=True)
"""


def test_one_run_after_the_other_each_with_its_own_lines(camp: Any) -> None:
    bench = camp.bench
    (bench.repo / "shared.py").write_text(TRAINER)
    shared = bench.root / "shared.jsonl"
    bench.blueprint(
        "ok", command=f"python shared.py recipe.yaml {shared}", notes=f"- source: jsonl {shared}", recipe="recipe.yaml"
    )
    bench.commit("a trainer")
    state = camp.run(space={"lr": [0.2, 0.3]}, proposer="grid", count=3, retests=0, confirm=False)
    assert [row.ending for row in state.rows] == ["finished"] * 4, [row.description for row in state.rows]
    assert [row.metric_value for row in state.rows] == [0.1, 0.1, 0.2, 0.3]
