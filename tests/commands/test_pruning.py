"""Early stopping in a real campaign: a run that would train for ever is ended by its curve, and the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

# It prints a validation at steps 0, 10, 20 and 30; a level below 0.3 is a run that never comes to its end.
TRAINER = """
import json, sys, time
level = float(open("recipe.yaml").read().split("level:")[1].split()[0])
print(f"config {{}}", flush=True)
for step in range(0, 40, 10):
    print(f"step:{step} - actor/kl_loss:0.001 - actor/pg_loss:0.1", flush=True)
    value = 0.1 + (level - 0.1) * step / 30
    print(f"step:{step} - global_steps:{step} - pass_n:2 - task_pass_rate@1:{value}", flush=True)
    if level < 0.3 and step >= 10:
        time.sleep(600)
"""


def test_a_campaign_prunes(bench: Any) -> None:
    (bench.repo / "trainer.py").write_text(TRAINER)
    (bench.repo / "recipe.yaml").write_text("level: 0.5\n")
    (bench.repo / "ideas.yaml").write_text(
        "- {slug: as-good, overrides: {level: 0.49}}\n- {slug: hopeless, overrides: {level: 0.2}}\n"
    )
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a trainer")
    path = bench.blueprint("prune", command="python trainer.py")
    path.write_text(path.read_text().replace("- path: NA", "- path: recipe.yaml"))
    words = ("campaign", path.name, "--queue", "ideas.yaml", "--count", 3, "--set", "confirm=false")

    code, out, _ = bench.here(*words, "--set", "prune=median", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "no_warmup")
    code, out, _ = bench.here(*words, "--set", "prune=best", "--set", "warmup=5", "--json")
    assert code == 2 and "'best' is not median" in json.loads(out)["error"]["message"]
    planned = bench.ask(*words, "--set", "prune=median", "--set", "warmup=5", "--dry-run")
    assert planned["state"] == "planned" and planned["plan"]["early stop"].startswith("median, after step 5")

    begun = bench.ask(*words, "--set", "prune=median", "--set", "warmup=5", "--yes", "--detach")
    place = Path(begun["directory"])
    bench.until(lambda: (place / "finish.flag").exists())
    rows = {row["run_id"].rpartition("-")[0]: row for row in ledger_rows(begun["ledger"])}
    row = rows["hopeless"]
    assert (row["status"], row["failure"], row["ending"], row["metric_step"]) == ("discard", "pruned", "stopped", "10")
    assert "[pruned: 0.1333 at step 10, behind 0.2333 of 4 other runs]" in row["description"]
    assert {r["ending"] for name, r in rows.items() if name != "hopeless"} == {"finished"}
    assert rows["as-good"]["failure"] == ""
    said = (place / "controller.log").read_text()
    assert "[3/3] #3 level=0.2, run 1: discard" in said and "[pruned]" in said, said
    assert bench.ask("campaign", "status")["attempted"] == 3

    bench.until(lambda: not bench.carriers())
