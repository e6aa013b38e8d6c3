"""`screen` in a real campaign: a run that would train for ever is ended by its curve, and the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.campaign_records import CampaignDir
from tests.commands.rows import ledger_rows

pytestmark = pytest.mark.system

# It prints a validation at steps 0, 10, 20 and 30, the second one a second later. A level below 0.3 comes to no end.
TRAINER = """
import json, os, sys, time
level = float(open("recipe.yaml").read().split("level:")[1].split()[0])
seed = int(os.environ["AUTORESEARCH_SEED"])
print(f"config {{}}", flush=True)
for step in range(0, 40, 10):
    print(f"step:{step} - actor/kl_loss:0.001 - actor/pg_loss:0.1", flush=True)
    value = 0.1 + (level - 0.1 + seed % 7 / 1000) * step / 30
    print(f"step:{step} - global_steps:{step} - pass_n:2 - task_pass_rate@1:{value}", flush=True)
    if step == 0:
        time.sleep(1)
    if level < 0.3 and step >= 10:
        time.sleep(600)
"""


def campaign_of(bench: Any, trainer: str, recipe: str, **levels: float) -> tuple[object, ...]:
    """The line that starts a campaign of ideas with these levels."""
    ideas = [{"slug": slug.replace("_", "-"), "overrides": {"level": level}} for slug, level in levels.items()]
    for name, text in (("trainer.py", trainer), ("recipe.yaml", recipe), ("ideas.yaml", json.dumps(ideas))):
        (bench.repo / name).write_text(text)
    bench.git("add", "-A")
    bench.git("commit", "-qm", "a trainer")
    path = bench.blueprint("screen", command="python trainer.py")
    path.write_text(path.read_text().replace("- path: NA", "- path: recipe.yaml"))
    return "campaign", path.name, "--queue", "ideas.yaml", "--count", 1 + len(ideas), "--set", "confirm=false"


def test_a_campaign_screens_and_a_proof_recalls(bench: Any) -> None:
    words = campaign_of(bench, TRAINER, "level: 0.5\n", as_good=0.49, hopeless=0.2)

    code, out, _ = bench.here(*words, "--set", "screen=median", "--json")
    assert code == 2 and "screen" in json.loads(out)["error"]["message"]
    planned = bench.ask(*words, "--set", "screen=1s", "--dry-run")
    assert planned["state"] == "planned" and planned["plan"]["screen"].startswith("first runs, after 1s")

    begun = bench.ask(*words, "--set", "screen=1s", "--yes", "--detach")
    place = Path(begun["directory"])
    bench.until(lambda: (place / "finish.flag").exists())
    rows = {row["run_id"].rpartition("-")[0]: row for row in ledger_rows(begun["ledger"])}
    row = rows["hopeless"]
    assert (row["status"], row["failure"], row["ending"], row["metric_step"]) == ("screened", "", "stopped", "10")
    assert "[screened: 0.133" in row["description"] and "clearly behind 0.23" in row["description"]
    assert {r["ending"] for name, r in rows.items() if name != "hopeless"} == {"finished"}
    assert rows["as-good"]["status"] == "discard"
    said = (place / "controller.log").read_text()
    assert "[3/3] #3 level=0.2, run 1: screened" in said, said
    told = bench.ask("campaign", "status")
    assert (told["attempted"], told["standings"]["screened"]) == (3, 1)
    bench.until(lambda: not CampaignDir(place).controlled)
    bench.ask("campaign", "confirm", "hopeless")

    def is_recalled() -> bool:
        """Whether its whole run lives, or is over already."""
        runs = [*bench.ask("campaign", "status")["running"], *ledger_rows(begun["ledger"])]
        return sum((run.get("run") or run["run_id"]).startswith("hopeless") for run in runs) > 1

    bench.until(is_recalled)
    bench.ask("campaign", "stop")
    bench.until(lambda: not bench.carriers())


# Its level shows after `steps`, and a run of all of them takes a second.
CHEAP = """
import os
print("config {}", flush=True)
recipe = dict(line.split(": ") for line in open("recipe.yaml").read().splitlines())
steps, level, seed = int(recipe["steps"]), float(recipe["level"]), int(os.environ["AUTORESEARCH_SEED"])
if level > 0.9 and steps < 50:
    raise SystemExit("too few steps for such a level")
for step in range(0, steps + 1, 10):
    value = level * step / 100 + seed % 7 / 1000
    print(f"step:{step} - actor/kl_loss:0.001 - actor/pg_loss:0.1", flush=True)
    print(f"step:{step} - global_steps:{step} - pass_n:2 - task_pass_rate@1:{value:.4f}", flush=True)
"""


@pytest.mark.parametrize("failpoint", ["", "campaign.gone:kill:7", "campaign.recorded:kill:9"])
def test_each_idea_runs_with_cheap_settings_first(bench: Any, failpoint: str) -> None:
    """Also where the controller is killed: while the baseline runs so, and with the verdict on an idea."""
    words = campaign_of(bench, CHEAP, "level: 0.5\nsteps: 100\n", better=0.6, hopeless=0.2, needs_more=0.95)

    code, out, _ = bench.here(*words, "--set", "screen={overrides: {}}", "--json")
    assert code == 2 and "neither a duration nor settings" in json.loads(out)["error"]["message"]
    screen = ("--set", "screen={overrides: {steps: 20}}")
    plan = bench.ask(*words, *screen, "--dry-run")["plan"]
    assert plan["screen"].startswith("each idea with steps=20 first, as 3 runs of the baseline")
    assert "6 cheap ones before them" in plan["runs"]

    begun = bench.ask(*words, *screen, "--yes", "--detach", AUTORESEARCH_FAILPOINT=failpoint)
    place = Path(begun["directory"])
    if failpoint:
        bench.until(lambda: not CampaignDir(place).controlled)
        bench.ask("campaign", "resume", place.name, "--detach")
    bench.until(lambda: (place / "finish.flag").exists())
    rows = ledger_rows(begun["ledger"])
    runs = [(row["index"], row["status"], row["standing"], row["seed"], row["metric_step"]) for row in rows]
    cheap = [run[1:] for run in runs if run[0] == "1"][-3:]
    assert cheap == [("screened", "screened", str(seed), "20") for seed in range(3)]
    better, hopeless, needs_more = ([run[1:] for run in runs if run[0] == index] for index in "234")
    assert better[0] == ("screened", "pending", "0", "20") and better[1][2:] == ("0", "100")  # the seed is the same
    assert better[-1][:2] == ("keep", "keep") and [run[2] for run in better[1:]] == list("0123")
    assert hopeless == [("screened", "screened", "0", "20")]
    assert needs_more[0][:2] == ("crash", "pending") and needs_more[-1][:2] == ("keep", "keep")
    told = bench.ask("campaign", "status")
    assert (told["attempted"], told["standings"]["screened"], told["kept"]) == (4, 1, 2), told
    branch = f"autoresearch/{place.name}/better"
    assert "steps: 100" in bench.git("show", f"{branch}:recipe.yaml")
    assert "steps: 20" in bench.git("show", f"{branch}-screen:recipe.yaml")
