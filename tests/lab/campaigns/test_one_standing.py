"""Whole simulated campaigns, as status, report, page, brief and notices tell of them: one standing of each idea.

Numbers in one sentence are of the same runs and subtract as printed; counts equal the rows that are shown; equal runs
are counted in one way.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autoresearch.commands.campaign_view import payload_of
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, measured
from autoresearch.core.controller.rules import stand_at
from autoresearch.core.statistics.noise import mean
from autoresearch.lab.campaign_report.memory import brief
from autoresearch.lab.campaign_report.report import page_data, write_report
from autoresearch.lab.notices.campaign_notices import due_notices, end_notice
from autoresearch.records.campaign_records import CampaignDir
from tests.bench.simulated import Simulation, World

pytestmark = pytest.mark.system
SUBTRACTS = re.compile(r"reward (\S+), ([+-]\S+) against the baseline's ([^\s;,)]+)")
WORLDS = {
    "plain": World(ideas=16, share=0.3, effect=3.0),
    "a loss, with failures": World(ideas=16, share=0.3, effect=3.0, minimise=True, failing=0.1, lost=0.05),
    "collapsing": World(ideas=14, share=0.3, effect=3.0, noise="collapsing"),
    "apart, diverging": World(ideas=14, share=0.4, effect=4.0, apart=True, diverging=0.2),
    "copies": World(ideas=10, share=0.3, effect=3.0, seeding="constant"),
    "nothing works": World(ideas=10, share=0.0),
}


def ended(world: World, seed: int, folder: Path) -> CampaignState:
    simulation = Simulation(world, seed)
    simulation.play()
    spec = replace(simulation.state.spec, directory=str(folder), repository=str(folder), blueprint=str(folder / "e.md"))
    return replace(simulation.state, spec=spec, phase=CampaignPhase.ENDED, reason="all ideas were tried")


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_that_is_told_of_a_campaign_agrees(name: str, seed: int, tmp_path: Path) -> None:
    place, state = CampaignDir(tmp_path), ended(WORLDS[name], seed, tmp_path)
    now = max(row.ended or 0.0 for row in state.rows)
    stand = stand_at(state, now)
    status, page = payload_of(place, state), page_data(place, state, stand, now)
    with mock.patch("autoresearch.lab.campaign_report.report.write_png"):
        markdown = write_report(place, state, stand, now=now).markdown.read_text()
    notices = [*due_notices(state, now, "host"), end_notice(state, "all ideas were tried", "host")]
    told = [line for notice in notices for line in notice.lines]
    whole = "\n".join([*brief(state, stand), markdown, *told, *(idea["words"] for idea in page["ideas"])])

    difference_is_that_of_the_values_beside_it(whole)
    counts_equal_the_rows(status, page, markdown, notices[-1].title)
    values_are_the_means_of_the_runs_that_are_counted(state, page["ideas"])
    best = next(idea for idea in page["ideas"] if idea["slug"] == status["best"])
    assert status["best_shown"]["sentence"] == best["sentence"] and f"best: {best['sentence']}" in whole
    assert best["words"] in markdown and best["words"] in "\n".join(told)
    assert [one["sentence"] for one in status["claims"]] == [i["sentence"] for i in page["ideas"] if i["claim"]]


def difference_is_that_of_the_values_beside_it(text: str) -> None:
    found = SUBTRACTS.findall(text)
    assert len(found) > 10
    for value, change, baseline in found:
        assert Decimal(value) - Decimal(baseline) == Decimal(change), (value, change, baseline)


def counts_equal_the_rows(status: dict[str, Any], page: dict[str, Any], markdown: str, title: str) -> None:
    words = Counter(idea["standing"] for idea in page["ideas"])
    rows = [line for line in markdown.splitlines() if line.startswith("| #")]
    points = Counter(point["standing"] for point in page["progress"]["points"])
    assert words == status["standings"] == points and len(rows) == len(page["ideas"]) == status["attempted"]
    kept, confirmed = words["kept"] + words["confirmed"], words["confirmed"]
    counted = f"{status['attempted']} ideas, {kept} kept, {confirmed} confirmed"
    assert (status["kept"], len(status["confirmed"])) == (kept, confirmed)
    assert page["subtitle"] == counted and counted in title and counted in page["outcome"][0] and counted in markdown


def values_are_the_means_of_the_runs_that_are_counted(state: CampaignState, ideas: list[dict[str, Any]]) -> None:
    """Of the fresh runs of both sides where the idea was put to the proof, of those of the search elsewhere."""
    sign = state.spec.objective.change(1.0)
    assert state.baseline is not None
    for idea, one in zip(state.ideas, ideas, strict=True):
        if one["value"] is None or one["basis"] == "baseline":
            continue
        assert one["gain"] == pytest.approx(sign * (one["value"] - one["baseline"]), rel=1e-4, abs=1e-4)
        if one["basis"] == "fresh runs":
            number = max(run.round for run in idea.runs)
            for side, of, n in ((idea, "value", "n"), (state.baseline, "baseline", "n_baseline")):
                fresh = [value for value in side.fresh_values(number) if value is not None]
                assert one[of] == pytest.approx(mean(fresh[: one[n]]), rel=1e-5)
        else:
            assert one["n"] + one["failed"] == len([row for row in idea.judged if row.run_id not in idea.copies])
            assert one["n"] <= sum(measured(row) is not None for row in idea.judged)
