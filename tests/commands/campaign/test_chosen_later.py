"""A campaign whose objective nobody knows: its baseline shows what there is, and `resume --metric` goes on with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

import pytest

from autoresearch.lab.notices.campaign_notices import due_notices
from autoresearch.records.ledger import Ledger
from tests.commands.campaign.test_pauses import paused

pytestmark = pytest.mark.system

FIT = """
import argparse, os, random
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
noise = random.Random(f"{lr} {os.environ['AUTORESEARCH_SEED']}").gauss(0, 0.001)
for n in range(1, 4):
    print(f"pass {n} of 3")
    print(f"fit quality on the grid: {0.3 * n + lr + noise:.6f}")
    print(f"seconds spent: {0.25 * n}")
"""
KEYS: dict[str, object] = {
    "blueprint": "odd.md", "space": {"lr": [0.2, 0.3]}, "proposer": "grid", "count": 3, "baseline": 3, "retests": 0,
    "confirm": False,
}  # fmt: skip
CHOSEN = ("--metric", "fit quality on the grid", "--direction", "maximize")


def begun(camp: Any, text: str = FIT, **keys: object) -> Any:
    """Start it, and wait for the pause."""
    camp.bench.unknown(text)
    camp.bench.commit("a script that nobody knows")
    camp.start(**KEYS | keys)
    return paused(camp)


def measured(state: Any) -> list[float]:
    return [round(value, 2) for value in state.baseline.values]


def test_the_baseline_shows_the_numbers_and_resume_chooses_one(camp: Any) -> None:
    ask = camp.bench.ask
    planned = camp.bench.unknown(FIT) and ask("campaign", camp.file(**KEYS), "--dry-run")["plan"]
    assert planned["objective"] == "chosen after the first baseline runs"
    state = begun(camp)
    assert [row.status for row in state.rows] == ["unmeasured"] * 3, "the planned baseline, and no more"
    logs = [camp.log(row) for row in state.rows]

    found = ask("campaign", "status")
    assert (found["state"], found["metric_name"]) == ("paused", "")
    assert found["reason"].startswith("which of the numbers that its runs printed counts?")
    numbers = {one["name"]: one for one in found["numbers"]}
    assert set(numbers) == {"fit_quality_on_the_grid", "seconds_spent"}
    quality = numbers["fit_quality_on_the_grid"]
    assert (round(quality["first"], 1), round(quality["last"], 1)) == (0.4, 1.0)
    (proposed,) = [one["name"] for one in found["numbers"] if one["proposed"]]
    assert found["next"][0].startswith("autoresearch campaign resume one --metric ") and proposed in found["next"][0]
    _, text, _ = camp.bench.here("campaign", "status")
    assert f"printed: {quality['words']}" in text

    nameless = ask("campaign", "resume", "--detach", check=2)
    assert nameless["error"]["fix"].startswith("autoresearch campaign resume one --metric ")
    typo = ask("campaign", "resume", "--detach", "--metric", "fit", "--direction", "maximize", check=2)["error"]
    assert typo["message"].startswith("fit was not printed; printed: fit_quality_on_the_grid: ")
    undirected = ask("campaign", "resume", "--detach", *CHOSEN[:2], check=2)["error"]
    assert undirected["code"] == "no_direction" and "`--direction maximize`" in undirected["hint"]
    assert ask("campaign", "status")["state"] == "paused" and not camp.place.controlled

    assert ask("campaign", "resume", "--detach", *CHOSEN)["taken"] == ["metric"]
    state = camp.over()
    assert measured(state) == [1.0] * 2 and len(state.baseline.rows) == 3, "no run was made again"
    assert [camp.log(row) for row in state.baseline.rows] == logs
    assert (str(state.spec.objective), state.best.hypothesis.overrides) == (
        "fit quality on the grid, maximize", {"lr": 0.3},
    )  # fmt: skip
    assert {row.metric_name for row in state.rows} == {"fit quality on the grid"}
    run = ask("status", state.baseline.rows[0].run_id)
    assert run["verdict"] == "keep" and round(run["metrics"]["fit quality on the grid"], 2) == 1.0
    seeds = [run.seed for run in state.baseline.runs]
    assert seeds == [seeds[0], seeds[0], seeds[0] + 1] and state.seed_check.seen, "as in any baseline"
    assert [row.status for row in Ledger(camp.place.ledger).rows()][:3] == ["keep"] * 3
    assert "the ledger was not as recorded" not in camp.said()
    assert camp.place.ledger.with_name("results.tsv.edited").exists()
    other = ask("campaign", "status")
    assert (other["numbers"], other["metric_name"]) == ([], "fit quality on the grid")


@pytest.mark.parametrize("point", ["collect.row_written", "collect.measured_again"])
def test_a_kill_while_the_runs_are_measured_loses_nothing(point: str, camp: Any) -> None:
    ask = camp.bench.ask
    before = begun(camp)
    ask("campaign", "resume", "--detach", *CHOSEN, check=None, AUTORESEARCH_FAILPOINT=f"{point}:kill:2")
    camp.bench.until(lambda: not camp.place.controlled)
    assert len(camp.state().baseline.unnamed) == 2, "it was killed at the second one"
    ask("campaign", "resume", "--detach")
    state = camp.over()
    assert measured(state) == [1.0] * 2 and [row.run_id for row in state.rows[:3]] == [r.run_id for r in before.rows]
    assert state.best.hypothesis.overrides == {"lr": 0.3} and "the ledger was not as recorded" not in camp.said()


def test_a_kill_at_the_pause_loses_nothing(camp: Any) -> None:
    camp.bench.unknown(FIT)
    camp.start(**KEYS)
    camp.until(lambda: camp.state().phase == "paused")
    with contextlib.suppress(ProcessLookupError):  # it has left already
        os.kill(json.loads(camp.place.controller.read_bytes())["pid"], signal.SIGKILL)
    state = paused(camp)
    (notice,) = due_notices(state, state.spec.created, "here")
    assert notice.lines[1].endswith(" (proposed)") and " --metric " in notice.lines[-2]
    camp.bench.ask("campaign", "resume", "--detach", *CHOSEN)
    assert measured(camp.over()) == [1.0] * 2


def test_the_notes_may_name_it_too_and_a_script_that_prints_nothing_is_mended(camp: Any) -> None:
    ask = camp.bench.ask
    silent = FIT.replace('    print(f"fit', '    (f"fit').replace('    print(f"seconds', '    (f"seconds')
    state = begun(camp, silent, baseline=2)
    assert "no metric was named, and it printed no number with a name; see " in state.reason
    assert ask("campaign", "status")["numbers"] == []
    (camp.bench.repo / "odd.py").write_text(FIT)
    blueprint = camp.bench.repo / "odd.md"
    blueprint.write_text(blueprint.read_text() + "- metric: fit quality on the grid\n- direction: maximize\n")
    assert "metric" in ask("campaign", "resume", "--detach")["taken"]
    state = camp.over()
    assert measured(state) == [1.0] * 2 and len(state.baseline.rows) == 4, "other code: its baseline is made again"
